// What the other schedulers do with a slot: what GADGET is compared with. They place a ring beside
// those that are there already, and never pack anew.
#ifndef TUNER_GADGET_POLICIES_H_
#define TUNER_GADGET_POLICIES_H_

#include <cstddef>
#include <vector>

#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {

/// What is known when a slot begins.
struct SlotState {
  const Cluster& cluster;
  const std::vector<Job>& jobs;
  const std::vector<std::size_t>& active;        // Jobs, in order of their numbers.
  const std::vector<std::size_t>& worker_slots;  // Of each job, so far.
  const std::vector<double>& iterations;         // And these.
  const std::vector<Ring>& last;                 // Of the slot before.
  std::size_t slots_left;                        // This one counted.

  /// Workers that the job may have in this slot, by its own limits.
  std::size_t most_workers(std::size_t job) const;
};

/// Policy::kFifo: what ran goes on where it is; then who came first. A job that does not fit waits,
/// later ones pass it.
std::vector<Ring> fifo(const SlotState& slot);

/// Policy::kDrf: progressive filling.
std::vector<Ring> drf(const SlotState& slot);

/// Policy::kLas: by attained service, which is the first resource times slots.
std::vector<Ring> las(const SlotState& slot);

}  // namespace ringpress::gadget

#endif  // TUNER_GADGET_POLICIES_H_
