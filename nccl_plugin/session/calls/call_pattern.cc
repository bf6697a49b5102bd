#include "nccl_plugin/session/calls/call_pattern.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin {
namespace {

// Calls that are kept: two of the longest periods.
constexpr std::size_t kHistory = 2 * CallPattern::kLongestPeriod;

std::uint64_t hash_of(const TensorCall& call) {
  const std::uint64_t what = static_cast<std::uint64_t>(call.kind) << 16 |
                             static_cast<std::uint64_t>(call.dtype) << 8 |
                             static_cast<std::uint64_t>(call.op);
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(call.address));
  return combine_hash(combine_hash(combine_hash(what, call.count), address), call.layout);
}

/// Each call has an address, and no two different calls have the same.
bool have_own_buffers(const std::vector<TensorCall>& calls) {
  std::vector<const TensorCall*> sorted;
  for (const TensorCall& call : calls) sorted.push_back(&call);
  std::sort(sorted.begin(), sorted.end(), [](const TensorCall* a, const TensorCall* b) {
    return std::less<const void*>()(a->address, b->address);
  });
  const auto shared = std::adjacent_find(sorted.begin(), sorted.end(),
                                         [](const TensorCall* a, const TensorCall* b) {
                                           return a->address == b->address && !(*a == *b);
                                         });
  return shared == sorted.end() && sorted.front()->address != nullptr;
}

}  // namespace

std::span<const TensorCall> CallPattern::cycle() const {
  return is_locked_ ? std::span<const TensorCall>(known_.front().calls)
                    : std::span<const TensorCall>();
}

bool CallPattern::has_landmark() const {
  const auto calls = cycle();
  return std::any_of(calls.begin(), calls.end(),
                     [&calls](const TensorCall& call) { return !(call == calls.front()); });
}

std::optional<std::size_t> CallPattern::observe(const TensorCall& call) {
  forgotten_.clear();
  if (is_locked_) {
    const std::vector<TensorCall>& calls = known_.front().calls;
    if (call == calls[cursor_]) {
      const std::size_t position = cursor_;
      cursor_ = cursor_ + 1 == calls.size() ? 0 : cursor_ + 1;
      ++run_;
      ++since_;
      note_proof();
      return position;
    }
    give_up();
  }
  note(call);
  if (!find_known() && !find_new()) return std::nullopt;
  return (cursor_ == 0 ? period() : cursor_) - 1;
}

/// What was refuted before has been explained by now.
void CallPattern::note_proof() {
  Cycle& cycle = known_.front();
  if (cycle.is_proven) return;
  if (run_ < kProofPeriods * cycle.calls.size() || run_ < kProofCalls) return;
  cycle.is_proven = true;
  evidence_ = 0;
  if (known_.size() <= kMostKnown) return;
  forgotten_.push_back(known_.back().id);
  known_.pop_back();
}

void CallPattern::give_up() {
  ++breaks_;
  recall_run();
  is_locked_ = false;
  counts_anew_ = true;
  const Cycle& cycle = known_.front();
  if (!cycle.is_proven) {
    evidence_ = std::max(evidence_, run_);
    forgotten_.push_back(cycle.id);
    known_.erase(known_.begin());
  } else if (cycle.has_own_buffers && run_ >= 2 * cycle.calls.size()) {
    since_own_run_ = 0;
  }
  for (Cycle& known : known_) known.matches.assign(known.calls.size(), 0);
}

/// Adds the calls that have fitted the sequence to the history.
void CallPattern::recall_run() {
  const Cycle& cycle = known_.front();
  const std::size_t period = cycle.calls.size();
  since_own_run_ += since_;
  const std::size_t count = std::min(since_, kHistory);
  std::size_t at = (cursor_ + period - count % period) % period;
  for (std::size_t i = 0; i < count; ++i) {
    history_.push_back(cycle.calls[at]);
    hashes_.push_back(cycle.hashes[at]);
    at = at + 1 == period ? 0 : at + 1;
  }
  trim_history();
}

void CallPattern::trim_history() {
  if (history_.size() <= 2 * kHistory) return;
  history_.erase(history_.begin(), history_.end() - static_cast<std::ptrdiff_t>(kHistory));
  hashes_.erase(hashes_.begin(), hashes_.end() - static_cast<std::ptrdiff_t>(kHistory));
}

void CallPattern::note(const TensorCall& call) {
  history_.push_back(call);
  hashes_.push_back(hash_of(call));
  trim_history();
  ++since_own_run_;
  if (std::exchange(counts_anew_, false)) {
    count_repeats_anew();
  } else {
    update_repeats();
  }
  matches_.clear();
  for (Cycle& known : known_) matches_.push_back(update_matches(&known, hashes_.back()));
}

void CallPattern::update_repeats() {
  const std::size_t size = hashes_.size();
  repeats_.resize(std::min(kLongestPeriod, size - 1), 0);
  const std::uint64_t newest = hashes_.back();
  const std::uint64_t* const before = hashes_.data() + size - 1;
  std::size_t most = 0;
  for (std::size_t p = 1; p <= repeats_.size(); ++p) {
    std::size_t& repeats = repeats_[p - 1];
    repeats = newest == *(before - p) ? repeats + 1 : 0;
    most = std::max(most, repeats);
  }
  most_repeats_ = most;
}

