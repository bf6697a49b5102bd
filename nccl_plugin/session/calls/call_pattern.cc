#include "nccl_plugin/session/calls/call_pattern.h"

#include <algorithm>
#include <utility>

#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin {
namespace {

// Beside a stray, a sequence is so many times as large.
constexpr std::size_t kStrayShare = 8;
// Calls that are kept: two of the longest periods.
constexpr std::size_t kHistory = 2 * CallPattern::kLongestPeriod;

std::uint64_t hash_of(const TensorCall& call) {
  const std::uint64_t what = static_cast<std::uint64_t>(call.kind) << 16 |
                             static_cast<std::uint64_t>(call.dtype) << 8 |
                             static_cast<std::uint64_t>(call.op);
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(call.address));
  return combine_hash(combine_hash(combine_hash(what, call.count), address), call.layout);
}

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

void save_calls(const std::vector<TensorCall>& calls, StateWriter& to) {
  to.put<std::uint64_t>(calls.size());
  for (const TensorCall& call : calls) save_call(call, to);
}

std::vector<TensorCall> load_calls(StateReader& from, std::size_t most) {
  std::vector<TensorCall> calls(from.get_count(kSavedCallBytes, most));
  for (TensorCall& call : calls) call = load_call(from);
  return calls;
}

std::vector<std::uint64_t> hashes_of(const std::vector<TensorCall>& calls) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(calls.size());
  for (const TensorCall& call : calls) hashes.push_back(hash_of(call));
  return hashes;
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
    const Cycle& cycle = known_.front();
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
  const Cycle& cycle = known_.front();
  for (const Cycle& known : known_) {
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

/// (A larger call may as well be one more tensor, or the beginning of another sequence.)
bool CallPattern::is_stray(const TensorCall& call, const Cycle& cycle) {
  if (!cycle.has_own_buffers || call.address == nullptr) return false;
  std::size_t bytes = 0;
  for (const TensorCall& own : cycle.calls) {
    if (have_memory_in_common(own, call)) return false;
    bytes += bytes_of(own);
  }
  return kStrayShare * bytes_of(call) <= bytes;
}

/// What was refuted before has been explained by now.
void CallPattern::note_proof() {
  Cycle& cycle = known_.front();
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
  counts_anew_ = true;
  strays_ = 0;
  const Cycle& cycle = known_.front();
  if (cycle.is_proven && cycle.has_own_buffers && run_ >= 2 * cycle.calls.size()) {
    since_own_run_ = 0;
  }
  for (Cycle& known : known_) known.matches.assign(known.calls.size(), 0);
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
  for (Cycle& known : known_) {
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
  since_ = 0;
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

/// A run must be longer than this before it is believed.
std::size_t CallPattern::refuted_run() const {
  const bool is_in_doubt = is_interrupted_ && !known_.front().is_proven;
  return is_in_doubt ? std::max(evidence_, run_) : evidence_;
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
    const std::size_t most = std::min(std::max(p, refuted_run()), size - p);
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
  std::size_t explained = refuted_run();
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
  if (std::exchange(is_interrupted_, false) && !known_.front().is_proven) {
    if (is_part_of(known_[index])) {
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

/// If the sequence `whole` is `part`, more than once, but for strays: its tensors are that one's.
bool CallPattern::name_tensors(const Cycle& part, Cycle* whole) {
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

/// Whether the interrupted sequence has come again and again in this one.
bool CallPattern::is_part_of(const Cycle& whole) const {
  const std::uint64_t id = known_.front().id;
  return std::any_of(whole.tensors.begin(), whole.tensors.end(),
                     [id](const TensorPlace& tensor) { return tensor.cycle == id; });
}

void CallPattern::believe_new(std::size_t period) {
  const auto length = static_cast<std::ptrdiff_t>(period);
  Cycle made;
  made.id = ++last_id_;
  made.calls.assign(history_.end() - length, history_.end());
  made.hashes.assign(hashes_.end() - length, hashes_.end());
  made.has_own_buffers = have_own_buffers(made.calls);
  for (std::size_t i = 0; i < period; ++i) made.tensors.push_back({made.id, i});
  for (const Cycle& part : known_) {
    if (name_tensors(part, &made)) break;
  }
  known_.push_back(std::move(made));
  believe(known_.size() - 1, period - 1, repeats_[period - 1] + period);
}

const TensorCall* CallPattern::expected() const {
  return is_locked_ || is_interrupted_ ? &known_.front().calls[cursor_] : nullptr;
}

const TensorCall* CallPattern::last() const {
  if (!is_locked_) return history_.empty() ? nullptr : &history_.back();
  return &known_.front().calls[(cursor_ == 0 ? period() : cursor_) - 1];
}

std::vector<std::span<const TensorCall>> CallPattern::seen() const {
  std::vector<std::span<const TensorCall>> seen{history_};
  for (const Cycle& cycle : known_) seen.emplace_back(cycle.calls);
  return seen;
}

void CallPattern::forget_until(std::uint64_t id) {
  if (!known_.empty() && known_.front().id <= id && !is_locked_) is_interrupted_ = false;
  for (std::size_t i = known_.size(); i-- > 0;) {
    if (known_[i].id <= id && !(i == 0 && is_locked_)) forget(i);
  }
}

void CallPattern::save_cycle(const Cycle& cycle, StateWriter& to) {
  to.put(cycle.id);
  save_calls(cycle.calls, to);
  for (const TensorPlace& tensor : cycle.tensors) {
    to.put(tensor.cycle);
    to.put<std::uint64_t>(tensor.position);
  }
  to.put_list(cycle.matches);
  to.put(cycle.is_proven);
}

CallPattern::Cycle CallPattern::load_cycle(StateReader& from) {
  Cycle cycle;
  cycle.id = from.get<std::uint64_t>();
  cycle.calls = load_calls(from, kLongestPeriod);
  from.require(!cycle.calls.empty() && cycle.calls.size() <= from.left() / kSavedPlaceBytes);
  if (!from.is_ok()) return cycle;
  for (std::size_t i = 0; i < cycle.calls.size(); ++i) {
    const auto id = from.get<std::uint64_t>();
    cycle.tensors.push_back({id, static_cast<std::size_t>(from.get<std::uint64_t>())});
  }
  cycle.matches = from.get_list<std::size_t>(kLongestPeriod);
  from.require(cycle.matches.empty() || cycle.matches.size() == cycle.calls.size());
  cycle.is_proven = from.get<bool>();
  cycle.hashes = hashes_of(cycle.calls);
  cycle.has_own_buffers = have_own_buffers(cycle.calls);
  return cycle;
}

void CallPattern::save(StateWriter& to) const {
  to.put<std::uint64_t>(known_.size());
  for (const Cycle& cycle : known_) save_cycle(cycle, to);
  to.put(is_locked_);
  to.put(is_interrupted_);
  for (const std::size_t number : {strays_, cursor_, run_, since_, evidence_, since_own_run_}) {
    to.put<std::uint64_t>(number);
  }
  to.put(last_id_);
  to.put(breaks_);
  save_calls(history_, to);
  to.put_list(repeats_);
  to.put(counts_anew_);
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
  history_ = load_calls(from, 2 * kHistory);
  hashes_ = hashes_of(history_);
  repeats_ = from.get_list<std::size_t>(kLongestPeriod);
  most_repeats_ = repeats_.empty() ? 0 : *std::max_element(repeats_.begin(), repeats_.end());
  counts_anew_ = from.get<bool>();
  from.require(from.is_ok() && is_sound());
  if (!from.is_ok()) *this = CallPattern();
}

/// As far as what is looked up by these numbers has to be there.
bool CallPattern::is_sound() const {
  const auto is_own = [](const Cycle& cycle) {
    const auto own = [&cycle](const TensorPlace& tensor) { return tensor.cycle == cycle.id; };
    return std::any_of(cycle.tensors.begin(), cycle.tensors.end(), own);
  };
  const auto has_matches = [](const Cycle& cycle) { return !cycle.matches.empty(); };
  if (!std::all_of(known_.begin(), known_.end(), is_own)) return false;
  if (!is_locked_ && !std::all_of(known_.begin(), known_.end(), has_matches)) return false;
  if (is_locked_ && is_interrupted_) return false;
  if ((is_locked_ || is_interrupted_) &&
      (known_.empty() || cursor_ >= known_.front().calls.size())) {
    return false;
  }
  for (std::size_t p = 1; p <= repeats_.size(); ++p) {
    const bool is_there = 2 * p <= history_.size() ||
                          (p <= history_.size() && repeats_[p - 1] <= history_.size() - p);
    if (!is_there) return false;
  }
  return true;
}

}  // namespace ringpress::nccl_plugin
