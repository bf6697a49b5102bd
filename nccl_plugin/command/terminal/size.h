// Sizes as people write them.
#ifndef NCCL_PLUGIN_COMMAND_TERMINAL_SIZE_H_
#define NCCL_PLUGIN_COMMAND_TERMINAL_SIZE_H_

#include <cstddef>
#include <string>

namespace ringpress::terminal {

/// As parse_byte_size() (ringpress/internal/byte_size.h). Throws Error.
std::size_t parse_size(const std::string& text);

}  // namespace ringpress::terminal

#endif  // NCCL_PLUGIN_COMMAND_TERMINAL_SIZE_H_
