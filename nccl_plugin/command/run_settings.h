// What the options of `ringpress run` set for the library, and what they are in conflict with.
#ifndef NCCL_PLUGIN_COMMAND_RUN_SETTINGS_H_
#define NCCL_PLUGIN_COMMAND_RUN_SETTINGS_H_

#include <string>
#include <vector>

#include "nccl_plugin/command/child.h"
#include "nccl_plugin/command/environment.h"

namespace ringpress::nccl_plugin::command {

struct SettingOptions {
  std::string codec;   // RINGPRESS_CODEC; empty: not given.
  std::string budget;  // RINGPRESS_BUDGET; empty: not given.
  bool is_off = false;
  bool is_lossless = false;
  bool is_encrypted = false;
};

/// Throws terminal::Error for options that exclude each other, a codec that is none, and a variable
/// of the environment that says something else or takes the effect away.
Variables variables_of_options(const SettingOptions& options, const JobEnvironment& environment);

/// Variables of the environment that have no effect beside the options, each with what to do.
std::vector<std::string> passed_over_by(const SettingOptions& options,
                                        const JobEnvironment& environment);

/// Throws terminal::Error, which names `option`, where the environment has another value.
void check_not_set(const std::string& option, const std::string& variable, const std::string& value,
                   const JobEnvironment& environment);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_RUN_SETTINGS_H_
