// The environment that NCCL will see in a job.
#ifndef PERF_RINGPRESS_ENVIRONMENT_H_
#define PERF_RINGPRESS_ENVIRONMENT_H_

#include "nccl_plugin/plugin/door_variables.h"
#include "nccl_plugin/session/settings/environment.h"

namespace ringpress::perf {

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

}  // namespace ringpress::perf

#endif  // PERF_RINGPRESS_ENVIRONMENT_H_
