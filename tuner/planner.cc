// What decides whether and how a call is compressed: what the program asks for the call, the user's
// rules, then the settings, in the order in which they apply. The first thing that says no gives
// the reason.
#include <algorithm>
#include <string_view>
#include <vector>

#include "ringpress/internal/codec.h"
#include "ringpress/internal/whole_exchange.h"
#include "tuner/factory.h"

namespace ringpress::tuner {
namespace {

/// Between hosts every byte is sent once a host, not once a rank.
bool can_be_hierarchical(const PlanRequest& request) {
  return request.kind == CollectiveKind::kAllReduce && request.crosses_hosts &&
         request.ranks_per_host > 1;
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

/// Those that may hold for calls of a communicator, in order.
std::vector<Rule> rules_of_communicator(const CallSettings& settings) {
  std::vector<Rule> rules;
  for (const Rule& rule : settings.rule_list) {
    const bool is_for_any = rule.comm_match.empty();
    const bool holds =
        settings.comm_name ? matches_pattern(*settings.comm_name, rule.comm_match) : rule.denies();
    if (is_for_any || holds) rules.push_back(rule);
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
  explicit SettingsPlanner(const CallSettings& settings)
      : settings_(settings), rules_(rules_of_communicator(settings)) {}

  /// Each stage leaves alone what one before it has found a reason for.
  Decision plan(const PlanRequest& request) const override {
    const Rule* const rule = find_rule(request);
    Decision decision = name_origins(rule);
    decision.why = why_never_lossy(request);
    if (!request.codec.empty()) {
      decision = follow_call(rule, request, decision);
    } else {
      decision = decision.is_by_rule() ? follow_rule(*rule, request, decision)
                                       : follow_settings(request, decision);
    }
    decision = take_algorithm(rule, request, decision);
    decision.chunk_elements = chunk_elements(request);
    return decision;
  }

 private:
  /// The first one that holds, or null.
  const Rule* find_rule(const PlanRequest& request) const {
    const auto found = std::find_if(rules_.begin(), rules_.end(), [&request](const Rule& rule) {
      return holds_for(rule, request);
    });
    return found == rules_.end() ? nullptr : &*found;
  }

  Decision name_origins(const Rule* rule) const {
    Decision decision;
    decision.codec_origin = is_automatic(settings_) ? Origin::kAutomatic : Origin::kSetting;
    decision.algorithm_origin = settings_.algorithm ? Origin::kSetting : Origin::kAutomatic;
    if (rule != nullptr && !rule->codec.empty()) decision.codec_origin = Origin::kRule;
    if (rule != nullptr && rule->algorithm) decision.algorithm_origin = Origin::kRule;
    return decision;
  }

  /// A call that asks for a codec has it as if a rule said so. But a rule that denies holds: of two
  /// that disagree, the one who wants it exact is right.
  Decision follow_call(const Rule* rule, const PlanRequest& request, Decision decision) const {
    decision.codec_origin = Origin::kCall;
    if (decision.why.reason != ExactReason::kNone) return decision;
    if (settings_.mode == Mode::kOff) {
      decision.why.reason = ExactReason::kOff;
    } else if (is_no_codec(request.codec)) {
      decision.why.reason = ExactReason::kExactByCall;
    } else if (rule != nullptr && rule->denies()) {
      decision.codec_origin = Origin::kRule;
      decision.why = {ExactReason::kDeniedByRule, static_cast<std::uint32_t>(rule->line), {}};
    } else if (request.all_reduces_only && settings_.mode != Mode::kLossless &&
               request.kind != CollectiveKind::kAllReduce) {
      decision.why = {ExactReason::kAllReducesOnly, 0, request.codec};
    } else {
      return take_codec(request.codec, request, decision);
    }
    return decision;
  }

  /// A rule that names a codec. What can never be lossy stays exact.
  Decision follow_rule(const Rule& rule, const PlanRequest& request, Decision decision) const {
    if (decision.why.reason != ExactReason::kNone) return decision;
    if (settings_.mode == Mode::kOff) {
      decision.why.reason = ExactReason::kOff;
    } else if (rule.denies()) {
      decision.why = {ExactReason::kDeniedByRule, static_cast<std::uint32_t>(rule.line), {}};
    } else {
      return take_codec(rule.codec, request, decision);
    }
    return decision;
  }

  Decision follow_settings(const PlanRequest& request, Decision decision) const {
    if (decision.why.reason == ExactReason::kNone) decision.why = why_exact_by_settings(request);
    if (decision.why.reason != ExactReason::kNone) return decision;
    return take_codec(usual_codec(settings_), request, decision);
  }

  /// Of a call that can be lossy.
  WhyExact why_exact_by_settings(const PlanRequest& request) const {
    const bool is_auto = settings_.codec.is_automatic();
    WhyExact why;
    if (settings_.mode == Mode::kOff) {
      why.reason = ExactReason::kOff;
    } else if (request.all_reduces_only && settings_.mode != Mode::kLossless &&
               request.kind != CollectiveKind::kAllReduce) {
      why = {ExactReason::kAllReducesOnly, 0, usual_codec(settings_)};
    } else if (is_too_small(request, settings_.minimum_bytes)) {
      why.reason = ExactReason::kTooSmall;
    } else if (is_auto && !request.crosses_hosts) {
      why.reason = ExactReason::kOneHost;
    } else if (is_auto && request.call_class == CallClass::kUnknown) {
      why.reason = ExactReason::kNotRecurred;
    } else if (is_auto && request.call_class != CallClass::kGradient) {
      why = {ExactReason::kNoGradient, static_cast<std::uint32_t>(request.call_class), {}};
    } else if (is_no_codec(usual_codec(settings_))) {
      const auto of_budget =
          settings_.budget.error > 0 ? ExactReason::kBudgetUnmet : ExactReason::kBudgetNone;
      why.reason = is_auto ? of_budget : ExactReason::kCodecNone;
    }
    return why;
  }

  /// Not "none". `codec` is a name in settings_ or rules_, or the call's.
  Decision take_codec(std::string_view codec, const PlanRequest& request, Decision decision) const {
    if (settings_.mode == Mode::kLossless) codec = kLosslessCodec;
    if (settings_.mode == Mode::kObserve) {
      decision.why = {ExactReason::kObserved, 0, codec};
      return decision;
    }
    decision.codec = codec;
    decision.error_feedback = has_error_feedback(settings_) && codec != kLosslessCodec &&
                              request.kind == CollectiveKind::kAllReduce;
    decision.has_scales = decision.error_feedback && settings_.feedback == FeedbackChoice::kScales;
    return decision;
  }

  Decision take_algorithm(const Rule* rule, const PlanRequest& request, Decision decision) const {
    const bool is_by_rule = decision.algorithm_origin == Origin::kRule;
    decision.algorithm = is_by_rule ? possible_algorithm(*rule->algorithm, decision, request)
                                    : choose_algorithm(decision, request);
    if (!request.in_streams || is_possible_in_streams(decision.algorithm)) return decision;
    decision.algorithm = unsplit_algorithm(settings_);
    decision.algorithm_origin = settings_.algorithm ? Origin::kSetting : Origin::kAutomatic;
    return decision;
  }

  /// Calls that go round do so in one order with all others.
  bool is_possible_in_streams(Algorithm algorithm) const {
    const Algorithm usual = unsplit_algorithm(settings_);
    return algorithm == usual ||
           (traits_of(algorithm).is_hierarchical && !traits_of(usual).goes_round);
  }

  static Algorithm possible_algorithm(Algorithm wanted, const Decision& decision,
                                      const PlanRequest& request) {
    if (!traits_of(wanted).is_hierarchical) return wanted;
    const bool can_be = !decision.is_exact() && can_be_hierarchical(request);
    return can_be ? wanted : Algorithm::kSra;
  }

  Algorithm choose_algorithm(const Decision& decision, const PlanRequest& request) const {
    if (settings_.algorithm) return possible_algorithm(*settings_.algorithm, decision, request);
    const bool lossy = !decision.is_exact();
    if (lossy && can_be_hierarchical(request)) return Algorithm::kHier;
    return lossy || request.world <= kLargestExactSraWorld ? Algorithm::kSra : Algorithm::kRing;
  }

  std::size_t chunk_elements(const PlanRequest& request) const {
    if (settings_.chunk_bytes == 0) return 0;
    return whole_tiles(settings_.chunk_bytes / dtype_size(request.dtype));
  }

  // Neither changes: decisions have names in them.
  const CallSettings settings_;
  const std::vector<Rule> rules_;
};

}  // namespace

WhyExact why_never_lossy(const PlanRequest& request) {
  const bool is_left_out = request.kind == CollectiveKind::kAllGather && !request.may_gather;
  const auto because = [](ExactReason reason, auto what) {
    return WhyExact{reason, static_cast<std::uint32_t>(what), {}};
  };
  if (!is_compressible(request.kind) || is_left_out) {
    return because(ExactReason::kCollective, request.kind);
  }
  if (!is_compressible(request.dtype)) return because(ExactReason::kType, request.dtype);
  if (!is_sum(request.op)) return because(ExactReason::kOperator, request.op);
  if (request.pre_multiplied) return because(ExactReason::kPreMultiplied, 0);
  if (request.world < 2) return because(ExactReason::kSingleRank, 0);
  return {};
}

std::unique_ptr<Planner> make_planner(const CallSettings& settings) {
  return std::make_unique<SettingsPlanner>(settings);
}

}  // namespace ringpress::tuner
