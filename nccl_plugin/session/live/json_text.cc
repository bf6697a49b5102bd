#include "nccl_plugin/session/live/json_text.h"

#include <cmath>
#include <cstdio>

#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {
namespace {

/// Bytes of the UTF-8 character that `text` begins with; 0: it begins with none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  const std::size_t bytes = first < 0x80   ? 1
                            : first < 0xC2 ? 0
                            : first < 0xE0 ? 2
                            : first < 0xF0 ? 3
                            : first < 0xF5 ? 4
                                           : 0;
  if (bytes > text.size()) return 0;
  for (std::size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xC0U) != 0x80) return 0;
  }
  if (bytes < 3) return bytes;
  const unsigned second = byte(1);
  const bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool is_none = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return is_overlong || is_none ? 0 : bytes;
}

void append_json(std::string_view character, std::string* json) {
  const auto byte = static_cast<unsigned char>(character[0]);
  if (byte < 0x20) {
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", byte);
    *json += escape;
    return;
  }
  if (byte == '"' || byte == '\\') *json += '\\';
  *json += character;
}

/// A byte that begins no character of UTF-8 is a question mark.
template <typename Use>
void for_each_character(std::string_view text, Use&& use) {
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    use(bytes == 0 ? "?" : text.substr(0, bytes));
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
}

}  // namespace

std::string utf8(std::string_view text) {
  std::string known;
  for_each_character(text, [&](std::string_view character) { known += character; });
  return known;
}

std::string json_quoted(std::string_view text) {
  std::string json = "\"";
  for_each_character(text, [&](std::string_view character) { append_json(character, &json); });
  return json + "\"";
}

std::string json_number(double value) {
  char number[32];
  std::snprintf(number, sizeof number, "%.9g", std::isfinite(value) ? value : 0.0);
  return number;
}

std::string json_field(std::string_view name, std::uint64_t value) {
  return json_quoted(name) + ": " + std::to_string(value) + ", ";
}

std::string json_field(std::string_view name, double value) {
  return json_quoted(name) + ": " + json_number(value) + ", ";
}

std::string json_of(const std::map<std::string, std::uint64_t>& counts) {
  std::string json = "{";
  for (const auto& [name, count] : counts) {
    if (json.size() > 1) json += ", ";
    json += json_quoted(name) + ": " + std::to_string(count);
  }
  return json + "}";
}

std::string json_of(const std::vector<MeasuredError>& errors) {
  std::string json = "[";
  for (const MeasuredError& error : errors) {
    if (json.size() > 1) json += ", ";
    json += "{" + json_field("count", static_cast<std::uint64_t>(error.count)) +
            "\"type\": " + json_quoted(dtype_name(error.dtype)) + ", " +
            json_field("looks", error.looks) + json_field("last", error.last) +
            json_field("mean", error.mean) + json_field("worst", error.worst) +
            "\"more_bits\": " + std::to_string(error.more_bits) + "}";
  }
  return json + "]";
}

}  // namespace ringpress::nccl_plugin
