// Whether a call of a communicator is compressed, and what with.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_CALL_PLANNER_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_CALL_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nccl_plugin/interposer/calls/call.h"
#include "nccl_plugin/interposer/comm/call_classifier.h"
#include "nccl_plugin/interposer/comm/parts.h"
#include "nccl_plugin/session/steps/training_steps.h"
#include "nccl_plugin/session/steps/warm_up.h"

namespace ringpress::nccl_plugin::interposer {

/// Of one communicator. One thread at a time.
class CallPlanner {
 public:
  explicit CallPlanner(CommParts& parts);

  /// Decides on the next call. True: it is ours to make, and to be given to CallStarter::start()
  /// once settle() was asked. Counts it if it is not.
  bool plan(PlannedCall* planned);
  /// In an accepted call's turn, after all that were accepted before: decides on it if that was put
  /// off until now. May wait, as CallClassifier::begin_turn() does.
  Status settle(PlannedCall* planned);
  CallClassifier& classifier() { return classifier_; }
  TrainingSteps& steps() { return steps_; }
  /// As plan(), for a call that is not put off any more, and without counting it. True: it is
  /// compressed, or may be when it takes its turn; else the decision says why not.
  bool choose(PlannedCall* planned);

  /// Whether calls may ask for it: kInvalidArgument says what they may ask for. The same on all
  /// ranks.
  Status check_codec(std::string_view codec) const;

  /// The residual of a call that goes without it keeps its place.
  void pass_over(const Call& call, const Decision& decision);
  /// The sequence of calls is told of a call that starts, for all who will ask about it then.
  void tell_sequence(const PlannedCall& planned);
  /// Among the calls whose residuals are kept, each call of a tensor has the same place, whatever
  /// becomes of it.
  void keep_place(const Call& call);

  /// True if what an accepted call needs is not there yet, on any rank: then CallStarter::start()
  /// makes it, and all ranks tell each other whether it could before they go on. The same on all
  /// ranks.
  bool needs_agreement(const PlannedCall& planned) const;
  /// What the ranks have told each other: all have what the call needs, or calls like it are left
  /// to the real library from now on.
  void note_agreement(const PlannedCall& planned, bool all_can);

 private:
  bool decide(const PlanRequest& request, PlannedCall* planned);
  bool keeps_residual(const Call& call, const Decision& decision, std::size_t count) const;
  bool may_be_put_off(PlannedCall* planned) const;
  std::uint64_t graph_of(const PlannedCall& planned) const;
  bool is_of_step(const PlanRequest& request, PlannedCall* planned) const;

  CommParts& parts_;
  CallClassifier classifier_;
  const WarmUp warm_up_;
  TrainingSteps steps_;  // Of it.
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_CALL_PLANNER_H_
