// What a call costs beside the codec's own work: what is sent, and how often it is waited for.
#ifndef TUNER_WIRE_COST_H_
#define TUNER_WIRE_COST_H_

#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/cost_model.h"

namespace ringpress::tuner {

/// Which halves of an all-reduce a collective is.
struct Halves {
  bool reduces = true;
  bool gathers = true;

  double count() const { return (reduces ? 1 : 0) + (gathers ? 1 : 0); }
};

/// Seconds of an operation that is done `times` times on `bytes` in all.
inline double cost_of(const OperationCost& cost, double times, double bytes) {
  return times * cost.start_seconds + bytes * cost.seconds_per_byte;
}

/// A codec's call of one shape.
struct CodedCall {
  const CallShape& shape;
  const Links& links;
  const CodecSpeed& codec;
  const AlgorithmTraits& algorithm;
  Halves halves;
  double bytes = 0;     // Of the tensor, or of all that a projection of it has.
  int all_reduces = 1;  // One after the other, of `bytes` in all.

  /// Ranks of whose values each has its own part, encoded.
  double parts() const {
    return algorithm.is_hierarchical ? shape.world / shape.ranks_per_host : shape.world;
  }
  LoadRequest load_request() const {
    return {static_cast<double>(shape.world), static_cast<double>(shape.ranks_per_host),
            codec.requantises(), halves.count() == 2};
  }
};

/// What it costs whatever the codec's work, and how much of that overlaps with it.
void add_wire(const CodedCall& call, CallCost* cost);

/// What ranks exchange before all else: a summary of the tensor, or what state they have.
void add_exchange(const CodedCall& call, CallCost* cost);

/// True if all-reduces of so many bytes are exchanged whole.
bool is_exchanged_whole(const CodedCall& call);

/// What that costs, with the codec's work.
void add_whole(const CodedCall& call, CallCost* cost);

}  // namespace ringpress::tuner

#endif  // TUNER_WIRE_COST_H_
