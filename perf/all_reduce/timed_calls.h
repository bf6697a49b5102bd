// What is kept of the timed calls of one setting until their results are looked at.
#ifndef PERF_ALL_REDUCE_TIMED_CALLS_H_
#define PERF_ALL_REDUCE_TIMED_CALLS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "perf/all_reduce/check.h"
#include "perf/all_reduce/device_memory.h"
#include "perf/all_reduce/options.h"
#include "perf/all_reduce/results.h"
#include "ringpress/ringpress.h"

namespace ringpress::perf {

using CallStatistics = std::optional<ringpressStatistics_t>;  // None of another library.

/// What a timed call left. It is looked at when all calls have been timed: a check takes many times
/// as long as a call, and after such a pause a call meets cold caches and rested links.
struct KeptResult {
  explicit KeptResult(std::size_t bytes) : buffer(bytes) {}
  DeviceBuffer buffer;
  CallStatistics after;
};

/// What is known of one setting's calls.
struct SettingCalls {
  std::vector<double> times;  // Microseconds.
  CheckResult worst;          // Of those calls whose result was looked at.
  CallStatistics before;      // The first timed call.
  CallStatistics worst_call;  // After it.
  bool has_timed = false;     // `worst` and `worst_call` are of timed calls.
  // By the specification of the last call before a time was taken: how many times.
  std::map<std::string, int> codecs;
  std::set<std::string> looked_at;  // Of these codecs a result was.
  bool wants_look = false;          // Of the next call: one of a new codec could not be.
  bool went_as_asked = true;        // All of these.
  std::vector<KeptResult> kept;     // Made before the first call; so many of them
  std::size_t kept_count = 0;       // hold a result.
};

/// Which timed iterations have their results looked at, besides the first of each codec: the last,
/// and as many before it, evenly spaced, as there is memory for.
class LookedAt {
 public:
  /// `settings` of them have results of `bytes`.
  LookedAt(int iterations, std::size_t bytes, std::size_t settings);
  /// Whether one of `at_once` iterations from `iteration` on is among them.
  bool has(int iteration, int at_once) const;
  /// How many results of a setting are kept. 0: there is no memory for them, so that the last one
  /// is looked at where it is.
  int kept_count() const { return kept_count_; }

 private:
  int iterations_;
  int kept_count_;
  int stride_;
};

/// Adds one call to what is known. Errors that are not finite are the worst.
void note_timed_call(CheckResult checked, const CallStatistics& after, SettingCalls& found);

/// Whether the setting leaves the codec and the algorithm open, or these are what it names.
bool goes_as_asked(const Setting& setting, const CallStatistics& after);

/// What is no number is worse than all numbers.
bool is_worse(double one, double other);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_TIMED_CALLS_H_
