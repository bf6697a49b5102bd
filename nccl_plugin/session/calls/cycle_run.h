// The calls that fit a sequence, one after the other.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CYCLE_RUN_H_
#define NCCL_PLUGIN_SESSION_CALLS_CYCLE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "nccl_plugin/session/calls/known_cycles.h"
#include "nccl_plugin/session/state/state_bytes.h"

namespace ringpress::nccl_plugin {

/// Of the sequence that is believed, or was before a call came that did not fit.
class CycleRun {
 public:
  // So often, and with so many calls, has a sequence come that is proven.
  static constexpr std::size_t kProofPeriods = 3;
  static constexpr std::size_t kProofCalls = 8;

  bool goes_on() const { return goes_on_; }
  /// All that came since it was left were strays.
  bool is_interrupted() const { return is_interrupted_; }
  /// Place of the next call.
  std::size_t next() const { return next_; }
  /// Place of the last one.
  std::size_t last(std::size_t period) const { return (next_ == 0 ? period : next_) - 1; }
  /// How many have fitted, those that suggested the sequence included.
  std::size_t calls() const { return calls_; }
  bool is_proof(std::size_t period) const {
    return calls_ >= kProofPeriods * period && calls_ >= kProofCalls;
  }

  /// The sequence is believed after this call.
  void begin(const CycleMatch& last, std::size_t period) {
    goes_on_ = true;
    is_interrupted_ = false;
    next_ = (last.position + 1) % period;
    calls_ = last.calls;
    since_ = 0;
  }
  /// Its next call comes.
  void go_on(std::size_t period) {
    next_ = next_ + 1 == period ? 0 : next_ + 1;
    goes_on_ = true;
    is_interrupted_ = false;
    ++calls_;
    ++since_;
  }
  /// Another call comes. Returns how many have fitted since it was believed, or was left last.
  std::size_t leave() {
    goes_on_ = false;
    strays_ = 0;
    return std::exchange(since_, 0);
  }
  /// The call beside it is a stray, or the run is over.
  void pass(const TensorCall& call, const CallCycle& cycle) {
    is_interrupted_ = ++strays_ < calls_ && is_stray(call, cycle);
  }
  void end() { is_interrupted_ = false; }

  void save(StateWriter& to) const {
    to.put(goes_on_);
    to.put(is_interrupted_);
    for (const std::size_t number : {strays_, next_, calls_, since_}) to.put<std::uint64_t>(number);
  }
  void load(StateReader& from) {
    goes_on_ = from.get<bool>();
    is_interrupted_ = from.get<bool>();
    for (std::size_t* const number : {&strays_, &next_, &calls_, &since_}) {
      *number = static_cast<std::size_t>(from.get<std::uint64_t>());
    }
  }

 private:
  bool goes_on_ = false;
  bool is_interrupted_ = false;  // By strays.
  std::size_t strays_ = 0;
  std::size_t next_ = 0;
  std::size_t calls_ = 0;
  std::size_t since_ = 0;  // Of these, those since it was believed.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CYCLE_RUN_H_
