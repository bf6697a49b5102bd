#include "nccl_plugin/session/calls/call_pattern.h"

#include <algorithm>
#include <utility>

namespace ringpress::nccl_plugin {

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
  known_.clear_forgotten();
  if (is_locked_ || is_interrupted_) {
    const CallCycle& cycle = known_.front();
    if (call == cycle.calls[cursor_] && (is_locked_ || known_.is_certain(cursor_))) return go_on();
    if (is_locked_) leave();
    is_interrupted_ = ++strays_ < run_ && is_stray(call, cycle);
    if (!is_interrupted_) give_up();
  }
  note(call);
  if (!find_known() && !find_new()) return std::nullopt;
  return (cursor_ == 0 ? period() : cursor_) - 1;
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
  const CallCycle& cycle = known_.front();
  if (cycle.is_proven) return;
  if (run_ < kProofPeriods * cycle.calls.size() || run_ < kProofCalls) return;
  known_.prove_front();
  evidence_ = 0;
  known_.forget_oldest();
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
  known_.begin_matching();
}

/// It will not go on where it was left.
void CallPattern::give_up() {
  is_interrupted_ = false;
  if (known_.front().is_proven) return;
  evidence_ = std::max(evidence_, run_);
  known_.forget(0);
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
  known_.match(history_.last_hash());
}

/// A run must be longer than this before it is believed.
std::size_t CallPattern::refuted_run() const {
  const bool is_in_doubt = is_interrupted_ && !known_.front().is_proven;
  return is_in_doubt ? std::max(evidence_, run_) : evidence_;
}

bool CallPattern::find_known() {
  const auto found = known_.best_explained(history_);
  if (found) believe(*found);
  return found.has_value();
}

/// A period P is suggested when the last calls, at least 2 P of them, repeat with it: more than
/// what refuted such a run before, and more than are explained by what is proven. 0: none.
std::size_t CallPattern::suggested_period() const {
  if (history_.most_repeats() == 0) return 0;
  const std::size_t explained = std::max(refuted_run(), known_.explained());
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
  auto found = known_.ending_now(history_, period);
  if (!found) {
    known_.add(history_.last(period));
    found = KnownCycles::Place{known_.all().size() - 1, {0, period - 1}};
  }
  found->last.calls = history_.repeats(period) + period;
  believe(*found);
  return true;
}

/// The sequence of which the last call was.
void CallPattern::believe(const KnownCycles::Place& place) {
  known_.bring_to_front(place.index, std::exchange(is_interrupted_, false));
  is_locked_ = true;
  cursor_ = (place.last.position + 1) % known_.front().calls.size();
  run_ = place.last.calls;
  since_ = 0;
  note_proof();
  known_.forget_oldest();
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
  for (const CallCycle& cycle : known_.all()) seen.emplace_back(cycle.calls);
  return seen;
}

void CallPattern::forget_until(std::uint64_t id) {
  const std::vector<CallCycle>& known = known_.all();
  if (!known.empty() && known.front().id <= id && !is_locked_) is_interrupted_ = false;
  for (std::size_t i = known.size(); i-- > 0;) {
    if (known[i].id <= id && !(i == 0 && is_locked_)) known_.forget(i);
  }
}

void CallPattern::save(StateWriter& to) const {
  known_.save(to);
  to.put(is_locked_);
  to.put(is_interrupted_);
  for (const std::size_t number : {strays_, cursor_, run_, since_, evidence_, since_own_run_}) {
    to.put<std::uint64_t>(number);
  }
  to.put(known_.last_id());
  to.put(breaks_);
  history_.save(to);
}

void CallPattern::load(StateReader& from) {
  *this = CallPattern();
  known_.load(from);
  is_locked_ = from.get<bool>();
  is_interrupted_ = from.get<bool>();
  for (std::size_t* const number :
       {&strays_, &cursor_, &run_, &since_, &evidence_, &since_own_run_}) {
    *number = static_cast<std::size_t>(from.get<std::uint64_t>());
  }
  known_.set_last_id(from.get<std::uint64_t>());
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
  const std::vector<CallCycle>& known = known_.all();
  if (!std::all_of(known.begin(), known.end(), is_own)) return false;
  if (!is_locked_ && !std::all_of(known.begin(), known.end(), has_matches)) return false;
  if (is_locked_ && is_interrupted_) return false;
  const bool has_first = !known.empty() && cursor_ < known.front().calls.size();
  return has_first || !(is_locked_ || is_interrupted_);
}

}  // namespace ringpress::nccl_plugin
