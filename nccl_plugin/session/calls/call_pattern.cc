#include "nccl_plugin/session/calls/call_pattern.h"

#include <algorithm>

namespace ringpress::nccl_plugin {
namespace {

/// As far as what is looked up by these numbers has to be there.
bool is_sound(const std::vector<CallCycle>& known, const CycleRun& run) {
  const auto is_own = [](const CallCycle& cycle) {
    const auto own = [&cycle](const TensorPlace& tensor) { return tensor.cycle == cycle.id; };
    return std::any_of(cycle.tensors.begin(), cycle.tensors.end(), own);
  };
  const auto has_matches = [](const CallCycle& cycle) { return !cycle.matches.empty(); };
  if (!std::all_of(known.begin(), known.end(), is_own)) return false;
  if (!run.goes_on() && !std::all_of(known.begin(), known.end(), has_matches)) return false;
  if (run.goes_on() && run.is_interrupted()) return false;
  const bool has_first = !known.empty() && run.next() < known.front().period();
  return has_first || !(run.goes_on() || run.is_interrupted());
}

// So often in a row strays have come with a step that are calls of it.
constexpr std::size_t kStrayPeriods = 8;

/// Of the proven sequence together with the strays beside it, if these come in each round of it. 0:
/// they do not.
std::size_t period_with_strays(const KnownCycles& known, const CycleRun& run,
                               const CallHistory& history) {
  if (!run.is_interrupted() || !known.front().is_proven) return 0;
  const std::size_t period = history.shortest_period(CallHistory::kLongestPeriod, 0);
  if (period == 0 || !history.has_period(period, (kStrayPeriods - 1) * period)) return 0;
  return known.is_front_with_strays(history.last(period)) ? period : 0;
}

}  // namespace

std::optional<std::size_t> CallPattern::observe(const TensorCall& call) {
  known_.clear_forgotten();
  if (run_.goes_on() || run_.is_interrupted()) {
    const CallCycle& cycle = known_.front();
    const std::size_t next = run_.next();
    if (call == cycle.calls[next] && (run_.goes_on() || known_.is_certain(next))) {
      run_.go_on(cycle.period());
      note_proof();
      return next;
    }
    if (run_.goes_on()) leave();
    run_.pass(call, cycle);
    if (!run_.is_interrupted()) give_up();
  }
  history_.note(call, refuted_run());
  ++since_own_run_;
  known_.match(history_.last_hash());
  std::optional<KnownCycles::Place> found = known_.best_explained(history_);
  if (!found) found = find_new();
  if (!found) return std::nullopt;
  believe(*found);
  return run_.last(cycle().period());
}

/// What was refuted before has been explained by now.
void CallPattern::note_proof() {
  const CallCycle& cycle = known_.front();
  if (cycle.is_proven) return;
  if (!run_.is_proof(cycle.period())) return;
  known_.prove_front();
  evidence_ = 0;
  known_.forget_oldest();
}

/// A call does not fit the sequence. The history goes on with the calls that did.
void CallPattern::leave() {
  ++breaks_;
  const CallCycle& cycle = known_.front();
  const std::size_t period = cycle.period();
  const std::size_t since = run_.leave();
  const std::size_t count = std::min(since, CallHistory::kKept);
  history_.append(cycle.calls, cycle.hashes, (run_.next() + period - count % period) % period,
                  count);
  since_own_run_ += since;
  if (cycle.is_proven && cycle.has_own_buffers && run_.calls() >= 2 * period) since_own_run_ = 0;
  known_.begin_matching();
}

/// It will not go on where it was left.
void CallPattern::give_up() {
  if (known_.front().is_proven) return;
  evidence_ = std::max(evidence_, run_.calls());
  known_.forget(0);
}

/// A run must be longer than this before it is believed.
std::size_t CallPattern::refuted_run() const {
  const bool is_in_doubt = run_.is_interrupted() && !known_.front().is_proven;
  return is_in_doubt ? std::max(evidence_, run_.calls()) : evidence_;
}

/// A period P is suggested when the last calls, at least 2 P of them, repeat with it: more than
/// what refuted such a run before, and more than are explained by what is proven. Or the strays
/// beside what is proven have become calls of it.
std::optional<KnownCycles::Place> CallPattern::find_new() {
  const std::size_t explained = std::max(refuted_run(), known_.explained());
  std::size_t period = history_.shortest_period(since_own_run_, explained);
  const bool has_strays = period == 0;
  if (has_strays) period = period_with_strays(known_, run_, history_);
  if (period == 0) return std::nullopt;
  const std::span<const TensorCall> twice = history_.last(2 * period);
  if (!std::equal(twice.begin() + static_cast<std::ptrdiff_t>(period), twice.end(),
                  twice.begin())) {
    return std::nullopt;  // Only their hashes are.
  }
  auto found = known_.ending_now(history_, period);
  if (!found) {
    known_.add(history_.last(period));
    found = KnownCycles::Place{known_.all().size() - 1, {0, period - 1}};
  }
  found->last.calls = has_strays ? kStrayPeriods * period : history_.repeats(period) + period;
  return found;
}

/// The sequence of which the last call was.
void CallPattern::believe(const KnownCycles::Place& place) {
  known_.bring_to_front(place.index, run_.is_interrupted());
  run_.begin(place.last, known_.front().period());
  note_proof();
  known_.forget_oldest();
}

const TensorCall* CallPattern::expected() const {
  const bool may_go_on = run_.goes_on() || run_.is_interrupted();
  return may_go_on ? &known_.front().calls[run_.next()] : nullptr;
}

const TensorCall* CallPattern::last() const {
  if (run_.goes_on()) return &cycle().calls[run_.last(cycle().period())];
  return history_.calls().empty() ? nullptr : &history_.calls().back();
}

std::vector<std::span<const TensorCall>> CallPattern::seen() const {
  std::vector<std::span<const TensorCall>> seen{history_.calls()};
  for (const CallCycle& cycle : known_.all()) seen.emplace_back(cycle.calls);
  return seen;
}

void CallPattern::forget_until(std::uint64_t id) {
  const std::vector<CallCycle>& known = known_.all();
  if (!known.empty() && known.front().id <= id && !run_.goes_on()) run_.end();
  for (std::size_t i = known.size(); i-- > 0;) {
    if (known[i].id <= id && !(i == 0 && run_.goes_on())) known_.forget(i);
  }
}

void CallPattern::save(StateWriter& to) const {
  known_.save(to);
  run_.save(to);
  to.put<std::uint64_t>(evidence_);
  to.put<std::uint64_t>(since_own_run_);
  to.put(known_.last_id());
  to.put(breaks_);
  history_.save(to);
}

void CallPattern::load(StateReader& from) {
  *this = CallPattern();
  known_.load(from);
  run_.load(from);
  evidence_ = static_cast<std::size_t>(from.get<std::uint64_t>());
  since_own_run_ = static_cast<std::size_t>(from.get<std::uint64_t>());
  known_.set_last_id(from.get<std::uint64_t>());
  breaks_ = from.get<std::uint64_t>();
  history_.load(from);
  from.require(from.is_ok() && is_sound(known_.all(), run_));
  if (!from.is_ok()) *this = CallPattern();
}

}  // namespace ringpress::nccl_plugin
