// The environment that NCCL will see in a job.
#ifndef NCCL_PLUGIN_COMMAND_ENVIRONMENT_H_
#define NCCL_PLUGIN_COMMAND_ENVIRONMENT_H_

#include "nccl_plugin/plugin/door_variables.h"
#include "nccl_plugin/session/settings/environment.h"

namespace ringpress::nccl_plugin::command {

using nccl_plugin::Variable;

class JobEnvironment : public nccl_plugin::Environment {
 public:
  JobEnvironment() = default;
  explicit JobEnvironment(Environment variables) : Environment(std::move(variables)) {}
  static JobEnvironment of_this_process() { return JobEnvironment(Environment::of_this_process()); }

  /// Outlived by this object.
  nccl_plugin::plugin::Lookup lookup() const {
    return [this](const char* name) { return value(name); };
  }
};

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_ENVIRONMENT_H_
