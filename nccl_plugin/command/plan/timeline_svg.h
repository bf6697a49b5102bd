// The picture of planned steps.
#ifndef NCCL_PLUGIN_COMMAND_PLAN_TIMELINE_SVG_H_
#define NCCL_PLUGIN_COMMAND_PLAN_TIMELINE_SVG_H_

#include <string>
#include <vector>

#include "ringpress/internal/espresso.h"

namespace ringpress::nccl_plugin::command {

/// A step with its title.
struct DrawnStep {
  std::string title;
  espresso::Timeline timeline;
  std::vector<bool> is_compressed;  // One a tensor.
};

/// An SVG file: the steps below each other on one time axis, each with its lanes (backward, GPU
/// codec, CPU codec, wire), blue what is not compressed, orange what is. Boxes name their tensors
/// when pointed at.
std::string draw_steps(const espresso::Job& job, const std::vector<DrawnStep>& steps);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_TIMELINE_SVG_H_