/// As far as that can be of any consequence.
void CallPattern::count_repeats_anew() {
  const std::size_t size = hashes_.size();
  repeats_.assign(std::min(kLongestPeriod, size - 1), 0);
  most_repeats_ = 0;
  for (std::size_t p = 1; p <= repeats_.size(); ++p) {
    const std::size_t most = std::min(std::max(p, evidence_), size - p);
    std::size_t& repeats = repeats_[p - 1];
    while (repeats < most && hashes_[size - 1 - repeats] == hashes_[size - 1 - repeats - p]) {
      ++repeats;
    }
    most_repeats_ = std::max(most_repeats_, repeats);
  }
}

CallPattern::Match CallPattern::update_matches(Cycle* cycle, std::uint64_t hash) const {
  std::vector<std::size_t>& matches = cycle->matches;
  const std::size_t last = matches.back();
  for (std::size_t p = matches.size() - 1; p > 0; --p) {
    matches[p] = cycle->hashes[p] == hash ? matches[p - 1] + 1 : 0;
  }
  matches[0] = cycle->hashes[0] == hash ? last + 1 : 0;
  const auto best = std::max_element(matches.begin(), matches.end());
  return {*best, static_cast<std::size_t>(best - matches.begin())};
}

/// True if the last calls are those of the sequence up to `position`, a whole period of them.
bool CallPattern::ends_at(const Cycle& cycle, std::size_t position) const {
  const std::size_t period = cycle.calls.size();
  if (history_.size() < period) return false;
  const TensorCall* call = history_.data() + history_.size();
  for (std::size_t i = 0; i < period; ++i) {
    if (!(*--call == cycle.calls[(position + period - i) % period])) return false;
  }
  return true;
}

/// Of the proven sequences the one that has come whole since the surprise, and that explains more
/// calls than any other. Two that explain the same differ before each has come twice; that is
/// waited for.
std::optional<std::size_t> CallPattern::best_explained() const {
  for (std::size_t i = 0; i < known_.size(); ++i) {
    const std::size_t period = known_[i].calls.size();
    const std::size_t calls = matches_[i].calls;
    if (calls < std::max<std::size_t>(period, 2)) continue;
    const bool is_certain = calls >= 2 * period;
    bool is_best = true;
    for (std::size_t other = 0; other < known_.size(); ++other) {
      if (other == i) continue;
      is_best &= is_certain ? matches_[other].calls <= calls : matches_[other].calls < calls;
    }
    if (is_best) return i;
  }
  return std::nullopt;
}

bool CallPattern::find_known() {
  const std::optional<std::size_t> found = best_explained();
  if (!found || !ends_at(known_[*found], matches_[*found].position)) return false;
  believe(*found, matches_[*found].position, matches_[*found].calls);
  return true;
}

/// A period P is suggested when the last calls, at least 2 P of them, repeat with it: more than
/// what refuted such a run before, and more than are explained by what is proven. 0: none.
std::size_t CallPattern::suggested_period() const {
  if (most_repeats_ == 0) return 0;
  std::size_t explained = evidence_;
  for (const Match& match : matches_) explained = std::max(explained, match.calls);
  const std::size_t longest = std::min(repeats_.size(), since_own_run_);
  for (std::size_t p = 1; p <= longest; ++p) {
    if (repeats_[p - 1] >= p && repeats_[p - 1] + p > explained) return p;
  }
  return 0;
}

bool CallPattern::find_new() {
  const std::size_t period = suggested_period();
  if (period == 0) return false;
  const auto end = history_.end();
  const auto length = static_cast<std::ptrdiff_t>(period);
  if (!std::equal(end - length, end, end - 2 * length)) return false;  // Only their hashes are.
  const std::size_t run = repeats_[period - 1] + period;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].calls.size() != period) continue;
    for (std::size_t position = 0; position < period; ++position) {
      if (!ends_at(known_[i], position)) continue;
      believe(i, position, run);
      return true;
    }
  }
  believe_new(period);
  return true;
}

/// The sequence known_[index], whose call at `position` was the last.
void CallPattern::believe(std::size_t index, std::size_t position, std::size_t run) {
  const auto first = known_.begin();
  std::rotate(first, first + static_cast<std::ptrdiff_t>(index),
              first + static_cast<std::ptrdiff_t>(index) + 1);
  is_locked_ = true;
  cursor_ = (position + 1) % known_.front().calls.size();
  run_ = run;
  since_ = 0;
  note_proof();
}

void CallPattern::believe_new(std::size_t period) {
  const auto length = static_cast<std::ptrdiff_t>(period);
  Cycle made;
  made.id = ++last_id_;
  made.calls.assign(history_.end() - length, history_.end());
  made.hashes.assign(hashes_.end() - length, hashes_.end());
  made.has_own_buffers = have_own_buffers(made.calls);
  known_.push_back(std::move(made));
  believe(known_.size() - 1, period - 1, repeats_[period - 1] + period);
}

}  // namespace ringpress::nccl_plugin
