// What a call costs beside the codec's own work: what is sent, and how often it is waited for. The
// formulas are in cost_model.cc.
#ifndef TUNER_WIRE_COST_H_
#define TUNER_WIRE_COST_H_

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
  Halves halves;
  double bytes = 0;     // Of the tensor, or of all that a projection of it has.
  int all_reduces = 1;  // One after the other, of `bytes` in all.
};

/// What it costs whatever the codec's work, and how much of that overlaps with it. By the algorithm
/// that `cost` names.
void add_wire(const CodedCall& call, CallCost* cost);

/// What ranks exchange before all else: a summary of the tensor, or what state they have.
void add_exchange(const CodedCall& call, Algorithm algorithm, CallCost* cost);

/// True if all-reduces of so many bytes are exchanged whole.
bool is_exchanged_whole(const CodedCall& call, Algorithm algorithm);

/// What that costs, with the codec's work.
void add_whole(const CodedCall& call, CallCost* cost);

}  // namespace ringpress::tuner

#endif  // TUNER_WIRE_COST_H_
