#include "perf/all_reduce/timed_calls.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace ringpress::perf {
namespace {

// More of them would show little more, and each is a copy between timed calls.
constexpr std::size_t kMostLookedAt = 4;
constexpr std::size_t kMostKeptBytes = std::size_t{256} << 20;

/// The name, and the parameters: "q4:block=64,grid=lloyd" to q4, block=64 and grid=lloyd.
std::set<std::string> parts_of(std::string specification) {
  std::replace(specification.begin(), specification.end(), ':', ',');
  std::set<std::string> parts;
  std::istringstream text(specification);
  for (std::string part; std::getline(text, part, ',');) parts.insert(part);
  return parts;
}

/// The library names all parameters, in its own order; those that are not asked for may be any.
bool agrees(const std::string& asked, const std::string& used) {
  if (asked.empty() || asked == "auto") return true;
  const std::set<std::string> has = parts_of(used), wanted = parts_of(asked);
  return std::includes(has.begin(), has.end(), wanted.begin(), wanted.end());
}

}  // namespace

LookedAt::LookedAt(int iterations, std::size_t bytes, std::size_t settings)
    : iterations_(iterations) {
  const std::size_t fit = kMostKeptBytes / std::max<std::size_t>(1, bytes * settings);
  kept_count_ = static_cast<int>(std::min(fit, kMostLookedAt));
  const int count = std::max(1, kept_count_);
  stride_ = std::max(1, (iterations + count - 1) / count);
}

bool LookedAt::has(int iteration, int at_once) const {
  for (int i = std::max(iteration, 0); i < iteration + at_once; ++i) {
    if ((iterations_ - 1 - i) % stride_ == 0) return true;
  }
  return false;
}

void note_timed_call(CheckResult checked, const CallStatistics& after, SettingCalls& found) {
  const bool takes_error =
      !found.has_timed || is_worse(checked.relative_error, found.worst.relative_error);
  checked.wrong_elements = std::max(checked.wrong_elements, found.worst.wrong_elements);
  checked.identical = checked.identical && found.worst.identical;
  if (takes_error) {
    found.worst_call = after;
  } else {
    checked.relative_error = found.worst.relative_error;
    checked.magnitudes = found.worst.magnitudes;
  }
  found.has_timed = true;
  found.worst = checked;
}

bool goes_as_asked(const Setting& setting, const CallStatistics& after) {
  return !after ||
         (agrees(setting.codec, after->codec) && agrees(setting.algorithm, after->algorithm));
}

bool is_worse(double one, double other) {
  return !std::isnan(other) && !(one <= other);
}

}  // namespace ringpress::perf
