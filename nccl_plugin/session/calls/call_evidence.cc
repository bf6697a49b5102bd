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
// Pauses that are shorter than this share of the calls say nothing: the program computes nothing.
constexpr double kLeastPause = 0.05;
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

/// Of what came before, the two steps stay that showed it.
void CallEvidence::begin_steps(std::size_t period) {
  period_ = period;
  while (seen_.size() > 2 * period) seen_.pop_front();
}

bool CallEvidence::is_enough() const {
  if (seen_.size() < std::max(2 * period_, kLeastCalls)) return false;
  return period_ > 1 || seen_.size() >= kEqualCalls || has_no_pauses();
}

bool CallEvidence::looks_like_gradients() const {
  if (!is_enough() || !has_own_buffers()) return false;
  const bool are_known = std::all_of(seen_.begin(), seen_.end(),
                                     [](const Seen& seen) { return seen.pause_seconds >= 0; });
  if (!are_known) return false;
  if (has_no_pauses()) return true;
  return period_ == 1 ? has_even_pauses() : pauses_once_a_step();
}

bool CallEvidence::has_no_pauses() const {
  double pauses = 0, calls = 0;
  for (const Seen& seen : seen_) {
    pauses += seen.pause_seconds;
    calls += seen.call_seconds;
  }
  return pauses < kLeastPause * calls;
}

/// Calls without an address are of no matter.
bool CallEvidence::has_own_buffers() const {
  std::set<const void*> addresses;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    const void* const address = seen_[i].address;
    if (address == nullptr) continue;
    const bool is_first = i < period_;
    if (is_first ? !addresses.insert(address).second : address != seen_[i - period_].address) {
      return false;
    }
  }
  return true;
}

bool CallEvidence::pauses_once_a_step() const {
  std::vector<double> pauses(period_, 0.0);
  double all = 0;
  for (std::size_t i = seen_.size() % period_; i < seen_.size(); ++i) {
    pauses[i % period_] += seen_[i].pause_seconds;
    all += seen_[i].pause_seconds;
  }
  return *std::max_element(pauses.begin(), pauses.end()) >= kLongestShare * all;
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
