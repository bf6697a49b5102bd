// A plan as a file of rules (RINGPRESS_RULES): which all-reduces are compressed, by their sizes.
#ifndef NCCL_PLUGIN_COMMAND_PLAN_PLAN_RULES_H_
#define NCCL_PLUGIN_COMMAND_PLAN_PLAN_RULES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::command {

/// What a plan does with one tensor.
struct PlannedTensor {
  std::size_t bytes = 0;
  bool is_compressed = false;
  std::string way;  // sra or hier; any other: the library chooses.
};

struct PlanRules {
  std::string text;  // The file.
  // Tensors that get something else than the plan says, as others of their size do.
  std::size_t otherwise = 0;
};

/// Sizes between two that get the same get that too; what is larger than the largest one gets what
/// that does. kInvalidArgument: `codec` is none, or one that no rule may name.
Result<PlanRules> make_plan_rules(const std::vector<PlannedTensor>& tensors,
                                  const std::string& codec, const std::string& job_name);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_PLAN_RULES_H_
