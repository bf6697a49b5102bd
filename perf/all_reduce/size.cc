#include "perf/all_reduce/size.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "perf/all_reduce/error.h"

namespace ringpress::perf {

std::size_t parse_size(const std::string& text) {
  const char* begin = text.c_str();
  char* end = nullptr;
  const double number = std::strtod(begin, &end);
  std::string unit(end);
  for (char& letter : unit) letter = static_cast<char>(std::toupper(letter));
  if (unit.size() == 2 && unit[1] == 'B') unit.pop_back();
  const std::size_t power = std::string_view("BKMGT").find(unit.empty() ? 'B' : unit[0]);
  const bool starts_with_digit = !text.empty() && (std::isdigit(text[0]) || text[0] == '.');
  const bool known_unit = unit.size() <= 1 && power != std::string_view::npos;
  if (end == begin || !starts_with_digit || !known_unit || !std::isfinite(number)) {
    throw PerfError("\"" + text + "\" is not a size such as 64, 4K, 1.5M or 2G");
  }
  const double bytes = std::ldexp(number, static_cast<int>(10 * power));
  if (bytes > std::ldexp(1.0, 50)) throw PerfError("\"" + text + "\" is too large");
  return static_cast<std::size_t>(bytes);
}

}  // namespace ringpress::perf
