#include "nccl_plugin/session/calls/call_evidence.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace ringpress::nccl_plugin {
namespace {

// The pause in which the program computes forward, of all pauses of a step. It is a third where
// that takes half as long as computing backward; a layer's is less.
constexpr double kLongestShare = 0.25;
// And of the mean of the others, as a quarter is nothing special where there are few.
constexpr double kLongestOfOthers = 1.4;
// Equal calls of a step that can be told by their buffers. More are as likely those of layers.
constexpr std::size_t kMostEqualCalls = 4;
// A program computes nothing if its pauses are shorter than this share of its calls, and most of
// them so short.
constexpr double kLeastPause = 0.05, kLeastPauseSeconds = 200e-6;
// Steps that are looked at, and the fewest calls.
constexpr std::size_t kSteps = 4, kLeastCalls = 6;
// Pauses are even if so many of them are within this share of the usual one.
constexpr double kEvenCalls = 0.9, kEven = 0.3;
// A longer one, so many times, may end a step of several calls.
constexpr double kLong = 2.5;

}  // namespace

void CallEvidence::note(const Seen& seen) {
  seen_.push_back(seen);
  if (seen_.size() > most()) seen_.pop_front();
}

std::size_t CallEvidence::most() const {
  return std::max(kSteps * period_, kEqualCalls);
}

void CallEvidence::begin_steps(std::size_t period, bool has_many_sizes) {
  period_ = period;
  has_many_sizes_ = has_many_sizes;
  values_.clear();
  while (seen_.size() > 1) seen_.pop_front();
}

bool CallEvidence::is_enough() const {
  if (seen_.size() < std::max(2 * period_, kLeastCalls)) return false;
  return period_ > 1 || seen_.size() >= kEqualCalls || computes_nothing();
}

bool CallEvidence::looks_like_gradients() const {
  const std::size_t period = calls_of_step();
  if (!is_enough() || !has_own_buffers(period)) return false;
  if (computes_nothing()) return true;
  if (values_.speaks_against_gradients(period)) return false;
  if (!has_times()) return has_many_sizes_;
  return period == 1 ? has_even_pauses() : pauses_once_a_step(period);
}

/// Steps of equal calls look like one call by their shapes: their buffers tell where they are few.
std::size_t CallEvidence::calls_of_step() const {
  if (period_ > 1) return period_;
  for (std::size_t period = 1; period <= kMostEqualCalls; ++period) {
    if (has_own_buffers(period)) return period;
  }
  return period_;
}

bool CallEvidence::has_times() const {
  return std::all_of(seen_.begin(), seen_.end(), [](const Seen& seen) {
    return !seen.is_all_reduce || seen.pause_seconds >= 0;
  });
}

bool CallEvidence::computes_nothing() const {
  if (!has_times()) return false;
  double pauses = 0, calls = 0;
  std::size_t short_pauses = 0, all = 0;
  for (const Seen& seen : seen_) {
    if (!seen.is_all_reduce) continue;
    pauses += seen.pause_seconds;
    calls += seen.call_seconds;
    ++all;
    if (seen.pause_seconds < kLeastPauseSeconds) ++short_pauses;
  }
  return pauses < kLeastPause * calls && 2 * short_pauses > all;
}

/// Calls without an address are of no matter.
bool CallEvidence::has_own_buffers(std::size_t period) const {
  std::set<const void*> addresses;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    const void* const address = seen_[i].address;
    if (address == nullptr || !seen_[i].is_all_reduce) continue;
    const bool is_first = i < period;
    if (is_first ? !addresses.insert(address).second : address != seen_[i - period].address) {
      return false;
    }
  }
  return true;
}

std::size_t CallEvidence::all_reduces_of_step(std::size_t period) const {
  const auto last_step = seen_.end() - static_cast<std::ptrdiff_t>(period);
  return static_cast<std::size_t>(
      std::count_if(last_step, seen_.end(), [](const Seen& seen) { return seen.is_all_reduce; }));
}

bool CallEvidence::pauses_once_a_step(std::size_t period) const {
  std::vector<double> pauses(period, 0.0);
  double all = 0;
  const std::size_t calls = all_reduces_of_step(period);
  for (std::size_t i = seen_.size() % period; i < seen_.size(); ++i) {
    if (!seen_[i].is_all_reduce) continue;
    pauses[i % period] += seen_[i].pause_seconds;
    all += seen_[i].pause_seconds;
  }
  const double longest = *std::max_element(pauses.begin(), pauses.end());
  const double others = (all - longest) / static_cast<double>(std::max<std::size_t>(calls, 2) - 1);
  return longest >= kLongestShare * all && longest >= kLongestOfOthers * others;
}

bool CallEvidence::has_even_pauses() const {
  std::vector<double> pauses;
  for (const Seen& seen : seen_) pauses.push_back(seen.pause_seconds);
  std::vector<double> sorted = pauses;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double usual = *middle;
  const auto even = std::count_if(pauses.begin(), pauses.end(), [usual](double pause) {
    return std::abs(pause - usual) <= kEven * usual;
  });
  return static_cast<double>(even) >= kEvenCalls * static_cast<double>(pauses.size()) &&
         *std::max_element(pauses.begin(), pauses.end()) <= kLong * usual;
}

}  // namespace ringpress::nccl_plugin
