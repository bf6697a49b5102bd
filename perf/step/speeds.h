// What a step's calls are priced by: the link and the codec, measured before the steps.
#ifndef PERF_STEP_SPEEDS_H_
#define PERF_STEP_SPEEDS_H_

#include <string>

#include "perf/all_reduce/group.h"
#include "ringpress/internal/cost_model.h"

namespace ringpress::perf {

struct Speeds {
  LinkSpeed link;
  CodecSpeed exact;
  CodecSpeed codec;
};

/// Collective; the same on every rank. The link from small and large calls of `exact`, a
/// communicator that compresses nothing, in turn (fit_link). Codecs on all ranks at a time, as they
/// run in a step; the slowest rank counts. Throws terminal::Error.
Speeds measure_speeds(Group& exact, const std::string& codec);

}  // namespace ringpress::perf

#endif  // PERF_STEP_SPEEDS_H_
