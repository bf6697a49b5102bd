#include "tuner/measured_choices.h"

#include <algorithm>
#include <numeric>

namespace ringpress::tuner {
namespace {

// Of fewer times none is left out.
constexpr std::size_t kFewestTrimmed = 3;
// Codecs and chunks that come so near to the quickest are tried so often, as whichever was measured
// while the machine had something else to do would lose.
constexpr double kContends = 1.3;
constexpr std::uint32_t kMostTrialsOfOne = 3;

/// Another trial of what was tried before. A shorter one says no more than a longer one did.
void take_note(const Measured& trial, Measured* known) {
  ++known->trials;
  if (trial.was_long == known->was_long) {
    known->seconds = std::min(known->seconds, trial.seconds);
  } else if (trial.was_long) {
    known->seconds = trial.seconds;
    known->was_long = true;
  }
}

}  // namespace

double typical_seconds(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  if (times.size() >= kFewestTrimmed) times.resize(times.size() - (times.size() + 9) / 10);
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

const Measured& MeasuredChoices::add(const Measured& trial) {
  const auto known = std::find_if(all_.begin(), all_.end(), [&trial](const Measured& one) {
    return one.choice == trial.choice;
  });
  if (known == all_.end()) return all_.emplace_back(trial);
  take_note(trial, &*known);
  return *known;
}

bool MeasuredChoices::has(const Choice& choice) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&choice](const Measured& one) { return one.choice == choice; });
}

std::optional<Measured> MeasuredChoices::find_quickest(bool is_exact) const {
  std::optional<Measured> found;
  for (const Measured& one : all_) {
    if (one.choice.is_exact() != is_exact) continue;
    if (!found || one.seconds < worth_switching_ * found->seconds) found = one;
  }
  return found;
}

std::optional<Measured> MeasuredChoices::find_quickest_long() const {
  std::optional<Measured> found;
  for (const Measured& one : all_) {
    if (one.choice.is_exact() || !one.was_long) continue;
    if (!found || one.seconds < found->seconds) found = one;
  }
  return found ? found : find_quickest(false);
}

std::optional<Choice> MeasuredChoices::find_contender() const {
  const std::optional<Measured> quickest = find_quickest(false);
  const Measured* least = nullptr;
  std::size_t contenders = 0;
  for (const Measured& one : all_) {
    if (one.choice.is_exact() || one.seconds > kContends * quickest->seconds) continue;
    ++contenders;
    if (least == nullptr || one.trials < least->trials) least = &one;
  }
  if (contenders < 2 || least->trials >= kMostTrialsOfOne) return std::nullopt;
  return least->choice;
}

}  // namespace ringpress::tuner
