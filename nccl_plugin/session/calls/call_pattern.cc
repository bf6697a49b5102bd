#include "nccl_plugin/session/calls/call_pattern.h"

#include <algorithm>
#include <utility>

namespace ringpress::nccl_plugin {
namespace {

// Beside a stray, a sequence is so many times as large.
constexpr std::size_t kStrayShare = 8;

std::size_t bytes_of(const TensorCall& call) {
  return call.count * dtype_size(call.dtype);
}
std::uintptr_t first_byte(const TensorCall& call) {
  return reinterpret_cast<std::uintptr_t>(call.address);
}
std::uintptr_t end_byte(const TensorCall& call) {
  return first_byte(call) + bytes_of(call);
}

/// Each call has an address, and the memory of no two different calls overlaps.
bool have_own_buffers(const std::vector<TensorCall>& calls) {
  std::vector<const TensorCall*> sorted;
  for (const TensorCall& call : calls) sorted.push_back(&call);
  std::sort(sorted.begin(), sorted.end(), [](const TensorCall* a, const TensorCall* b) {
    return first_byte(*a) < first_byte(*b);
  });
  const auto shared = std::adjacent_find(sorted.begin(), sorted.end(),
                                         [](const TensorCall* a, const TensorCall* b) {
                                           return first_byte(*b) < end_byte(*a) && !(*a == *b);
                                         });
  return shared == sorted.end() && sorted.front()->address != nullptr;
}

bool have_memory_in_common(const TensorCall& a, const TensorCall& b) {
  return first_byte(a) < end_byte(b) && first_byte(b) < end_byte(a);
}

// The least that a state has of them.
constexpr std::size_t kSavedPlaceBytes = 16;
constexpr std::size_t kSavedCycleBytes = 25;

/// (A larger call may as well be one more tensor, or the beginning of another sequence.)
bool is_stray(const TensorCall& call, const CallCycle& cycle) {
  if (!cycle.has_own_buffers || call.address == nullptr) return false;
  std::size_t bytes = 0;
  for (const TensorCall& own : cycle.calls) {
    if (have_memory_in_common(own, call)) return false;
    bytes += bytes_of(own);
  }
  return kStrayShare * bytes_of(call) <= bytes;
}

CycleMatch update_matches(CallCycle* cycle, std::uint64_t hash) {
  std::vector<std::size_t>& matches = cycle->matches;
  const std::size_t last = matches.back();
  for (std::size_t p = matches.size() - 1; p > 0; --p) {
    matches[p] = cycle->hashes[p] == hash ? matches[p - 1] + 1 : 0;
  }
  matches[0] = cycle->hashes[0] == hash ? last + 1 : 0;
  const auto best = std::max_element(matches.begin(), matches.end());
  return {*best, static_cast<std::size_t>(best - matches.begin())};
}

/// If the sequence `whole` is `part`, more than once, but for strays: its tensors are that one's.
bool name_tensors(const CallCycle& part, CallCycle* whole) {
  std::vector<std::size_t> own;  // Positions.
  for (std::size_t i = 0; i < whole->calls.size(); ++i) {
    if (!is_stray(whole->calls[i], part)) own.push_back(i);
  }
  const std::size_t period = part.calls.size();
  if (own.size() < 2 * period || own.size() % period != 0) return false;
  if (2 * own.size() <= whole->calls.size()) return false;
  for (std::size_t first = 0; first < period; ++first) {
    std::size_t i = 0;
    while (i < own.size() && whole->calls[own[i]] == part.calls[(first + i) % period]) ++i;
    if (i < own.size()) continue;
    for (i = 0; i < own.size(); ++i) {
      whole->tensors[own[i]] = part.tensors[(first + i) % period];
    }
    return true;
  }
  return false;
}

/// Whether the sequence of this number has come again and again in this one.
bool has_part(const CallCycle& whole, std::uint64_t id) {
  return std::any_of(whole.tensors.begin(), whole.tensors.end(),
                     [id](const TensorPlace& tensor) { return tensor.cycle == id; });
}

void save_cycle(const CallCycle& cycle, StateWriter& to) {
  to.put(cycle.id);
  save_calls(cycle.calls, to);
  for (const TensorPlace& tensor : cycle.tensors) {
    to.put(tensor.cycle);
    to.put<std::uint64_t>(tensor.position);
  }
  to.put_list(cycle.matches);
  to.put(cycle.is_proven);
}

CallCycle load_cycle(StateReader& from) {
  CallCycle cycle;
  cycle.id = from.get<std::uint64_t>();
  cycle.calls = load_calls(from, CallPattern::kLongestPeriod);
  from.require(!cycle.calls.empty() && cycle.calls.size() <= from.left() / kSavedPlaceBytes);
  if (!from.is_ok()) return cycle;
  for (std::size_t i = 0; i < cycle.calls.size(); ++i) {
    const auto id = from.get<std::uint64_t>();
    cycle.tensors.push_back({id, static_cast<std::size_t>(from.get<std::uint64_t>())});
  }
  cycle.matches = from.get_list<std::size_t>(CallPattern::kLongestPeriod);
  from.require(cycle.matches.empty() || cycle.matches.size() == cycle.calls.size());
  cycle.is_proven = from.get<bool>();
  cycle.hashes = hashes_of(cycle.calls);
  cycle.has_own_buffers = have_own_buffers(cycle.calls);
  return cycle;
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
  if (is_locked_ || is_interrupted_) {
    const CallCycle& cycle = known_.front();
    if (call == cycle.calls[cursor_] && (is_locked_ || is_certain())) return go_on();
    if (is_locked_) leave();
    is_interrupted_ = ++strays_ < run_ && is_stray(call, cycle);
    if (!is_interrupted_) give_up();
  }
  note(call);
  if (!find_known() && !find_new()) return std::nullopt;
  return (cursor_ == 0 ? period() : cursor_) - 1;
}

/// Whether the interrupted sequence's next call is no other tensor's.
bool CallPattern::is_certain() const {
  const CallCycle& cycle = known_.front();
  for (const CallCycle& known : known_) {
    for (std::size_t i = 0; i < known.calls.size(); ++i) {
      const bool is_another =
          known.hashes[i] == cycle.hashes[cursor_] && !(known.tensors[i] == cycle.tensors[cursor_]);
      if (is_another) return false;
    }
  }
  return true;
}

/// The call that comes is the sequence's next.
std::optional<std::size_t> CallPattern::go_on() {
  const std::size_t position = cursor_;
  cursor_ = cursor_ + 1 == known_.front().calls.size() ? 0 : cursor_ + 1;
  is_locked_ = true;
  is_interrupted_ = false;
  ++run_;
  ++since_;
  note_proof();
  return position;
}

/// What was refuted before has been explained by now.
void CallPattern::note_proof() {
  CallCycle& cycle = known_.front();
  if (cycle.is_proven) return;
  if (run_ < kProofPeriods * cycle.calls.size() || run_ < kProofCalls) return;
  cycle.is_proven = true;
  evidence_ = 0;
  forget_oldest();
}

/// A call does not fit the sequence.
void CallPattern::leave() {
  ++breaks_;
  recall_run();
  is_locked_ = false;
  strays_ = 0;
  const CallCycle& cycle = known_.front();
  if (cycle.is_proven && cycle.has_own_buffers && run_ >= 2 * cycle.calls.size()) {
    since_own_run_ = 0;
  }
  for (CallCycle& known : known_) known.matches.assign(known.calls.size(), 0);
}

/// It will not go on where it was left.
void CallPattern::give_up() {
  is_interrupted_ = false;
  if (known_.front().is_proven) return;
  evidence_ = std::max(evidence_, run_);
  forget(0);
}

void CallPattern::forget(std::size_t index) {
  const std::uint64_t id = known_[index].id;
  forgotten_.push_back(id);
  known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(index));
  for (CallCycle& known : known_) {
    for (std::size_t i = 0; i < known.tensors.size(); ++i) {
      if (known.tensors[i].cycle == id) known.tensors[i] = {known.id, i};
    }
  }
}

/// Of those that are proven.
void CallPattern::forget_oldest() {
  const std::size_t most = kMostKnown + (known_.front().is_proven ? 0 : 1);
  while (known_.size() > most) forget(known_.size() - 1);
}

/// Adds the calls that have fitted the sequence to the history.
void CallPattern::recall_run() {
  const CallCycle& cycle = known_.front();
  const std::size_t period = cycle.calls.size();
  since_own_run_ += since_;
  const std::size_t count = std::min(since_, CallHistory::kKept);
  history_.append(cycle.calls, cycle.hashes, (cursor_ + period - count % period) % period, count);
  since_ = 0;
}

void CallPattern::note(const TensorCall& call) {
  history_.note(call, refuted_run());
  ++since_own_run_;
  matches_.clear();
  for (CallCycle& known : known_) matches_.push_back(update_matches(&known, history_.last_hash()));
}

/// A run must be longer than this before it is believed.
std::size_t CallPattern::refuted_run() const {
  const bool is_in_doubt = is_interrupted_ && !known_.front().is_proven;
  return is_in_doubt ? std::max(evidence_, run_) : evidence_;
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
  if (!found || !history_.ends_at(known_[*found].calls, matches_[*found].position)) return false;
  believe(*found, matches_[*found].position, matches_[*found].calls);
  return true;
}

/// A period P is suggested when the last calls, at least 2 P of them, repeat with it: more than
/// what refuted such a run before, and more than are explained by what is proven. 0: none.
std::size_t CallPattern::suggested_period() const {
  if (history_.most_repeats() == 0) return 0;
  std::size_t explained = refuted_run();
  for (const CycleMatch& match : matches_) explained = std::max(explained, match.calls);
  const std::size_t longest = std::min(history_.longest_period(), since_own_run_);
  for (std::size_t p = 1; p <= longest; ++p) {
    if (history_.repeats(p) >= p && history_.repeats(p) + p > explained) return p;
  }
  return 0;
}

bool CallPattern::find_new() {
  const std::size_t period = suggested_period();
  if (period == 0) return false;
  const std::span<const TensorCall> twice = history_.last(2 * period);
  if (!std::equal(twice.begin() + static_cast<std::ptrdiff_t>(period), twice.end(),
                  twice.begin())) {
    return false;  // Only their hashes are.
  }
  const std::size_t run = history_.repeats(period) + period;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].calls.size() != period) continue;
    for (std::size_t position = 0; position < period; ++position) {
      if (!history_.ends_at(known_[i].calls, position)) continue;
      believe(i, position, run);
      return true;
    }
  }
  believe_new(period);
  return true;
}

