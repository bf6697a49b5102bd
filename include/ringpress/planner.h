// What to do with a call: compress it or not, with which codec and algorithm, in what chunks.
// A planner is pure: it decides from values that are equal on all ranks and never measures or
// sends.
#ifndef RINGPRESS_PLANNER_H_
#define RINGPRESS_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "ringpress/settings.h"
#include "ringpress/status.h"
#include "ringpress/types.h"

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
  std::uint64_t recurrences = 0;  // Earlier calls of the same kind, count, type and op.
  bool all_reduces_only = false;  // What RINGPRESS_CODEC names cannot compress anything else.
  bool may_gather = false;  // All-gathers may be lossy: RINGPRESS_ALL_GATHER, at a door that can.
  int ranks_per_host = 0;   // The same on every host, and `hier` is at hand; else 0.
  // What only rules ask about: of the program's communicator, of which `world` may be a part. 0:
  // not known.
  int comm_nodes = 0;
  int comm_ranks = 0;
  bool is_dtype_known = true;  // Else rules for one type are for all.
};

/// Why RINGPRESS_CODEC=auto leaves a call exact that waits_for_recurrence.
inline constexpr const char* kNotRecurred = "has not recurred yet";

/// The decision and, where nothing is compressed, why.
struct Plan {
  std::string codec = "none";  // Specification for the codec factory.
  Algorithm algorithm = Algorithm::kSra;
  std::size_t chunk_elements = 0;  // 0: the collective chooses.
  bool error_feedback = false;
  /// Exact for once, or for now, where error feedback would be: the tensor keeps its place.
  bool keeps_place = false;
  std::string reason;  // Empty when compressed.
  /// RINGPRESS_CODEC=auto: it would be compressed if it had come before.
  bool waits_for_recurrence = false;
  /// The user has said so: nothing else is tried.
  bool is_by_rule = false;
  /// And so of the algorithm alone.
  bool is_algorithm_by_rule = false;
  /// The user's rule is that the call stays as it is: nor is it put off.
  bool is_denied = false;
  /// RINGPRESS=observe: the codec that would have compressed this call; else empty.
  std::string observed_codec;
};

class Planner {
 public:
  virtual ~Planner() = default;
  /// Changes `plan` to what is to be done: the strings of a plan that is used again and again keep
  /// their memory.
  virtual void plan(const PlanRequest& request, Plan* plan) const = 0;

  Plan plan(const PlanRequest& request) const {
    Plan decision;
    plan(request, &decision);
    return decision;
  }
};

}  // namespace ringpress

#endif  // RINGPRESS_PLANNER_H_
