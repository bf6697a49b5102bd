#include "nccl_plugin/command/estimate/quantities.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::nccl_plugin::command {
namespace {

[[noreturn]] void refuse_quantity(const std::string& option, const std::string& text,
                                  const char* expected) {
  throw terminal::Error(option + " " + text + ": expected " + expected);
}

std::string lower(std::string_view text) {
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return small;
}

/// A number above 0, and what follows it, without spaces between.
struct NumberWithUnit {
  double number = 0;
  std::string unit;
};

std::optional<NumberWithUnit> split_number(std::string_view text) {
  NumberWithUnit found;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, found.number);
  const bool is_number =
      parsed.ec == std::errc() && std::isfinite(found.number) && found.number > 0;
  if (!is_number) return std::nullopt;
  std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  while (!unit.empty() && unit[0] == ' ') unit.remove_prefix(1);
  found.unit = unit;
  return found;
}

/// 1e3 of 'k', ...; 0: it is none. B is a billion, as people say of parameters.
double power_of(char letter) {
  switch (letter) {
    case 'k':
      return 1e3;
    case 'm':
      return 1e6;
    case 'b':
    case 'g':
      return 1e9;
    case 't':
      return 1e12;
    default:
      return 0;
  }
}

constexpr const char* kExpectedRate =
    "bits a second of a host's link, such as 100gbit, 100Gb/s, 25G or 10gbe";

/// "GB/s", "GBps", "GiB": of bytes.
bool is_of_bytes(std::string_view unit) {
  return unit.size() > 1 && (unit[1] == 'B' || lower(unit).find("byte") != std::string::npos);
}

}  // namespace

double read_count(const std::string& option, const std::string& text) {
  constexpr const char* kExpected = "a number of parameters, such as 350M, 1.3B or 7b";
  const auto found = split_number(text);
  if (!found || found->unit.size() > 1) refuse_quantity(option, text, kExpected);
  const double unit = found->unit.empty() ? 1 : power_of(lower(found->unit)[0]);
  const double count = std::round(found->number * unit);
  // As many as would not fit into any machine's memory.
  if (!(count >= 1) || count > 1e15) refuse_quantity(option, text, kExpected);
  return count;
}

DType read_dtype(const std::string& option, const std::string& text) {
  const std::string name = lower(text);
  for (const char* known : {"fp32", "float32", "f32", "float"}) {
    if (name == known) return DType::kFloat32;
  }
  for (const char* known : {"bf16", "bfloat16"}) {
    if (name == known) return DType::kBfloat16;
  }
  for (const char* known : {"fp16", "float16", "f16", "half"}) {
    if (name == known) return DType::kFloat16;
  }
  refuse_quantity(option, text, "fp32, bf16 or fp16");
}

double read_rate(const std::string& option, const std::string& text) {
  const auto found = split_number(text);
  if (!found || found->unit.empty()) refuse_quantity(option, text, kExpectedRate);
  if (is_of_bytes(found->unit)) {
    throw terminal::Error(option + " " + text + ": that is in bytes; expected " + kExpectedRate);
  }
  const std::string unit = lower(found->unit);
  const double power = unit[0] == 'b' ? 0 : power_of(unit[0]);
  const std::string rest = unit.substr(1);
  const char* const kEnds[] = {"", "b", "b/s", "bps", "bit", "bit/s", "bits", "bits/s", "be"};
  const bool is_known =
      std::any_of(std::begin(kEnds), std::end(kEnds), [&](const char* one) { return rest == one; });
  if (power == 0 || !is_known) refuse_quantity(option, text, kExpectedRate);
  return found->number * power / 8;
}

double read_time(const std::string& option, const std::string& text) {
  const auto found = split_number(text);
  const std::string unit = found ? lower(found->unit) : "";
  const double seconds = unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : unit == "s" ? 1 : 0;
  if (seconds == 0) refuse_quantity(option, text, "a time such as 50us, 1.5ms or 2s");
  return found->number * seconds;
}

}  // namespace ringpress::nccl_plugin::command
