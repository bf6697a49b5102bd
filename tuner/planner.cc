// The rules that decide whether and how a call is compressed, in the order in which they apply. The
// first rule that says no gives the reason.
#include <string>
#include <string_view>

#include "ringpress/codec.h"
#include "tuner/factory.h"

namespace ringpress::tuner {
namespace {

// What RINGPRESS=lossless takes instead of any lossy codec. It leaves nothing for error feedback.
constexpr std::string_view kLosslessCodec = "lossless";
// Calls of one kind that "auto" leaves exact before it believes that they recur.
constexpr std::uint64_t kCallsBeforeCompression = 2;
// Ranks up to which the two latencies of sra beat a ring's 2 (N - 1) for exact calls, and its
// connections to everybody are affordable.
constexpr int kLargestExactSraWorld = 16;

/// Between hosts every byte is sent once a host, not once a rank.
bool can_be_hierarchical(const PlanRequest& request) {
  return request.kind == CollectiveKind::kAllReduce && request.crosses_hosts &&
         request.ranks_per_host > 1;
}

/// Changes `reason` to why this call can never be lossy, whatever the settings; empty if it can.
void find_never_lossy(const PlanRequest& request, std::string* reason) {
  reason->clear();
  const bool can_be_lossy = request.kind == CollectiveKind::kAllReduce ||
                            request.kind == CollectiveKind::kReduceScatter ||
                            (request.kind == CollectiveKind::kAllGather && request.may_gather);
  if (!can_be_lossy) {
    reason->append(collective_name(request.kind)).append(" is always exact");
  } else if (!is_compressible(request.dtype)) {
    reason->append(dtype_name(request.dtype)).append(" is always exact");
  } else if (request.op != ReduceOp::kSum && request.op != ReduceOp::kAvg) {
    reason->append(reduce_op_name(request.op)).append(" is always exact");
  } else if (request.pre_multiplied) {
    *reason = "pre-multiplied sums are always exact";
  } else if (request.world < 2) {
    *reason = "a single rank sends nothing";
  }
}

class SettingsPlanner : public Planner {
 public:
  explicit SettingsPlanner(Settings settings) : settings_(std::move(settings)) {}

  using Planner::plan;
  void plan(const PlanRequest& request, Plan* plan) const override {
    plan->codec = "none";
    plan->error_feedback = false;
    plan->keeps_place = false;
    plan->observed_codec.clear();
    find_why_exact(request, &plan->reason);
    plan->waits_for_recurrence = plan->reason.empty() && waits_for_recurrence(request);
    if (plan->waits_for_recurrence) plan->reason = "has not recurred yet";
    if (plan->reason.empty()) choose_codec(request, plan);
    plan->algorithm = choose_algorithm(*plan, request);
    plan->chunk_elements = chunk_elements(request);
  }

 private:
  void choose_codec(const PlanRequest& request, Plan* plan) const {
    std::string_view codec = settings_.codec;
    if (codec == "auto") codec = settings_.budget;
    if (settings_.mode == "lossless" && codec != "none") codec = kLosslessCodec;
    if (codec == "none") {
      plan->reason = settings_.codec == "auto" ? "RINGPRESS_BUDGET=none" : "RINGPRESS_CODEC=none";
    } else if (settings_.mode == "observe") {
      plan->reason = "RINGPRESS=observe: would be ";
      plan->reason.append(codec);
      plan->observed_codec = codec;
    } else {
      plan->codec = codec;
      plan->error_feedback = settings_.error_feedback && codec != kLosslessCodec &&
                             request.kind == CollectiveKind::kAllReduce;
    }
  }

  /// Changes `reason` to why the call is left exact; empty if it is not.
  void find_why_exact(const PlanRequest& request, std::string* reason) const {
    find_never_lossy(request, reason);
    if (!reason->empty()) return;
    const bool is_automatic = settings_.codec == "auto";
    if (settings_.mode == "off") {
      *reason = "RINGPRESS=off";
    } else if (request.all_reduces_only && settings_.mode != "lossless" &&
               request.kind != CollectiveKind::kAllReduce) {
      reason->append(settings_.codec).append(" compresses all-reduces only");
    } else if (request.count * dtype_size(request.dtype) < settings_.minimum_bytes) {
      *reason = "smaller than RINGPRESS_MIN_BYTES";
    } else if (is_automatic && !request.crosses_hosts) {
      *reason = "all ranks share one host";
    }
  }

  bool waits_for_recurrence(const PlanRequest& request) const {
    return settings_.codec == "auto" && request.recurrences < kCallsBeforeCompression;
  }

  Algorithm choose_algorithm(const Plan& plan, const PlanRequest& request) const {
    if (settings_.algorithm == "ring") return Algorithm::kRing;
    if (settings_.algorithm == "sra") return Algorithm::kSra;
    const bool lossy = plan.codec != "none";
    if (lossy && can_be_hierarchical(request)) return Algorithm::kHier;
    if (settings_.algorithm == "hier") return Algorithm::kSra;
    return lossy || request.world <= kLargestExactSraWorld ? Algorithm::kSra : Algorithm::kRing;
  }

  std::size_t chunk_elements(const PlanRequest& request) const {
    if (settings_.chunk_bytes == 0) return 0;
    const std::size_t elements = settings_.chunk_bytes / dtype_size(request.dtype);
    return (elements + kTileElements - 1) / kTileElements * kTileElements;
  }

  Settings settings_;
};

}  // namespace

std::unique_ptr<Planner> make_planner(const Settings& settings) {
  return std::make_unique<SettingsPlanner>(settings);
}

}  // namespace ringpress::tuner
