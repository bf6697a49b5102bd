// What a step of a data-parallel job takes with any number of workers: the model by which GADGET
// (gadget.h) knows jobs, filled in from steps that were measured (RINGPRESS_TRACE).
#ifndef RINGPRESS_INTERNAL_JOB_MODEL_H_
#define RINGPRESS_INTERNAL_JOB_MODEL_H_

#include <cstddef>

namespace ringpress {

/// Of the paper d, b, G, t_f M + t_b and gamma; the two ratios are 1 there.
struct JobModel {
  double bytes = 0;                   // Of gradients, uncompressed, that a step all-reduces.
  double ratio_reduce_scatter = 1;    // Bytes on the wire over raw ones, in a ring's first half.
  double ratio_all_gather = 1;        // The same in its second half.
  double bytes_per_second = 1;        // Of the link from a worker to the next, each way.
  double codec_seconds_per_byte = 0;  // To decode, add and encode, of raw bytes: 1 / G.
  double compute_seconds = 0;         // Forward and backward, of one worker's batch.
  double overhead_seconds = 0;        // Of all calls of a step, whatever their size.
};

/// bytes (w - 1) / w ((ratio_reduce_scatter + ratio_all_gather) / bytes_per_second +
/// codec_seconds_per_byte) + compute + overhead. One worker (or none) computes only.
double step_seconds(const JobModel& model, std::size_t workers);

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_JOB_MODEL_H_
