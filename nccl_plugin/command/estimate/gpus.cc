#include "nccl_plugin/command/estimate/gpus.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "compress_kernels/factory.h"

namespace ringpress::nccl_plugin::command {
namespace {

// Rates of memory and of links between GPUs are those of NVIDIA's data sheets: B200 (HGX), H200 and
// H100 (SXM), A100 (SXM, 80 GB), L40S, V100 (SXM2), T4, GeForce RTX 4090. NVLink is half of what is
// published, which counts both ways; cards without it have what PCI Express of their generation
// has, 16 lanes one way.
constexpr Gpu kGpus[] = {
    {"b200", 8000, 900, "NVLink"},    {"h200", 4800, 450, "NVLink", true},
    {"h100", 3350, 450, "NVLink"},    {"a100", 2039, 300, "NVLink"},
    {"l40s", 864, 32, "PCI Express"}, {"v100", 900, 150, "NVLink"},
    {"t4", 320, 16, "PCI Express"},   {"rtx4090", 1008, 32, "PCI Express"},
};
// On which the kernels below were measured.
constexpr double kMeasuredMemoryRate = 4800;

// perf/results/gpu-codec-perf.json: 1 GiB of values, an H200 (a test compares the two).
constexpr KernelRates kKernelRates[] = {
    {"fp16", DType::kFloat32, 2770, 3943, 3763, 2221},
    {"bf16", DType::kFloat32, 4030, 3889, 3818, 3429},
    {"fp8:block=128,format=e4m3,round=nearest", DType::kFloat32, 1631, 3481, 3657, 1357},
    {"sign:block=1024", DType::kFloat32, 680, 1841, 2563, 479},
    {"tern:block=128,clip=0", DType::kFloat32, 1116, 2746, 3051, 821},
    {"q1:block=128,grid=uniform,round=nearest", DType::kFloat32, 691, 1864, 2555, 487},
    {"q2:block=128,grid=uniform,round=nearest", DType::kFloat32, 763, 1959, 2701, 422},
    {"q3:block=128,grid=uniform,round=nearest", DType::kFloat32, 776, 1957, 2592, 434},
    {"q4:block=128,grid=uniform,round=nearest", DType::kFloat32, 3401, 4013, 3631, 3120},
    {"q5:block=128,grid=uniform,round=nearest", DType::kFloat32, 819, 1990, 2729, 473},
    {"q6:block=128,grid=uniform,round=nearest", DType::kFloat32, 849, 2029, 2992, 503},
    {"q7:block=128,grid=uniform,round=nearest", DType::kFloat32, 1015, 2344, 2858, 725},
    {"q8:block=128,grid=uniform,round=nearest", DType::kFloat32, 4054, 4024, 3724, 4046},
    {"qsgd:bits=4,block=512,norm=bucket,round=stochastic", DType::kFloat32, 940, 2215, 1801, 597},
    {"qsgd-ms:bits=4/8,block=512,norm=bucket,round=stochastic", DType::kFloat32, 658, 1640, 1349,
     363},
    {"fp16", DType::kBfloat16, 1992, 3762, 3732, 1652},
    {"bf16", DType::kBfloat16, 3692, 0, 3964, 2721},
    {"fp8:block=128,format=e4m3,round=nearest", DType::kBfloat16, 1002, 2883, 3118, 935},
    {"sign:block=1024", DType::kBfloat16, 316, 1294, 1271, 204},
    {"tern:block=128,clip=0", DType::kBfloat16, 500, 1847, 1618, 387},
    {"q1:block=128,grid=uniform,round=nearest", DType::kBfloat16, 320, 1302, 1268, 207},
    {"q2:block=128,grid=uniform,round=nearest", DType::kBfloat16, 366, 1440, 1365, 198},
    {"q3:block=128,grid=uniform,round=nearest", DType::kBfloat16, 381, 1443, 1351, 217},
    {"q4:block=128,grid=uniform,round=nearest", DType::kBfloat16, 2042, 3977, 3689, 1860},
    {"q5:block=128,grid=uniform,round=nearest", DType::kBfloat16, 420, 1471, 1486, 254},
    {"q6:block=128,grid=uniform,round=nearest", DType::kBfloat16, 445, 1504, 1656, 274},
    {"q7:block=128,grid=uniform,round=nearest", DType::kBfloat16, 531, 1693, 1620, 386},
    {"q8:block=128,grid=uniform,round=nearest", DType::kBfloat16, 4000, 3974, 3795, 3648},
    {"qsgd:bits=4,block=512,norm=bucket,round=stochastic", DType::kBfloat16, 528, 1770, 955, 327},
    {"qsgd-ms:bits=4/8,block=512,norm=bucket,round=stochastic", DType::kBfloat16, 386, 1327, 732,
     210},
};

// From the host's call to the kernel's first work, as CUDA kernels usually take.
constexpr double kLaunchSeconds = 5e-6;
constexpr double kResidualBytes = 4;  // A value's residual is a float32.

/// Of `bytes` read and written for each byte of values.
OperationCost cost_at(double gigabytes_per_second, double bytes) {
  return {kLaunchSeconds, bytes / (1e9 * gigabytes_per_second)};
}

}  // namespace

const Gpu* find_gpu(const std::string& name) {
  std::string small;
  for (const char letter : name) {
    if (letter == ' ' || letter == '-' || letter == '_') continue;
    small += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  const auto* const found = std::find_if(std::begin(kGpus), std::end(kGpus),
                                         [&](const Gpu& gpu) { return small == gpu.name; });
  return found == std::end(kGpus) ? nullptr : found;
}

std::vector<std::string_view> gpu_names() {
  std::vector<std::string_view> names;
  for (const Gpu& gpu : kGpus) names.emplace_back(gpu.name);
  return names;
}

const KernelRates* find_kernel_rates(const std::string& codec, DType dtype) {
  const auto normal = compress_kernels::normalize_specification(codec);
  if (!normal.is_ok()) return nullptr;
  const DType measured = dtype == DType::kFloat16 ? DType::kBfloat16 : dtype;
  const auto* const found =
      std::find_if(std::begin(kKernelRates), std::end(kKernelRates), [&](const KernelRates& rates) {
        return rates.dtype == measured && normal.value() == rates.codec;
      });
  return found == std::end(kKernelRates) ? nullptr : found;
}

std::optional<CodecSpeed> speed_on(const Gpu& gpu, const CodecSpeed& measured_on_cpu, DType dtype) {
  const KernelRates* const rates = find_kernel_rates(measured_on_cpu.codec, dtype);
  if (rates == nullptr) return std::nullopt;
  const double faster = gpu.memory_gigabytes_per_second / kMeasuredMemoryRate;
  const double ratio = measured_on_cpu.ratio;
  const auto need = compress_kernels::feedback_need(measured_on_cpu.codec);
  const bool has_feedback = rates->encode_with_feedback > 0 && need.is_ok() &&
                            need.value() != compress_kernels::FeedbackNeed::kNone;
  CodecSpeed speed = measured_on_cpu;
  // Values are read and codes written; a residual is read and written besides.
  const double residual = 2 * kResidualBytes / static_cast<double>(dtype_size(dtype));
  speed.encode = has_feedback ? cost_at(faster * rates->encode_with_feedback, 1 + residual + ratio)
                              : cost_at(faster * rates->encode, 1 + ratio);
  speed.decode = cost_at(faster * rates->decode, 1 + ratio);
  speed.hop = cost_at(faster * rates->hop, 1 + 2 * ratio);
  speed.look = {};
  // What ranks agree on is measured by kernels, too: as quick as an encoding.
  if (speed.agreement.rounds > 0) speed.agreement.summarise = cost_at(faster * rates->encode, 1);
  return speed;
}

}  // namespace ringpress::nccl_plugin::command
