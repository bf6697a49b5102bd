// GPUs: how fast their memory and their links are, and how fast kernels of codecs are on them.
#ifndef NCCL_PLUGIN_COMMAND_ESTIMATE_GPUS_H_
#define NCCL_PLUGIN_COMMAND_ESTIMATE_GPUS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin::command {

struct Gpu {
  const char* name;
  double memory_gigabytes_per_second;  // As published.
  double inside_gigabytes_per_second;  // To other GPUs of its host, one way, as published.
  const char* link;                    // What that is of.
  bool is_measured = false;            // Kernels were measured on it; else they are predicted.
};

/// As people type it, either case; null: it is not in the table.
const Gpu* find_gpu(const std::string& name);
std::vector<std::string_view> gpu_names();

/// What kernels do of one codec, in gigabytes a second that are read and written.
struct KernelRates {
  const char* codec;  // Normalized.
  DType dtype;
  double encode;
  double encode_with_feedback;  // 0: not measured.
  double decode;
  double hop;
};

/// Of the GPU on which they were measured. Null: this codec's kernels were not. float16 has those
/// of bfloat16, which has as many bytes.
const KernelRates* find_kernel_rates(const std::string& codec, DType dtype);

/// `measured_on_cpu` with the times of kernels on `gpu` in place of those of a core: predicted by
/// the memory's rate where they were not measured there. Nothing: this codec's kernels were not.
std::optional<CodecSpeed> speed_on(const Gpu& gpu, const CodecSpeed& measured_on_cpu, DType dtype);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_ESTIMATE_GPUS_H_
