// Values of JSON from outside: what is missing, or of another kind, is as if it were not there.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_JSON_VALUES_H_
#define NCCL_PLUGIN_COMMAND_REPORT_JSON_VALUES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ringpress::nccl_plugin::command::report {

using Json = nlohmann::json;

/// Null if there is none.
inline const Json* find_member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

inline std::optional<double> number_of(const Json& object, const char* name) {
  const Json* const member = find_member(object, name);
  if (member == nullptr || !member->is_number()) return std::nullopt;
  const double value = member->get<double>();
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

/// At most 2^53, so that sums of some stay numbers.
inline std::uint64_t count_of(const Json& value) {
  if (!value.is_number()) return 0;
  const double number = value.get<double>();
  if (!(number > 0)) return 0;
  return static_cast<std::uint64_t>(std::min(number, 9007199254740992.0));
}

inline std::uint64_t count_of(const Json& object, const char* name) {
  const Json* const member = find_member(object, name);
  return member == nullptr ? 0 : count_of(*member);
}

/// From 0 to 10^9.
inline int small_count_of(const Json& object, const char* name) {
  return static_cast<int>(std::min<std::uint64_t>(count_of(object, name), 1000000000));
}

/// No value where it is neither true nor false.
inline std::optional<bool> truth_of(const Json& object, const char* name) {
  const Json* const member = find_member(object, name);
  if (member == nullptr || !member->is_boolean()) return std::nullopt;
  return member->get<bool>();
}

inline std::string text_of(const Json& object, const char* name) {
  const Json* const member = find_member(object, name);
  return member != nullptr && member->is_string() ? member->get<std::string>() : std::string();
}

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_JSON_VALUES_H_
