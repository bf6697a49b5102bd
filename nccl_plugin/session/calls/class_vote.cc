#include "nccl_plugin/session/calls/class_vote.h"

namespace ringpress::nccl_plugin {
namespace {

// Before the first vote, and whose values are looked at before each. (Those of the first call are
// not asked for.)
constexpr std::size_t kStepsOfVote = 3;
constexpr std::size_t kLeastCallsToVote = 8, kLeastCallsOfValues = 8;

}  // namespace

void ClassVote::note(const CallEvidence::Seen& seen, const ValueSample& values) {
  evidence_.note(seen);
  has_room_ = wants_values();
  if (has_room_) evidence_.values().note(values);
  ++calls_;
  is_due_ = is_open_ && calls_ == next_;
  is_result_due_ = is_open_ && steps_until_heard_ > 0 && calls_ == heard_at();
}

void ClassVote::begin_steps(std::size_t period, bool is_open) {
  evidence_.begin_steps(period);
  period_ = period;
  calls_ = 0;
  next_ = std::max(kStepsOfVote * period, kLeastCallsToVote);
  is_open_ = is_open;
}

void ClassVote::end() {
  next_ = next_ + heard_at();
  evidence_.values().clear();
}

bool ClassVote::wants_values() const {
  return is_open_ && next_ - calls_ <= std::max(kStepsOfVote * period_, kLeastCallsOfValues);
}

}  // namespace ringpress::nccl_plugin