/// The sequence known_[index], whose call at `position` was the last.
void CallPattern::believe(std::size_t index, std::size_t position, std::size_t run) {
  if (std::exchange(is_interrupted_, false) && !known_.front().is_proven) {
    if (has_part(known_[index], known_.front().id)) {
      known_.front().is_proven = true;
    } else {
      forget(0);
      --index;
    }
  }
  const auto first = known_.begin();
  std::rotate(first, first + static_cast<std::ptrdiff_t>(index),
              first + static_cast<std::ptrdiff_t>(index) + 1);
  is_locked_ = true;
  cursor_ = (position + 1) % known_.front().calls.size();
  run_ = run;
  since_ = 0;
  note_proof();
  forget_oldest();
}

void CallPattern::believe_new(std::size_t period) {
  const std::span<const TensorCall> last = history_.last(period);
  CallCycle made;
  made.id = ++last_id_;
  made.calls.assign(last.begin(), last.end());
  made.hashes = hashes_of(made.calls);
  made.has_own_buffers = have_own_buffers(made.calls);
  for (std::size_t i = 0; i < period; ++i) made.tensors.push_back({made.id, i});
  for (const CallCycle& part : known_) {
    if (name_tensors(part, &made)) break;
  }
  known_.push_back(std::move(made));
  believe(known_.size() - 1, period - 1, history_.repeats(period) + period);
}

