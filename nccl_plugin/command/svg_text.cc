#include "nccl_plugin/command/svg_text.h"

namespace ringpress::nccl_plugin::command {

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else if (static_cast<unsigned char>(c) >= ' ') {
      safe += c;
    }
  }
  return safe;
}

}  // namespace ringpress::nccl_plugin::command
