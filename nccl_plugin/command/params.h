// ringpress params: every setting, what it is and where it comes from, and what the making of a
// communicator would say to it: that is asked of the library itself.
#ifndef NCCL_PLUGIN_COMMAND_PARAMS_H_
#define NCCL_PLUGIN_COMMAND_PARAMS_H_

#include <string>
#include <vector>

#include "nccl_plugin/command/environment.h"

namespace ringpress::nccl_plugin::command {

struct Param {
  std::string name;
  std::string value;  // That is in force, or the default; a secret's is never shown.
  std::string default_value;
  std::string origin;   // "default", "environment", or the path of a file.
  std::string given;    // That is refused; empty: none is.
  std::string mistake;  // Why it is refused.
  std::string warning;  // It is taken, or passed over, but does not do what it says.
  std::string note;     // It does what it says; but not for all programs.
  bool must_agree = false;
  std::string meaning;
};

/// All settings, NCCL's own variables that mean something here, and what is named as if it were
/// one.
std::vector<Param> params(const JobEnvironment& environment);

/// Why no communicator is made with all of them together, where none alone is refused; else empty.
std::string mistake_together(const JobEnvironment& environment, const std::vector<Param>& all);

/// 0: a communicator on host memory would be made; 1: something is refused, and named on standard
/// error.
int print_params(bool json);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PARAMS_H_
