// The timeline of a step, event by event, and quickly again when one tensor's choice changes.
#ifndef TUNER_ESPRESSO_SIMULATION_H_
#define TUNER_ESPRESSO_SIMULATION_H_

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "tuner/espresso/cost.h"

namespace ringpress::espresso {

/// The lanes of wire, GPU codecs and CPU codecs each take what is to be done first come, first
/// served. Backward runs on the GPU while no codec does. When the backward of tensor i ends, its
/// first task is handed in and backward goes on with i + 1; when a task ends, the tensor's next one
/// is handed in. Of what ends at the same time, backward is first, then lanes by their number.
///
/// Nothing before the end of a tensor's backward depends on its chain. So each such moment is kept,
/// and a changed chain is simulated from there.
class Simulation {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// The times of backward, one a tensor, and when the first begins.
  Simulation(std::vector<double> compute_seconds, double begin_seconds);

  /// Takes these chains, which must outlive their use here. Returns the time of the step.
  double set(std::vector<const Chain*> chains);
  /// Changes one of them.
  double set(std::size_t tensor, const Chain* chain);

  /// The time of the step if one chain were another; kNever if that is more than `limit`.
  double attempt(std::size_t tensor, const Chain* chain, double limit = kNever);

  double seconds() const { return seconds_; }
  const Chain& chain(std::size_t tensor) const { return *chains_[tensor]; }

  /// For each tensor, whether the wire is idle at any time after it has begun to send, and busy
  /// again after that.
  std::vector<bool> before_a_bubble() const;

  /// What every lane did, kCompute included.
  std::vector<Box> boxes() const;

  /// Events so far: what searches count their work in.
  std::uint64_t events() const { return events_; }

 private:
  static constexpr std::size_t kCodecLanes = 3;  // All but kCompute.

  struct Entry {
    std::uint32_t tensor;
    std::uint32_t task;
    double begin;
    double end;
  };
  /// All that was handed in to each lane, in order.
  using Logs = std::array<std::vector<Entry>, kCodecLanes>;

  struct State {
    double now = 0;
    double compute_left = 0;       // Of the tensor `computing`.
    double compute_to_come = 0;    // Of those after it.
    std::size_t computing = 0;
    std::array<double, kCodecLanes> ends;         // kNever: idle.
    std::array<double, kCodecLanes> not_begun;    // Seconds of work.
    std::array<std::uint32_t, kCodecLanes> begun;      // Entries of the log.
    std::array<std::uint32_t, kCodecLanes> handed_in;  // Entries of the log.
  };

  /// Until everything is done, or more than `limit` will be taken. Keeps moments if asked to.
  double run(State state, Logs* logs, double limit, bool keep);
  bool begin_tasks(State* state, Logs* logs, double limit) const;
  void hand_in(State* state, Logs* logs, std::uint32_t tensor, std::uint32_t task) const;
  void end_compute(State* state, Logs* logs) const;
  void end_task(State* state, Logs* logs, std::size_t lane) const;
  State beginning() const;

  std::vector<double> compute_;
  double begin_;
  std::vector<const Chain*> chains_;
  std::vector<State> moments_;  // When the backward of each tensor ends.
  Logs logs_;
  Logs attempt_logs_;
  std::size_t tasks_ = 0;  // Of all chains.
  double seconds_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_SIMULATION_H_
