// A job for the planner, made of a model's published shape and a few numbers of machines.
#ifndef NCCL_PLUGIN_COMMAND_PLAN_PRESET_JOB_H_
#define NCCL_PLUGIN_COMMAND_PLAN_PRESET_JOB_H_

#include <string>

#include "ringpress/internal/espresso.h"

namespace ringpress::nccl_plugin::command {

/// As on the command line.
struct PresetOptions {
  std::string preset;  // gpt2; empty: the job is a file.
  std::string dtype;   // Of gradients; empty: bf16, on host memory fp32.
  int gpus = 16;
  int per_host = 8;
  std::string net = "100gbit";
  std::string gpu = "h100";  // none: on host memory.
  double step_ms = 0;        // Without communication.
  std::string codec;         // Empty: q4.
};

/// Tensors stand in the order of backward; the step's time is spread over them by their
/// floating-point operations, two thirds of it backward. Without a GPU the job has no compressor.
/// Throws terminal::Error for a mistake in the options, which it names.
espresso::Job make_preset_job(const PresetOptions& options);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_PRESET_JOB_H_
