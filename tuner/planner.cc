// The rules that decide whether and how a call is compressed, in the order in which they apply. The
// first rule that says no gives the reason.
#include <string>

#include "ringpress/codec.h"
#include "tuner/factory.h"

namespace ringpress::tuner {
namespace {

// What "auto" compresses with: accurate enough for training with error feedback on every model
// measured so far, and close to an eighth of the bytes.
constexpr const char* kDefaultCodec = "q4";
// What RINGPRESS=lossless takes instead of any lossy codec. It leaves nothing for error feedback.
constexpr const char* kLosslessCodec = "lossless";
// Calls of one kind that "auto" leaves exact before it believes that they recur.
constexpr std::uint64_t kCallsBeforeCompression = 2;
// Ranks up to which the two latencies of sra beat a ring's 2 (N - 1) for exact calls, and its
// connections to everybody are affordable.
constexpr int kLargestExactSraWorld = 16;

/// Why this call can never be lossy, whatever the settings; empty if it can.
std::string why_never_lossy(const PlanRequest& request) {
  if (request.kind != CollectiveKind::kAllReduce &&
      request.kind != CollectiveKind::kReduceScatter) {
    return std::string(collective_name(request.kind)) + " is always exact";
  }
  if (!is_compressible(request.dtype)) {
    return std::string(dtype_name(request.dtype)) + " is always exact";
  }
  if (request.op != ReduceOp::kSum && request.op != ReduceOp::kAvg) {
    return std::string(reduce_op_name(request.op)) + " is always exact";
  }
  if (request.pre_multiplied) return "pre-multiplied sums are always exact";
  if (request.world < 2) return "a single rank sends nothing";
  return "";
}

class SettingsPlanner : public Planner {
 public:
  explicit SettingsPlanner(Settings settings) : settings_(std::move(settings)) {}

  Plan plan(const PlanRequest& request) const override {
    Plan plan;
    plan.reason = why_exact(request);
    if (plan.reason.empty()) choose_codec(&plan, request);
    plan.algorithm = choose_algorithm(plan, request);
    plan.chunk_elements = chunk_elements(request);
    return plan;
  }

 private:
  void choose_codec(Plan* plan, const PlanRequest& request) const {
    std::string codec = settings_.codec == "auto" ? kDefaultCodec : settings_.codec;
    if (settings_.mode == "lossless" && codec != "none") codec = kLosslessCodec;
    if (codec == "none") {
      plan->reason = "RINGPRESS_CODEC=none";
    } else if (settings_.mode == "observe") {
      plan->reason = "RINGPRESS=observe: would be " + codec;
      plan->observed_codec = codec;
    } else {
      plan->codec = codec;
      plan->error_feedback = settings_.error_feedback && codec != kLosslessCodec &&
                             request.kind == CollectiveKind::kAllReduce;
    }
  }

  std::string why_exact(const PlanRequest& request) const {
    std::string reason = why_never_lossy(request);
    if (!reason.empty()) return reason;
    if (settings_.mode == "off") return "RINGPRESS=off";
    if (request.all_reduces_only && settings_.mode != "lossless" &&
        request.kind != CollectiveKind::kAllReduce) {
      return settings_.codec + " compresses all-reduces only";
    }
    const std::size_t bytes = request.count * dtype_size(request.dtype);
    if (bytes < settings_.minimum_bytes) return "smaller than RINGPRESS_MIN_BYTES";
    if (settings_.codec != "auto") return "";
    if (!request.crosses_hosts) return "all ranks share one host";
    if (request.recurrences < kCallsBeforeCompression) return "has not recurred yet";
    return "";
  }

  Algorithm choose_algorithm(const Plan& plan, const PlanRequest& request) const {
    if (settings_.algorithm == "ring") return Algorithm::kRing;
    if (settings_.algorithm == "sra") return Algorithm::kSra;
    const bool lossy = plan.codec != "none";
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
