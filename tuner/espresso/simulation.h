// The timeline of a step, event by event, and quickly again when one tensor's choice changes.
#ifndef TUNER_ESPRESSO_SIMULATION_H_
#define TUNER_ESPRESSO_SIMULATION_H_

#include <array>
#include <cstdint>
#include <vector>

#include "tuner/espresso/events.h"

namespace ringpress::espresso {

/// From the end of the backward of the tensor before a tensor, how long it is to the end of the
/// step at least.
class LeastTimeLeft {
 public:
  explicit LeastTimeLeft(std::size_t tensors)
      : seconds_(tensors + 2, 0), of_wire_(tensors + 1, 0), wire_work_(tensors + 1, 0) {}

  /// Of the tensors up to `last`: what comes after it is as before.
  void find(const std::vector<double>& compute, const std::vector<const Chain*>& chains,
            std::size_t last);

  /// StepParts has them.
  const double* seconds() const { return seconds_.data(); }
  /// The same if codecs took no time.
  double of_wire(std::size_t tensor) const { return of_wire_[tensor]; }

 private:
  std::vector<double> seconds_;
  std::vector<double> of_wire_;
  std::vector<double> wire_work_;  // Of a tensor and those after it.
};

/// The resources of wire, GPU codecs and CPU codecs each take what is to be done first come, first
/// served. Backward runs on the GPU while no codec does. When the backward of tensor i ends, its
/// first task is handed in and backward goes on with i + 1; when a task ends, the tensor's next one
/// is handed in. Of what ends at the same time, backward is first, then resources by their number.
///
/// Nothing before the end of a tensor's backward depends on its chain. So each such state is kept,
/// and a changed chain is simulated from there: until all is done, or it is certain that the step
/// takes too long, or nothing is under way that was not so without the change.
class Simulation {
 public:
  /// The times of backward, one a tensor, and when the first begins.
  Simulation(std::vector<double> compute_seconds, double begin_seconds);

  /// Takes these chains, one a tensor, which must outlive their use here. Returns the time of the
  /// step.
  double set(std::vector<const Chain*> chains);
  /// Changes one of them.
  double set(std::size_t tensor, const Chain* chain);

  /// The time of the step if one chain were another; kNever if that is more than `limit`.
  double attempt(std::size_t tensor, const Chain* chain, double limit = kNever);

  /// No less than the step takes with other chains from `tensor` on, if they take as long on the
  /// wire.
  double at_least_from(std::size_t tensor) const;

  double seconds() const { return seconds_; }
  const std::vector<double>& compute() const { return compute_; }
  const std::vector<const Chain*>& chains() const { return chains_; }

  // ---- For runs of others that begin at a state of this step.

  /// When the backward of the tensor ends.
  const StepState& state(std::size_t tensor) const { return states_[tensor]; }

  /// What is under way at that state, and what waits. There is room for `spare` more tasks.
  void copy_logs(const StepState& state, std::size_t spare, Logs* logs) const;

  /// A run with the chains of this step from here on, until all is done, nothing is under way that
  /// is not so in this step, or the run gives up. Returns the time of its step; kNever if it has
  /// given up.
  double run_to_end(Runner* runner) const;

  /// For each tensor, whether a bubble comes after it: the wire is idle although backward goes on,
  /// and what is sent later is of tensors that had not sent before. To send less before a bubble
  /// only makes the bubble longer.
  std::vector<bool> before_a_bubble() const;

  /// What every resource did, kCompute included.
  std::vector<Box> boxes() const;

  /// Events so far: what searches count their work in.
  std::uint64_t events() const { return events_; }

 private:
  StepParts parts() const { return {compute_, chains_.data(), least_left_.seconds()}; }
  StepState beginning() const;

  std::vector<double> compute_;
  double begin_;
  std::vector<const Chain*> chains_;
  std::vector<StepState> states_;  // When the backward of each tensor ends.
  LeastTimeLeft least_left_;
  Logs logs_;
  Logs attempt_logs_;
  std::size_t tasks_ = 0;  // Of all chains.
  double seconds_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_SIMULATION_H_
