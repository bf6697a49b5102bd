#include "nccl_plugin/command/plan/preset_job.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/estimate/gpus.h"
#include "nccl_plugin/command/estimate/quantities.h"
#include "nccl_plugin/command/plan/presets.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/hint.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr const char* kWithoutGpu = "none";
constexpr const char* kUsualCodec = "q4";
// Backward has twice the operations of forward.
constexpr double kForward = 1.0 / 3;
constexpr double kBetweenLatency = 15e-6;
constexpr double kWithinLatency = 5e-6;
constexpr double kSharedMemoryRate = 12.5e9;

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

std::vector<Parameter> parameters_of(const std::string& preset) {
  auto parameters = preset_parameters(preset);
  if (parameters) return std::move(*parameters);
  throw terminal::Error(fmt::format("--preset {}: there is none{}; there are {}", preset,
                                    terminal::hint_at(preset, preset_names()),
                                    joined(preset_names())));
}

/// Null: on host memory.
const Gpu* gpu_of_preset(const std::string& name) {
  if (name == kWithoutGpu) return nullptr;
  if (const Gpu* const gpu = find_gpu(name)) return gpu;
  throw terminal::Error(fmt::format("--gpu {}: it is not in the table{}; there are {} and none",
                                    name, terminal::hint_at(name, gpu_names()),
                                    joined(gpu_names())));
}

DType dtype_of(const PresetOptions& options, const Gpu* gpu) {
  const bool is_on_host = gpu == nullptr;
  if (options.dtype.empty()) return is_on_host ? DType::kFloat32 : DType::kBfloat16;
  const DType dtype = read_dtype("--dtype", options.dtype);
  if (!is_on_host || dtype == DType::kFloat32) return dtype;
  throw terminal::Error("--dtype " + options.dtype +
                        ": with --gpu none calls are planned with fp32 alone");
}

espresso::Cluster cluster_of(const PresetOptions& options, const Gpu* gpu) {
  const bool is_whole =
      options.gpus >= 2 && options.per_host >= 1 && options.gpus % options.per_host == 0;
  if (!is_whole) {
    throw terminal::Error(
        fmt::format("--gpus {} --per-host {}: there must be two ranks at least, "
                    "as many on each host",
                    options.gpus, options.per_host));
  }
  espresso::Cluster cluster;
  cluster.machines = static_cast<std::size_t>(options.gpus / options.per_host);
  cluster.gpus_per_machine = static_cast<std::size_t>(options.per_host);
  cluster.inside = {kWithinLatency,
                    gpu == nullptr ? kSharedMemoryRate : 1e9 * gpu->inside_gigabytes_per_second};
  cluster.between = {kBetweenLatency, read_rate("--net", options.net)};
  return cluster;
}

espresso::CodecCost cost_of_operation(const OperationCost& cost) {
  return {cost.start_seconds, cost.seconds_per_byte};
}

espresso::Compressor compressor_of(const PresetOptions& options, const Gpu& gpu, DType dtype) {
  const std::string codec = options.codec.empty() ? kUsualCodec : options.codec;
  Result<CodecSpeed> measured = compress_kernels::measure_codec(codec, dtype);
  if (!measured.is_ok()) {
    throw terminal::Error("--codec " + codec + ": " + measured.status().message());
  }
  CodecSpeed here = std::move(measured).value();
  here.codec = codec;
  const std::optional<CodecSpeed> speed = speed_on(gpu, here, dtype);
  if (!speed || speed->ratio >= 1) {
    throw terminal::Error("--codec " + codec + ": " +
                          (speed ? "it sends no fewer bytes"
                                 : "how quick its kernels are is not known: they were not "
                                   "measured"));
  }
  espresso::Compressor compressor;
  compressor.name = codec;
  compressor.ratio = speed->ratio;
  compressor.gpu = {cost_of_operation(speed->encode), cost_of_operation(speed->decode)};
  return compressor;
}

std::vector<espresso::Tensor> tensors_of(const std::vector<Parameter>& parameters, DType dtype,
                                         double backward_seconds) {
  double operations = 0;
  for (const Parameter& one : parameters) operations += one.operations;
  std::vector<espresso::Tensor> tensors;
  for (auto one = parameters.rbegin(); one != parameters.rend(); ++one) {
    tensors.push_back({one->name, static_cast<std::size_t>(one->count) * dtype_size(dtype),
                       backward_seconds * one->operations / operations});
  }
  return tensors;
}

}  // namespace

espresso::Job make_preset_job(const PresetOptions& options) {
  const std::vector<Parameter> parameters = parameters_of(options.preset);
  const double step = options.step_ms / 1e3;
  if (!(step > 0) || !std::isfinite(step)) {
    throw terminal::Error(
        fmt::format("--step-ms {}: --preset needs the milliseconds of a step without "
                    "communication, above 0",
                    options.step_ms));
  }
  const Gpu* const gpu = gpu_of_preset(options.gpu);
  const DType dtype = dtype_of(options, gpu);
  espresso::Job job;
  job.name = fmt::format("{}, {}, {}", options.preset, dtype_name(dtype), options.net);
  job.note = "times are spread over tensors by their operations, not measured";
  job.cluster = cluster_of(options, gpu);
  if (gpu != nullptr) job.compressor = compressor_of(options, *gpu, dtype);
  job.forward_seconds = kForward * step;
  job.tensors = tensors_of(parameters, dtype, (1 - kForward) * step);
  return job;
}

}  // namespace ringpress::nccl_plugin::command
