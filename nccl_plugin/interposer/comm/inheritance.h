// What the ranks of a communicator go on with that was shrunk or has grown: the residuals of their
// tensors, and what was found out about their calls.
//
// Residuals are each rank's own, and are taken in any case. What has to be equal on all ranks is
// taken where it is: ranks compare a number of it first. After a failure they may be at different
// calls; then what the calls are (gradients or not) may be equal all the same, and is compared for
// itself. What is not taken is found anew: coordinate scales, what projections keep and the
// residuals of what they project, Espresso's plan, verdicts that are under way, and graphs' own
// residuals.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_INHERITANCE_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_INHERITANCE_H_

#include <cstdint>
#include <memory>

#include "nccl_plugin/interposer/comm/comm.h"
#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/calls/known_classes.h"
#include "nccl_plugin/session/calls/recurrences.h"
#include "nccl_plugin/session/steps/training_steps.h"

namespace ringpress::nccl_plugin::interposer {

/// How much of it all ranks have alike.
enum class Alike : std::uint8_t { kNothing, kClasses, kAll };

/// For one heir.
class Inheritance {
 public:
  /// Copies what `parent` knows, and leaves its residuals where they are. No call of it is under
  /// way in another thread, now and while give() runs. `heir`: of the same device and the same
  /// settings, able to compress, and without a call so far. What has to be equal on all ranks has
  /// the memory that it needs there from now on.
  Inheritance(std::shared_ptr<Comm> parent, std::shared_ptr<Comm> heir);

  /// For the ranks to compare; more than 0. Of all that they share, and of the classes of calls.
  std::int32_t number_of_all() const { return number_of_all_; }
  std::int32_t number_of_classes() const { return number_of_classes_; }

  /// The parent keeps nothing of tensors then: its next calls begin anew. Once.
  void give(Alike alike) noexcept;

 private:
  void read(StateReader& from);
  void give_shared(Alike alike) noexcept;
  void give_own(Alike alike) noexcept;

  const std::shared_ptr<Comm> parent_;
  const std::shared_ptr<Comm> heir_;
  std::int32_t number_of_all_ = 0;
  std::int32_t number_of_classes_ = 0;
  Recurrences recurrences_;
  KnownClasses classes_;
  std::shared_ptr<CallSequence> calls_ = std::make_shared<CallSequence>();
  TrainingSteps steps_{calls_};
  CallTurns turns_{0, SliceTurns(calls_)};
  SettledClasses settled_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_INHERITANCE_H_
