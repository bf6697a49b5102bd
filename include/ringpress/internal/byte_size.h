// Sizes in bytes as people write them: in settings, and to the programs.
#ifndef RINGPRESS_INTERNAL_BYTE_SIZE_H_
#define RINGPRESS_INTERNAL_BYTE_SIZE_H_

#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace ringpress {

/// "64", "4K", "1.5M", "2G" (powers of 1024, either case, an optional B), however large. No value:
/// it is no such text.
inline std::optional<double> bytes_as_written(std::string_view text) {
  const char* const end = text.data() + text.size();
  double number = 0;
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (parsed.ec != std::errc() || !std::isfinite(number) || std::signbit(number)) return {};
  std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  if (unit.size() == 2 && (unit[1] == 'b' || unit[1] == 'B')) unit.remove_suffix(1);
  if (unit.size() > 1) return {};
  constexpr std::string_view kUnits = "BKMGTPEbkmgtpe";
  const std::size_t found = unit.empty() ? 0 : kUnits.find(unit[0]);
  if (found == std::string_view::npos) return {};
  return std::ldexp(number, static_cast<int>(10 * (found % (kUnits.size() / 2))));
}

/// The same in bytes. No value also for more than 2^50, but for a whole number without a unit.
inline std::optional<std::size_t> parse_byte_size(std::string_view text) {
  const char* const end = text.data() + text.size();
  std::size_t whole = 0;
  const auto digits = std::from_chars(text.data(), end, whole);
  if (digits.ec == std::errc() && digits.ptr == end) return whole;
  const std::optional<double> bytes = bytes_as_written(text);
  if (!bytes || *bytes > std::ldexp(1.0, 50)) return {};
  return static_cast<std::size_t>(*bytes);
}

/// What a text that has no value is not.
inline const char* expected_byte_size(std::string_view text) {
  return bytes_as_written(text) ? "a size of at most 1024T"
                                : "a size such as 65536, 64K, 1.5M or 2G";
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_BYTE_SIZE_H_
