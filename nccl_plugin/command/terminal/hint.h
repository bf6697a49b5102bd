// Hints at names that a person mistyped.
#ifndef NCCL_PLUGIN_COMMAND_TERMINAL_HINT_H_
#define NCCL_PLUGIN_COMMAND_TERMINAL_HINT_H_

#include <string>
#include <string_view>
#include <vector>

namespace ringpress::terminal {

/// As maybe_name() (ringpress/internal/names.h): " (maybe NAME?)", or nothing where none is near.
std::string hint_at(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace ringpress::terminal

#endif  // NCCL_PLUGIN_COMMAND_TERMINAL_HINT_H_
