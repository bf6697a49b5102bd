// What to do with a call: compress it or not, with which codec and algorithm, in what chunks.
// A planner is pure: it decides from values that are equal on all ranks and never measures or
// sends.
#ifndef RINGPRESS_INTERNAL_PLANNER_H_
#define RINGPRESS_INTERNAL_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ringpress/internal/call_class.h"
#include "ringpress/internal/decision.h"
#include "ringpress/internal/types.h"

namespace ringpress {

/// A call as the planner sees it. Every field is equal on all ranks.
struct PlanRequest {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::size_t count = 0;  // Elements of the whole tensor.
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool pre_multiplied = false;
  int world = 1;
  bool crosses_hosts = false;
  CallClass call_class = CallClass::kUnknown;
  bool all_reduces_only = false;  // The call's codec, or else that of RINGPRESS_CODEC, cannot
                                  // compress anything else.
  bool may_gather = false;  // All-gathers may be lossy: RINGPRESS_ALL_GATHER, at a door that can.
  int ranks_per_host = 0;   // The same on every host, and `hier` is at hand; else 0.
  bool in_streams = false;  // Calls are work in streams: all by one algorithm there, or by `hier`.
  // What only rules ask about: of the program's communicator, of which `world` may be a part. 0:
  // not known.
  int comm_nodes = 0;
  int comm_ranks = 0;
  bool is_dtype_known = true;   // Else rules for one type are for all.
  bool is_count_known = true;   // Else `count` is a part's, and the tensor is not too small.
  std::string_view codec = {};  // That the call asks for, or kNoCodec; empty: it asks for none.
                                // Lives as long as Decision asks for.
};

/// Whether a call of so many bytes is exact in any case, by RINGPRESS_MIN_BYTES.
inline bool is_too_small(std::size_t bytes, std::size_t minimum_bytes) {
  return bytes < minimum_bytes;
}
inline bool is_too_small(const PlanRequest& request, std::size_t minimum_bytes) {
  return request.is_count_known &&
         is_too_small(request.count * dtype_size(request.dtype), minimum_bytes);
}

class Planner {
 public:
  virtual ~Planner() = default;
  /// What the rules and settings say of such a call. The names in it live as long as this.
  virtual Decision plan(const PlanRequest& request) const = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_PLANNER_H_
