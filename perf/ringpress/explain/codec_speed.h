// How fast codecs are on this machine.
#ifndef PERF_RINGPRESS_EXPLAIN_CODEC_SPEED_H_
#define PERF_RINGPRESS_EXPLAIN_CODEC_SPEED_H_

#include <string>

#include "ringpress/cost_model.h"
#include "ringpress/status.h"
#include "ringpress/types.h"

namespace ringpress::perf {

/// Measures one codec on normally distributed values, by one core and within some 20 ms; with error
/// feedback where that would be on. kUnsupported: a codec whose ranks agree on something before
/// they encode, or that projects.
Result<CodecSpeed> measure_codec(const std::string& specification, DType dtype);

}  // namespace ringpress::perf

#endif  // PERF_RINGPRESS_EXPLAIN_CODEC_SPEED_H_
