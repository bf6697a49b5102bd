// What one rank's own buffers and pauses say of calls whose shapes leave open what they are.
//
// A gradient has a buffer of its own: at each place of the step the same one each time. Activations
// take what memory is free. And gradients come in a row while the program computes backward; then
// it computes forward: one pause of the step is long. Layers compute all the time. Where all calls
// are of one size, a step may be one call or many. One call comes after even pauses; many do not,
// as computing backward takes longer than forward. Calls without pauses are taken for gradients.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CALL_EVIDENCE_H_
#define NCCL_PLUGIN_SESSION_CALLS_CALL_EVIDENCE_H_

#include <cstddef>
#include <deque>

namespace ringpress::nccl_plugin {

/// Of the last calls of one communicator. Pure: no clocks.
class CallEvidence {
 public:
  /// Equal calls of one buffer that are looked at before they are taken for gradients.
  static constexpr std::size_t kEqualCalls = 128;

  struct Seen {
    const void* address = nullptr;
    double pause_seconds = -1;  // Before it; below 0: not known.
    double call_seconds = 0;    // The call before it took.
  };

  void note(const Seen& seen);
  /// A step of so many calls has ended with the last one.
  void begin_steps(std::size_t period);

  /// Whether anything can be said of the steps that began.
  bool is_enough() const;
  bool looks_like_gradients() const;

 private:
  std::size_t most() const;
  bool has_no_pauses() const;
  bool has_own_buffers() const;
  bool pauses_once_a_step() const;
  bool has_even_pauses() const;

  std::deque<Seen> seen_;  // The last calls.
  std::size_t period_ = 1;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CALL_EVIDENCE_H_
