// Residuals of error feedback, and what projecting codecs keep, found again from call to call
// without knowing the program's tensors.
//
// A training step makes the same calls in the same order, step after step. The communicator's
// CallSequence says, once they repeat, at which position of the repeating sequence a call stands.
// The residual of a tensor belongs to a position. It is kept while other calls come between, until
// the sequence is forgotten. A tensor that the program names needs no place: what is kept of it
// belongs to its name (tensor_names.h). Where addresses do not recur, shapes have to do: once they
// have come so often that other tensors are not to be expected.
//
// Which residual a rank adds to its own values is its own affair: it need not be agreed with the
// others. What projecting codecs keep is compared with the others' before it is used
// (ringpress/internal/projection.h), and does no harm to another tensor of the same size: while a
// call's position is not known, that of the last such call at its address is taken.
#ifndef NCCL_PLUGIN_SESSION_CALLS_ERROR_FEEDBACK_H_
#define NCCL_PLUGIN_SESSION_CALLS_ERROR_FEEDBACK_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/calls/kept_tensors.h"
#include "nccl_plugin/session/calls/tensor_names.h"

namespace ringpress::nccl_plugin {

/// The residuals of one communicator. One thread at a time.
class ErrorFeedback {
 public:
  /// `limit_bytes` 0: no limit. With one, as many tensors of a sequence as fit have residuals, as
  /// KeptTensors says; where `memory` has no room, those of other sequences are dropped. `memory`
  /// outlives this.
  explicit ErrorFeedback(std::size_t limit_bytes, ResidualMemory& memory = host_residual_memory(),
                         std::shared_ptr<CallSequence> sequence = std::make_shared<CallSequence>())
      : sequence_(std::move(sequence)), memory_(memory), tensors_(limit_bytes, memory) {}

  /// What is kept for a call, valid until the next find(). No residual if the call's place in the
  /// pattern is not certain yet; nothing if there is no room for it.
  Kept find(const TensorCall& call, const ToKeep& wanted = {}, const TensorName& name = {});

  /// The call goes without what is kept of it, this time. It has its place in the pattern.
  void pass(const TensorCall& call, const TensorName& name = {}) {
    if (const std::optional<KeptPlace> place = place_of(call, name)) tensors_.pass(*place);
  }

  /// A result was no finite number. Programs whose loss is scaled take that for an overflow: they
  /// leave the step out and go on with half the scale. So half of each residual is kept, once
  /// until it is found again. Otherwise a codec that owes many steps' gradients would add what is
  /// many times too large for the new scale. Of residuals in host memory.
  void halve_residuals() { tensors_.halve_residuals(); }

  /// Memory held, in bytes.
  std::size_t bytes() const { return tensors_.bytes(); }

  /// Of residuals in host memory. The sequence is saved beside it.
  void save(StateWriter& to) const;
  /// For one that keeps nothing yet. Of what `from` fails at, nothing is to be used.
  void load(StateReader& from);
  /// Keeps what `other`, of the same kind of memory and the same settings, has, and nothing else.
  /// `other` keeps nothing then.
  void adopt(ErrorFeedback&& other);
  /// What belongs to places in sequences of shapes is dropped.
  void forget_shapes();
  /// So is what is kept of projected tensors.
  void forget_projected();

 private:
  std::optional<KeptPlace> place_of(const TensorCall& call, const TensorName& name);
  std::optional<KeptPlace> locate(const TensorCall& call);
  bool may_go_by_shape(const CallPlaces& places);

  const std::shared_ptr<CallSequence> sequence_;
  ResidualMemory& memory_;
  bool keeps_buffers_ = true;       // The program, as far as is known.
  std::uint64_t calls_ = 0;         // All that were asked about.
  std::size_t calls_by_shape_ = 0;  // In a row: those that the pattern of shapes explains.
  TensorTags tags_;
  KeptTensors tensors_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_ERROR_FEEDBACK_H_
