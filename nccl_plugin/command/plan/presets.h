// Models whose shapes are published: their parameters, tensor by tensor, and what each costs.
#ifndef NCCL_PLUGIN_COMMAND_PLAN_PRESETS_H_
#define NCCL_PLUGIN_COMMAND_PLAN_PRESETS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringpress::nccl_plugin::command {

struct Parameter {
  std::string name;
  double count = 0;       // Values.
  double operations = 0;  // Of forward, for one token or image. Backward's are twice as many.
};

/// In the order in which the program registers them, as PyTorch's parameters() has them. Nothing:
/// there is no such preset.
std::optional<std::vector<Parameter>> preset_parameters(std::string_view name);

/// "gpt2", "bert-large", ...
std::vector<std::string_view> preset_names();

/// As published; 0: there is no such preset.
double published_parameters(std::string_view name);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_PRESETS_H_
