// How the benchmark fails: one exception type whose text is meant for the person at the terminal.
#ifndef NCCL_PLUGIN_COMMAND_TERMINAL_ERROR_H_
#define NCCL_PLUGIN_COMMAND_TERMINAL_ERROR_H_

#include <stdexcept>
#include <string>

namespace ringpress::terminal {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace ringpress::terminal

#endif  // NCCL_PLUGIN_COMMAND_TERMINAL_ERROR_H_
