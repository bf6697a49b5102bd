#include "compress_kernels/codec_family.h"

#include <bit>
#include <charconv>
#include <limits>
#include <stdexcept>

namespace ringpress::compress_kernels {
namespace {

/// True if the whole text is a number that fits.
bool parse(std::string_view text, std::size_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

ParameterValues::ParameterValues(const std::vector<ParameterRule>& rules) {
  for (const ParameterRule& rule : rules) {
    values_.push_back({rule.name, std::string(rule.default_value)});
  }
}

const std::string& ParameterValues::text(std::string_view name) const {
  for (const Value& value : values_) {
    if (value.name == name) return value.text;
  }
  throw std::logic_error("a codec asked for a parameter that it does not have");
}

std::size_t ParameterValues::number(std::string_view name) const {
  std::size_t number = 0;
  if (!parse(text(name), &number)) throw std::logic_error("a codec parameter is not a number");
  return number;
}

void ParameterValues::set(std::string_view name, std::string_view text) {
  for (Value& value : values_) {
    if (value.name == name) value.text = text;
  }
}

std::string ParameterValues::to_string() const {
  std::string all;
  for (const Value& value : values_) {
    if (value.text.empty()) continue;
    all += (all.empty() ? ":" : ",") + std::string(value.name) + "=" + value.text;
  }
  return all;
}

bool is_block(std::string_view text) {
  std::size_t number = 0;
  return parse(text, &number) && number >= 32 && number <= 1024 && std::has_single_bit(number);
}

double decimal_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? number : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace ringpress::compress_kernels
