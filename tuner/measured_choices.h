// What a call tuner knows of the choices that it has tried.
#ifndef TUNER_MEASURED_CHOICES_H_
#define TUNER_MEASURED_CHOICES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ringpress/internal/tuning.h"

namespace ringpress::tuner {

/// What calls take that took so long, of which there is one at least: the mean without the slowest
/// tenth, rounded up, for which the machine had something else to do. No median: where every fourth
/// call waits for the link, it would not count that at all.
double typical_seconds(std::vector<double> times);

struct Measured {
  Choice choice;
  double seconds = 0;  // Of the quickest trial, of the longer ones if there was one.
  bool was_long = false;
  std::uint32_t trials = 1;
};

class MeasuredChoices {
 public:
  /// A choice is left only for one that takes less than `worth_switching` of its time.
  explicit MeasuredChoices(double worth_switching) : worth_switching_(worth_switching) {}

  void clear() { all_.clear(); }
  /// What is known of the trial's choice now.
  const Measured& add(const Measured& trial);
  bool has(const Choice& choice) const;

  /// Of those without a codec, or with one. What was tried first was expected to be quickest, and
  /// is left only for what is clearly so.
  std::optional<Measured> find_quickest(bool is_exact) const;
  /// A codec: of those that had a longer trial if there are any.
  std::optional<Measured> find_quickest_long() const;
  /// Of the codecs and chunks that come near the quickest, if that has any rival, the one that was
  /// tried least.
  std::optional<Choice> find_contender() const;

 private:
  const double worth_switching_;
  std::vector<Measured> all_;  // In the order in which they were tried first.
};

}  // namespace ringpress::tuner

#endif  // TUNER_MEASURED_CHOICES_H_
