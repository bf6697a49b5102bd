// What a job bids for a slot.
#ifndef TUNER_GADGET_BIDS_H_
#define TUNER_GADGET_BIDS_H_

#include <cstddef>

#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {

/// What a job has had, and what it may have.
struct Progress {
  double iterations = 0;              // So far.
  std::size_t most_workers = 0;       // In this slot.
  std::size_t worker_slots_left = 0;  // At most, until the end: at least most_workers.
};

/// The gain in utility of each number of workers, in either way to run. Of a utility that is not
/// concave: the gain along the lowest concave curve above it, as far as the job may still come.
/// Else a job whose utility is flat at first would never begin.
Bid bid_of(const Job& job, const Progress& progress);

}  // namespace ringpress::gadget

#endif  // TUNER_GADGET_BIDS_H_
