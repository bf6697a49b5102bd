// ringpress plan: what Espresso's planner says about a job file.
#ifndef NCCL_PLUGIN_COMMAND_PLAN_PLAN_H_
#define NCCL_PLUGIN_COMMAND_PLAN_PLAN_H_

#include <string>

#include "nccl_plugin/command/plan/preset_job.h"

namespace ringpress::nccl_plugin::command {

struct PlanOptions {
  std::string job_file;  // Empty: of the preset.
  PresetOptions preset;
  std::string rules_file;           // Empty: no rules are written.
  std::string svg_file;             // Empty: no picture.
  std::string options = "engine";   // engine | tree: what the library runs, or all of the paper's.
  std::string codec;                // Of a job that names no compressor; empty: q4.
  std::string search = "repeated";  // repeated | paper
  bool summary = false;             // No line for each tensor.
  bool json = false;                // For programs.
};

/// Prints plan and predictions, writes picture and rules. Returns the exit status: 2 for a bad job
/// file. Throws terminal::Error for options of a preset that cannot be.
int print_plan(const PlanOptions& options);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_PLAN_H_
