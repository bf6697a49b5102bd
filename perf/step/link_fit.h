// A link's latency and rate, from times of exact calls of several sizes.
#ifndef PERF_STEP_LINK_FIT_H_
#define PERF_STEP_LINK_FIT_H_

#include <vector>

#include "ringpress/internal/cost_model.h"

namespace ringpress::perf {

/// All-reduces of one size, made in several rounds that lie apart in time.
struct SizeTimes {
  double sent_bytes = 0;              // By each rank, in one call.
  std::vector<double> round_seconds;  // What a call of each round took.
};

/// The line through what calls of each size took in their quickest round: other programs only ever
/// make calls slower, and a round that one of them held up is no matter as long as another was not.
/// By relative errors, so that small calls tell the latency, so many of which a call takes, and
/// large ones the rate. `sizes` are two at least, the smallest first, of rounds of more than 0
/// seconds. The latency is never below 0; a tenth of the largest calls' time at least is for their
/// bytes.
LinkSpeed fit_link(const std::vector<SizeTimes>& sizes, double latencies_of_a_call);

}  // namespace ringpress::perf

#endif  // PERF_STEP_LINK_FIT_H_
