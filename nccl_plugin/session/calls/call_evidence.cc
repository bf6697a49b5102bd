#include "nccl_plugin/session/calls/call_evidence.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <vector>

namespace ringpress::nccl_plugin {
namespace {

// The pause in which the program computes forward, of all pauses of a step. It is a third where
// that takes half as long as computing backward; a layer's is less.
constexpr double kLongestShare = 0.25;
// And of the mean of the others, as a quarter is nothing special where there are few.
constexpr double kLongestOfOthers = 1.4;
// A program computes nothing if its pauses are shorter than this share of its calls, and most of
// them so short.
constexpr double kLeastPause = 0.05, kLeastPauseSeconds = 200e-6;
// Steps that are looked at, and the fewest calls.
constexpr std::size_t kSteps = 4, kLeastCalls = 6;
// Pauses are even if so many of them are within this share of the usual one.
constexpr double kEvenCalls = 0.9, kEven = 0.3;
// A longer one, so many times, may end a step of several calls.
constexpr double kLong = 2.5;
// A step of so many sizes, and of most calls with one of their own, is of buckets.
constexpr std::size_t kManySizes = 3;
// A step that repeats without sums which come seldom has so many calls, where nothing is known.
constexpr std::size_t kLeastCallsOfStep = 3;

using Calls = std::vector<CallEvidence::Seen>;

bool are_alike(const CallEvidence::Seen& a, const CallEvidence::Seen& b) {
  return a.shape == b.shape && a.address == b.address;
}

/// The fewest calls, of at most `most`, after which all of them repeat.
std::size_t period_of(const Calls& calls, std::size_t most) {
  for (std::size_t period = 1; period < most; ++period) {
    std::size_t i = period;
    while (i < calls.size() && are_alike(calls[i], calls[i - period])) ++i;
    if (i == calls.size()) return period;
  }
  return most;
}

/// Of a step's calls, the shapes of those whose buffer another one has. Calls without an address
/// are of no matter.
std::set<std::size_t> shapes_that_share(const Calls& calls, std::size_t period) {
  std::set<std::size_t> found;
  std::map<const void*, std::size_t> owners;
  for (std::size_t i = 0; i < std::min(period, calls.size()); ++i) {
    if (calls[i].address == nullptr) continue;
    const auto [owner, is_new] = owners.try_emplace(calls[i].address, calls[i].shape);
    if (!is_new) found.insert({calls[i].shape, owner->second});
  }
  return found;
}

/// Of a step's calls, the shapes of those which come seldom, if the others repeat sooner without
/// them. `is_known`: whether calls of a shape are gradients, as far as is known: others have to be
/// of a step of several calls, as two may be those of a layer.
template <typename IsKnown>
std::set<std::size_t> seldom_shapes(const Calls& calls, std::size_t period, IsKnown is_known) {
  std::map<std::size_t, std::size_t> counts;
  for (std::size_t i = 0; i < std::min(period, calls.size()); ++i) ++counts[calls[i].shape];
  std::set<std::size_t> levels;
  for (const auto& [shape, count] : counts) levels.insert(count);
  for (auto level = levels.begin(); std::next(level) != levels.end(); ++level) {
    Calls others;
    std::copy_if(calls.begin(), calls.end(), std::back_inserter(others),
                 [&](const CallEvidence::Seen& seen) { return counts[seen.shape] > *level; });
    std::set<std::size_t> seldom;
    std::size_t in_step = 0;
    for (const auto& [shape, count] : counts) {
      if (count > *level) {
        in_step += count;
      } else {
        seldom.insert(shape);
      }
    }
    const std::size_t shorter = period_of(others, in_step);
    const bool are_known = std::all_of(others.begin(), others.end(), is_known);
    if (shorter < in_step && (are_known || shorter >= kLeastCallsOfStep)) return seldom;
  }
  return {};
}

bool has_many_sizes(const Calls& calls, std::size_t period) {
  std::set<std::size_t> shapes;
  for (std::size_t i = 0; i < std::min(period, calls.size()); ++i) shapes.insert(calls[i].shape);
  return shapes.size() >= kManySizes && 2 * shapes.size() > period;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// By the usual pause at each place of the step: a machine may hold up any call once.
bool pause_once(const Calls& calls, std::size_t period) {
  std::vector<std::vector<double>> pauses(period);
  for (std::size_t i = calls.size() % period; i < calls.size(); ++i) {
    pauses[i % period].push_back(calls[i].pause_seconds);
  }
  double all = 0, longest = 0;
  for (const std::vector<double>& of_place : pauses) {
    const double usual = median(of_place);
    all += usual;
    longest = std::max(longest, usual);
  }
  const double others = (all - longest) / static_cast<double>(period - 1);
  return longest >= kLongestShare * all && longest >= kLongestOfOthers * others;
}

bool pause_evenly(const Calls& calls) {
  std::vector<double> pauses;
  for (const CallEvidence::Seen& seen : calls) pauses.push_back(seen.pause_seconds);
  const double usual = median(pauses);
  const auto even = std::count_if(pauses.begin(), pauses.end(), [usual](double pause) {
    return std::abs(pause - usual) <= kEven * usual;
  });
  return static_cast<double>(even) >= kEvenCalls * static_cast<double>(pauses.size()) &&
         *std::max_element(pauses.begin(), pauses.end()) <= kLong * usual;
}

}  // namespace

void CallEvidence::note(const Seen& seen) {
  seen_.push_back(seen);
  if (seen_.size() > most()) seen_.pop_front();
}

std::size_t CallEvidence::most() const {
  return std::max(kSteps * period_, kEqualCalls);
}

void CallEvidence::begin_steps(std::size_t period) {
  period_ = period;
  forget_calls();
}

bool CallEvidence::is_enough() const {
  if (seen_.size() < std::max(2 * period_, kLeastCalls)) return false;
  return period_ > 1 || seen_.size() >= kEqualCalls || computes_nothing();
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

ClassBallot CallEvidence::ballot(const ClassBallot& usual) const {
  ClassBallot ballot;
  const bool is_idle = computes_nothing();
  judge_buffers(&ballot);
  if (!is_idle) judge_values(&ballot);
  judge_order(usual, &ballot);
  // What repeats without those that are none; and of that, what shares no buffers.
  std::vector<Seen> calls = candidates(ballot);
  std::size_t step = period_of(calls, period_);
  for (auto shared = shapes_that_share(calls, step); !shared.empty();
       shared = shapes_that_share(calls, step)) {
    for (const std::size_t shape : shared) ballot.add(shape, Verdict::kBuffers);
    calls = candidates(ballot);
    step = period_of(calls, period_);
  }
  if (is_idle || calls.empty() || have_right_pauses(calls, step)) return ballot;
  for (const Seen& seen : calls) ballot.add(seen.shape, Verdict::kPauses);
  return ballot;
}

/// Where buffers are shared, as they are by calls of several steps.
void CallEvidence::judge_order(const ClassBallot& usual, ClassBallot* ballot) const {
  const std::vector<Seen> calls = candidates(*ballot);
  const std::size_t step = period_of(calls, period_);
  if (shapes_that_share(calls, step).empty()) return;
  const auto is_known = [&usual](const Seen& seen) {
    return usual.of(seen.shape) == Verdict::kGradients;
  };
  for (const std::size_t shape : seldom_shapes(calls, step, is_known)) {
    ballot->add(shape, Verdict::kUnsaid);
  }
}

bool CallEvidence::have_right_pauses(const std::vector<Seen>& calls, std::size_t period) const {
  if (!has_times()) return has_many_sizes(calls, period);
  if (period > 1) return pause_once(calls, period);
  return calls.size() >= kEqualCalls && pause_evenly(calls);
}

/// One call that has moved is enough for all of its shape, and for those who have a buffer that it
/// has had.
void CallEvidence::judge_buffers(ClassBallot* ballot) const {
  for (std::size_t i = period_; i < seen_.size(); ++i) {
    const bool has_moved = seen_[i].address != seen_[i - period_].address;
    if (!seen_[i].is_all_reduce || !has_moved) continue;
    ballot->add(seen_[i].shape, Verdict::kBuffers);
  }
  std::set<const void*> taken;
  for (const Seen& seen : seen_) {
    const bool is_out = seen.is_all_reduce && ballot->of(seen.shape) == Verdict::kBuffers;
    if (is_out && seen.address != nullptr) taken.insert(seen.address);
  }
  for (const Seen& seen : seen_) {
    if (seen.is_all_reduce && taken.count(seen.address) != 0) {
      ballot->add(seen.shape, Verdict::kBuffers);
    }
  }
}

void CallEvidence::judge_values(ClassBallot* ballot) const {
  const std::size_t first = seen_.size() - std::min(values_.size(), seen_.size());
  std::set<std::size_t> shapes;
  for (std::size_t i = first; i < seen_.size(); ++i) {
    if (seen_[i].is_all_reduce) shapes.insert(seen_[i].shape);
  }
  for (const std::size_t shape : shapes) {
    const auto is_of_it = [&](std::size_t sample) {
      const Seen& seen = seen_[first + sample];
      return seen.is_all_reduce && seen.shape == shape;
    };
    if (values_.speak_against_gradients(period_, is_of_it)) ballot->add(shape, Verdict::kValues);
  }
}

std::vector<CallEvidence::Seen> CallEvidence::candidates(const ClassBallot& ballot) const {
  std::vector<Seen> found;
  for (const Seen& seen : seen_) {
    if (seen.is_all_reduce && ballot.of(seen.shape) == Verdict::kGradients) found.push_back(seen);
  }
  return found;
}

}  // namespace ringpress::nccl_plugin
