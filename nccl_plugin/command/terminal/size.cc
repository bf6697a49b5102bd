#include "nccl_plugin/command/terminal/size.h"

#include "nccl_plugin/command/terminal/error.h"
#include "ringpress/internal/byte_size.h"

namespace ringpress::terminal {

std::size_t parse_size(const std::string& text) {
  if (const auto bytes = parse_byte_size(text)) return *bytes;
  throw Error("\"" + text + "\" is not " + expected_byte_size(text));
}

}  // namespace ringpress::terminal