const TensorCall* CallPattern::expected() const {
  return is_locked_ || is_interrupted_ ? &known_.front().calls[cursor_] : nullptr;
}

const TensorCall* CallPattern::last() const {
  if (!is_locked_) return history_.calls().empty() ? nullptr : &history_.calls().back();
  return &known_.front().calls[(cursor_ == 0 ? period() : cursor_) - 1];
}

std::vector<std::span<const TensorCall>> CallPattern::seen() const {
  std::vector<std::span<const TensorCall>> seen{history_.calls()};
  for (const CallCycle& cycle : known_) seen.emplace_back(cycle.calls);
  return seen;
}

void CallPattern::forget_until(std::uint64_t id) {
  if (!known_.empty() && known_.front().id <= id && !is_locked_) is_interrupted_ = false;
  for (std::size_t i = known_.size(); i-- > 0;) {
    if (known_[i].id <= id && !(i == 0 && is_locked_)) forget(i);
  }
}

void CallPattern::save(StateWriter& to) const {
  to.put<std::uint64_t>(known_.size());
  for (const CallCycle& cycle : known_) save_cycle(cycle, to);
  to.put(is_locked_);
  to.put(is_interrupted_);
  for (const std::size_t number : {strays_, cursor_, run_, since_, evidence_, since_own_run_}) {
    to.put<std::uint64_t>(number);
  }
  to.put(last_id_);
  to.put(breaks_);
  history_.save(to);
}

void CallPattern::load(StateReader& from) {
  *this = CallPattern();
  const std::size_t known = from.get_count(kSavedCycleBytes, kMostKnown + 1);
  for (std::size_t i = 0; i < known && from.is_ok(); ++i) known_.push_back(load_cycle(from));
  is_locked_ = from.get<bool>();
  is_interrupted_ = from.get<bool>();
  for (std::size_t* const number :
       {&strays_, &cursor_, &run_, &since_, &evidence_, &since_own_run_}) {
    *number = static_cast<std::size_t>(from.get<std::uint64_t>());
  }
  last_id_ = from.get<std::uint64_t>();
  breaks_ = from.get<std::uint64_t>();
  history_.load(from);
  from.require(from.is_ok() && is_sound());
  if (!from.is_ok()) *this = CallPattern();
}

/// As far as what is looked up by these numbers has to be there.
bool CallPattern::is_sound() const {
  const auto is_own = [](const CallCycle& cycle) {
    const auto own = [&cycle](const TensorPlace& tensor) { return tensor.cycle == cycle.id; };
    return std::any_of(cycle.tensors.begin(), cycle.tensors.end(), own);
  };
  const auto has_matches = [](const CallCycle& cycle) { return !cycle.matches.empty(); };
  if (!std::all_of(known_.begin(), known_.end(), is_own)) return false;
  if (!is_locked_ && !std::all_of(known_.begin(), known_.end(), has_matches)) return false;
  if (is_locked_ && is_interrupted_) return false;
  if ((is_locked_ || is_interrupted_) &&
      (known_.empty() || cursor_ >= known_.front().calls.size())) {
    return false;
  }
  return true;
}

}  // namespace ringpress::nccl_plugin
