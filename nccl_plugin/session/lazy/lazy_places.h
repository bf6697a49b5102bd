// Where the tensors stand whose gradients are put off, and where they stood before.
#ifndef NCCL_PLUGIN_SESSION_LAZY_LAZY_PLACES_H_
#define NCCL_PLUGIN_SESSION_LAZY_LAZY_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "nccl_plugin/session/calls/call_sequence.h"

namespace ringpress::nccl_plugin {

/// A call's, and what came to an end with it.
struct LazyPlace {
  std::optional<std::size_t> position;   // In the sequence of buffers.
  std::optional<std::size_t> place;      // In the sequence of shapes.
  std::optional<std::size_t> own_place;  // As `place`, if no other tensor has it.
  bool have_places_changed = false;
  bool have_positions_changed = false;
  bool is_end_of_step = false;
};

class LazySteps {
 public:
  explicit LazySteps(std::shared_ptr<CallSequence> sequence) : sequence_(std::move(sequence)) {}

  LazyPlace observe(const TensorCall& call);

 private:
  const std::shared_ptr<CallSequence> sequence_;
  std::uint64_t buffer_breaks_ = 0;
  std::uint64_t shape_breaks_ = 0;
  std::size_t calls_ = 0;       // Of this step so far.
  std::size_t step_calls_ = 1;  // Of the last step that was known to be one.
};

/// Tensors of this sequence of buffers, whether there is a sum of them or not, and of earlier ones.
class LazyTensors {
 public:
  void see(const TensorCall& call, const LazyPlace& at);
  void forget_places();
  /// The sequence is no more. Earlier ones are kept while they matter.
  void end_sequence(bool keep_formers);
  /// Of the same shape as what stands at `place` now: its turn has come at another time, or its
  /// memory is another tensor's now.
  bool stood_elsewhere(const TensorCall& call, std::optional<std::size_t> place) const;
  /// Another tensor was of its shape: it may have the memory now.
  bool has_likeness(const TensorCall& call) const;

 private:
  struct Seen {
    TensorCall call;
    std::optional<std::size_t> place;  // As LazyPlace::own_place.
    bool operator==(const Seen&) const = default;
  };

  std::map<std::size_t, Seen> seen_;  // By position.
  std::vector<Seen> formers_;         // Each at each place that it had.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LAZY_LAZY_PLACES_H_
