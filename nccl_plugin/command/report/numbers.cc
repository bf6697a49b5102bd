#include "nccl_plugin/command/report/numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace ringpress::nccl_plugin::command::report {

std::string number_text(double value) {
  if (value == 0 || !std::isfinite(value)) return value == 0 ? "0" : "unknown";
  const double size = std::abs(value);
  if (size >= 100 && size < 1e15) return fmt::format("{:.0f}", value);
  if (size < 1e-4 || size >= 1e15) return fmt::format("{:.2e}", value);
  return fmt::format("{:.3g}", value);
}

std::string bytes_text(double bytes) {
  static const char* const kUnits[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return number_text(bytes) + " " + kUnits[unit];
}

std::string seconds_text(double seconds) {
  if (seconds <= 0) return "0 s";
  if (seconds < 1e-3) return number_text(1e6 * seconds) + " us";
  if (seconds < 1) return number_text(1e3 * seconds) + " ms";
  if (seconds < 120) return number_text(seconds) + " s";
  if (seconds < 7200) return number_text(seconds / 60) + " min";
  return number_text(seconds / 3600) + " h";
}

std::string percent_text(double part, double whole) {
  if (whole <= 0 || part <= 0) return "0 %";
  const double percent = 100 * part / whole;
  if (percent < 1) return "less than 1 %";
  if (percent < 100 && percent > 99) return "more than 99 %";
  return fmt::format("{:.0f} %", percent);
}

std::string counted(std::uint64_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string short_codec(const std::string& specification) {
  return specification.substr(0, specification.find(':'));
}

}  // namespace ringpress::nccl_plugin::command::report
