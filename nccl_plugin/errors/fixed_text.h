// Numbers as text, the same whatever the program's locale.
#ifndef NCCL_PLUGIN_ERRORS_FIXED_TEXT_H_
#define NCCL_PLUGIN_ERRORS_FIXED_TEXT_H_

#include <charconv>
#include <string>

namespace ringpress::nccl_plugin {

/// With so many digits after the point.
inline std::string fixed(double number, int digits) {
  char text[400];  // Of the largest number, too.
  const auto end =
      std::to_chars(text, text + sizeof text, number, std::chars_format::fixed, digits);
  return std::string(text, end.ptr);
}

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_ERRORS_FIXED_TEXT_H_
