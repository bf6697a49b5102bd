// What decides whether and how a call is compressed: the user's rules, then the settings, in the
// order in which they apply. The first thing that says no gives the reason.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ringpress/codec.h"
#include "ringpress/whole_exchange.h"
#include "tuner/factory.h"

namespace ringpress::tuner {
namespace {

// What RINGPRESS=lossless takes instead of any lossy codec. It leaves nothing for error feedback.
constexpr std::string_view kLosslessCodec = "lossless";
// Calls of one kind that "auto" leaves exact before it believes that they recur.
constexpr std::uint64_t kCallsBeforeCompression = 2;

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

/// True if a name is what a pattern says: * stands for any text, ? for one character.
bool matches_pattern(std::string_view name, std::string_view pattern) {
  std::size_t at = 0, star = std::string_view::npos, resumed = 0;
  std::size_t next = 0;  // Of the pattern.
  while (at < name.size()) {
    if (next < pattern.size() && pattern[next] == '*') {
      star = next++;
      resumed = at;
    } else if (next < pattern.size() && (pattern[next] == '?' || pattern[next] == name[at])) {
      ++next;
      ++at;
    } else if (star != std::string_view::npos) {
      next = star + 1;
      at = ++resumed;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', next) == std::string_view::npos;
}

/// With what is said of calls that it denies: no call makes a text.
struct KnownRule {
  Rule rule;
  std::string reason;
};

/// Those that may hold for calls of a communicator, in order.
std::vector<KnownRule> rules_of_communicator(const Settings& settings) {
  std::vector<KnownRule> rules;
  for (const Rule& rule : settings.rule_list) {
    const bool is_for_any = rule.comm_match.empty();
    const bool holds =
        settings.comm_name ? matches_pattern(*settings.comm_name, rule.comm_match) : rule.denies();
    if (!is_for_any && !holds) continue;
    rules.push_back({rule, "line " + std::to_string(rule.line) + " of RINGPRESS_RULES"});
  }
  return rules;
}

bool holds_for(const Rule& rule, const PlanRequest& request) {
  const std::size_t bytes = request.count * dtype_size(request.dtype);
  const auto is_of = [&rule](int wanted, int is) {
    return wanted < 0 || wanted == is || (is == 0 && rule.denies());
  };
  return (!rule.kind || *rule.kind == request.kind) && bytes >= rule.min_bytes &&
         bytes <= rule.max_bytes && is_of(rule.nodes, request.comm_nodes) &&
         is_of(rule.ranks, request.comm_ranks) &&
         (!rule.dtype || !request.is_dtype_known || *rule.dtype == request.dtype);
}

class SettingsPlanner : public Planner {
 public:
  explicit SettingsPlanner(const Settings& settings)
      : settings_(settings), rules_(rules_of_communicator(settings)) {}

  using Planner::plan;
  void plan(const PlanRequest& request, Plan* plan) const override {
    plan->codec = "none";
    plan->error_feedback = false;
    plan->keeps_place = false;
    plan->observed_codec.clear();
    plan->waits_for_recurrence = false;
    const KnownRule* const known = find_rule(request);
    const Rule* const rule = known == nullptr ? nullptr : &known->rule;
    plan->is_by_rule = rule != nullptr && !rule->codec.empty();
    plan->is_algorithm_by_rule = rule != nullptr && rule->algorithm;
    plan->is_denied = rule != nullptr && rule->denies();
    if (rule != nullptr && !rule->codec.empty()) {
      follow(*known, request, plan);
    } else {
      follow_settings(request, plan);
    }
    plan->algorithm = rule != nullptr && rule->algorithm
                          ? possible_algorithm(*rule->algorithm, *plan, request)
                          : choose_algorithm(*plan, request);
    plan->chunk_elements = chunk_elements(request);
  }

 private:
  /// The first one that holds, or null.
  const KnownRule* find_rule(const PlanRequest& request) const {
    const auto found =
        std::find_if(rules_.begin(), rules_.end(),
                     [&request](const KnownRule& known) { return holds_for(known.rule, request); });
    return found == rules_.end() ? nullptr : &*found;
  }

  /// A rule that names a codec. What can never be lossy stays exact.
  void follow(const KnownRule& known, const PlanRequest& request, Plan* plan) const {
    find_never_lossy(request, &plan->reason);
    if (!plan->reason.empty()) return;
    if (settings_.mode == "off") {
      plan->reason = "RINGPRESS=off";
    } else if (known.rule.denies()) {
      plan->reason = known.reason;
    } else {
      take_codec(known.rule.codec, request, plan);
    }
  }

  void follow_settings(const PlanRequest& request, Plan* plan) const {
    find_why_exact(request, &plan->reason);
    plan->waits_for_recurrence = plan->reason.empty() && waits_for_recurrence(request);
    if (plan->waits_for_recurrence) plan->reason = kNotRecurred;
    if (!plan->reason.empty()) return;
    const std::string& codec = settings_.codec == "auto" ? settings_.budget : settings_.codec;
    if (codec == "none") {
      plan->reason = settings_.codec == "auto" ? "RINGPRESS_BUDGET=none" : "RINGPRESS_CODEC=none";
    } else {
      take_codec(codec, request, plan);
    }
  }

  /// Not "none".
  void take_codec(std::string_view codec, const PlanRequest& request, Plan* plan) const {
    if (settings_.mode == "lossless") codec = kLosslessCodec;
    if (settings_.mode == "observe") {
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

  static Algorithm possible_algorithm(Algorithm wanted, const Plan& plan,
                                      const PlanRequest& request) {
    if (wanted != Algorithm::kHier) return wanted;
    const bool can_be = plan.codec != "none" && can_be_hierarchical(request);
    return can_be ? Algorithm::kHier : Algorithm::kSra;
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

  const Settings settings_;
  const std::vector<KnownRule> rules_;
};

}  // namespace

std::unique_ptr<Planner> make_planner(const Settings& settings) {
  return std::make_unique<SettingsPlanner>(settings);
}

}  // namespace ringpress::tuner
