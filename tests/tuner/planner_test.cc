#include "ringpress/internal/planner.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tuner/factory.h"

namespace ringpress {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

Settings settings_with(const Environment& environment) {
  return parse_settings(environment, nullptr);
}

PlanRequest gradient() {
  PlanRequest request;
  request.count = 1 << 20;
  request.world = 4;
  request.crosses_hosts = true;
  request.call_class = CallClass::kGradient;
  return request;
}

TEST(Planner, AutoCompressesRecurringGradientsBetweenHosts) {
  const auto planner = tuner::make_planner(settings_with({}));
  const Decision plan = planner->plan(gradient());
  EXPECT_EQ(plan.codec, "q4");
  EXPECT_EQ(plan.algorithm, Algorithm::kSra);
  EXPECT_TRUE(plan.error_feedback);
  EXPECT_EQ(to_text(plan.why), "");
}

TEST(Planner, AutoLeavesFirstCallsAndOneHostAlone) {
  const auto planner = tuner::make_planner(settings_with({}));
  PlanRequest request = gradient();
  request.call_class = CallClass::kUnknown;
  EXPECT_EQ(planner->plan(request).codec, "none");
  EXPECT_EQ(to_text(planner->plan(request).why), "has not recurred yet");
  request = gradient();
  request.crosses_hosts = false;
  EXPECT_EQ(to_text(planner->plan(request).why), "all ranks share one host");
}

TEST(Planner, AutoCompressesNothingButGradients) {
  const auto planner = tuner::make_planner(settings_with({}));
  std::set<std::string> reasons;
  for (const CallClass call_class : {CallClass::kAlike, CallClass::kBesideMaxima,
                                     CallClass::kBesideGathers, CallClass::kNamed}) {
    PlanRequest request = gradient();
    request.call_class = call_class;
    const Decision plan = planner->plan(request);
    EXPECT_EQ(plan.codec, "none");
    EXPECT_EQ(plan.why.reason, ExactReason::kNoGradient);
    reasons.insert(to_text(plan.why));
  }
  EXPECT_EQ(reasons.size(), 4u);
  EXPECT_EQ(planner->plan(gradient()).codec, "q4");
}

TEST(Planner, AnExplicitCodecAppliesAtOnceAndEverywhere) {
  const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_CODEC", "q2"}}));
  PlanRequest request = gradient();
  request.call_class = CallClass::kUnknown;
  request.crosses_hosts = false;
  EXPECT_EQ(planner->plan(request).codec, "q2");
}

TEST(Planner, AllGathersAreCompressedOnlyAtADoorThatIsAskedTo) {
  const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_CODEC", "q8"}}));
  PlanRequest request = gradient();
  request.kind = CollectiveKind::kAllGather;
  EXPECT_EQ(planner->plan(request).codec, "none");
  request.may_gather = true;
  EXPECT_EQ(planner->plan(request).codec, "q8");
  EXPECT_FALSE(planner->plan(request).error_feedback);
  request.dtype = DType::kInt32;
  EXPECT_EQ(planner->plan(request).codec, "none");
}

// Whatever the settings, what must be exact is exact, and the reason says why.
TEST(Planner, WhatIsNeverLossy) {
  const auto planner =
      tuner::make_planner(settings_with({{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_MIN_BYTES", "0"}}));
  for (int kind = 0; kind <= static_cast<int>(CollectiveKind::kSendRecv); ++kind) {
    for (int type = 0; type < kDTypeCount; ++type) {
      for (int op = 0; op < kReduceOpCount; ++op) {
        PlanRequest request = gradient();
        request.kind = static_cast<CollectiveKind>(kind);
        request.dtype = static_cast<DType>(type);
        request.op = static_cast<ReduceOp>(op);
        const bool eligible =
            (request.kind == CollectiveKind::kAllReduce ||
             request.kind == CollectiveKind::kReduceScatter) &&
            (request.dtype == DType::kFloat32 || request.dtype == DType::kFloat16 ||
             request.dtype == DType::kBfloat16) &&
            (request.op == ReduceOp::kSum || request.op == ReduceOp::kAvg);
        const Decision plan = planner->plan(request);
        EXPECT_EQ(plan.codec, eligible ? "q4" : "none");
        EXPECT_EQ((plan.why.reason == ExactReason::kNone), eligible);
      }
    }
  }
  PlanRequest request = gradient();
  request.pre_multiplied = true;
  EXPECT_EQ(planner->plan(request).codec, "none");
  request = gradient();
  request.world = 1;
  EXPECT_EQ(planner->plan(request).codec, "none");
}

TEST(Planner, SmallCallsOffAndObserve) {
  PlanRequest request = gradient();
  request.count = 16383;
  EXPECT_EQ(to_text(tuner::make_planner(settings_with({}))->plan(request).why),
            "smaller than RINGPRESS_MIN_BYTES");
  request.count = 16384;
  EXPECT_EQ(tuner::make_planner(settings_with({}))->plan(request).codec, "q4");
  for (const char* mode : {"off", "observe"}) {
    const auto planner = tuner::make_planner(settings_with({{"RINGPRESS", mode}}));
    const Decision plan = planner->plan(gradient());
    EXPECT_EQ(plan.codec, "none");
    EXPECT_NE(to_text(plan.why).find(mode), std::string::npos);
  }
}

// The same calls as would be compressed otherwise, whatever the codec; no others.
TEST(Planner, LosslessTakesThePlaceOfEveryLossyCodec) {
  for (const char* codec : {"auto", "q4", "fp16", "none"}) {
    const auto lossy = tuner::make_planner(settings_with({{"RINGPRESS_CODEC", codec}}));
    const auto planner =
        tuner::make_planner(settings_with({{"RINGPRESS_CODEC", codec}, {"RINGPRESS", "lossless"}}));
    for (const std::size_t count : {std::size_t{1000}, std::size_t{1} << 20}) {
      for (const CallClass call_class :
           {CallClass::kUnknown, CallClass::kGradient, CallClass::kAlike}) {
        for (const bool crosses_hosts : {false, true}) {
          PlanRequest request = gradient();
          request.count = count;
          request.call_class = call_class;
          request.crosses_hosts = crosses_hosts;
          const Decision expected = lossy->plan(request);
          const Decision plan = planner->plan(request);
          EXPECT_EQ(plan.codec, expected.codec == "none" ? "none" : "lossless");
          EXPECT_EQ(plan.why, expected.why);
          EXPECT_EQ(plan.algorithm, expected.algorithm);
          EXPECT_FALSE(plan.error_feedback);
        }
      }
    }
  }
}

TEST(Planner, TheCodecLosslessHasNoErrorFeedback) {
  const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_CODEC", "lossless"}}));
  EXPECT_EQ(planner->plan(gradient()).codec, "lossless");
  EXPECT_FALSE(planner->plan(gradient()).error_feedback);
}

TEST(Planner, CodecsForAllReducesLeaveTheRestExact) {
  const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_CODEC", "powersgd"}}));
  PlanRequest request = gradient();
  request.all_reduces_only = true;
  EXPECT_EQ(planner->plan(request).codec, "powersgd");
  request.kind = CollectiveKind::kReduceScatter;
  EXPECT_EQ(planner->plan(request).codec, "none");
  EXPECT_EQ(to_text(planner->plan(request).why), "powersgd compresses all-reduces only");
}

TEST(Planner, AlgorithmAndChunkFollowTheSettings) {
  const auto planner = tuner::make_planner(
      settings_with({{"RINGPRESS_ALGO", "ring"}, {"RINGPRESS_CHUNK_BYTES", "5000"}}));
  const Decision plan = planner->plan(gradient());
  EXPECT_EQ(plan.algorithm, Algorithm::kRing);
  EXPECT_EQ(plan.chunk_elements, 2048U);  // 1250 floats, in whole tiles.
  PlanRequest many = gradient();
  many.world = 64;
  many.dtype = DType::kInt32;
  EXPECT_EQ(tuner::make_planner(settings_with({}))->plan(many).algorithm, Algorithm::kRing);
}

TEST(Planner, HierIsChosenBetweenHostsWithAsManyRanks) {
  PlanRequest request = gradient();
  request.crosses_hosts = true;
  request.ranks_per_host = 2;
  EXPECT_EQ(tuner::make_planner(settings_with({}))->plan(request).algorithm, Algorithm::kHier);
  for (const char* name : {"ring", "sra"}) {
    const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_ALGO", name}}));
    EXPECT_STREQ(algorithm_name(planner->plan(request).algorithm), name);
  }
  // Without such hosts, and for reduce-scatters, it is sra.
  const auto planner = tuner::make_planner(settings_with({{"RINGPRESS_ALGO", "hier"}}));
  EXPECT_EQ(planner->plan(request).algorithm, Algorithm::kHier);
  request.kind = CollectiveKind::kReduceScatter;
  EXPECT_EQ(planner->plan(request).algorithm, Algorithm::kSra);
  request = gradient();
  request.ranks_per_host = 0;
  EXPECT_EQ(planner->plan(request).algorithm, Algorithm::kSra);
}

/// A rule for everything.
Rule rule_with(const std::string& codec) {
  Rule rule;
  rule.line = 7;
  rule.codec = codec;
  return rule;
}

Decision plan_by(std::vector<Rule> rules, const PlanRequest& request, const Environment& more = {},
                 std::optional<std::string> name = "") {
  Settings settings = settings_with(more);
  settings.rule_list = std::move(rules);
  settings.comm_name = std::move(name);
  // What is decided has names of the planner's.
  static std::vector<std::unique_ptr<Planner>> planners;
  planners.push_back(tuner::make_planner(settings));
  return planners.back()->plan(request);
}

TEST(PlannerRules, TheFirstThatMatchesHolds) {
  Rule small = rule_with("q8");
  small.max_bytes = 1 << 20;
  const std::vector<Rule> rules{small, rule_with("q2")};
  PlanRequest request = gradient();
  request.call_class = CallClass::kUnknown;  // Whatever auto would say of it.
  request.crosses_hosts = false;
  request.count = (1 << 18) + 1;
  const Decision plan = plan_by(rules, request);
  EXPECT_EQ(plan.codec, "q2");
  EXPECT_TRUE(plan.is_by_rule());
  EXPECT_TRUE(plan.error_feedback);
  EXPECT_EQ(to_text(plan.why), "");
  request.count = 1 << 18;
  EXPECT_EQ(plan_by(rules, request).codec, "q8");
  small.min_bytes = (1 << 20) + 1;
  small.max_bytes = 1 << 21;
  EXPECT_EQ(to_text(plan_by({small}, request).why), "all ranks share one host");
  EXPECT_FALSE(plan_by({small}, request).is_by_rule());
}

TEST(PlannerRules, ConditionsAreOnTypeKindNodesAndRanks) {
  PlanRequest request = gradient();
  request.comm_nodes = 2;
  request.comm_ranks = 8;
  const auto holds = [&request](auto&& change) {
    Rule rule = rule_with("q2");
    change(&rule);
    return plan_by({rule}, request).codec == "q2";
  };
  EXPECT_TRUE(holds([](Rule* rule) { rule->dtype = DType::kFloat32; }));
  EXPECT_FALSE(holds([](Rule* rule) { rule->dtype = DType::kFloat16; }));
  EXPECT_TRUE(holds([](Rule* rule) { rule->kind = CollectiveKind::kAllReduce; }));
  EXPECT_FALSE(holds([](Rule* rule) { rule->kind = CollectiveKind::kReduceScatter; }));
  EXPECT_TRUE(holds([](Rule* rule) { rule->nodes = 2, rule->ranks = 8; }));
  EXPECT_FALSE(holds([](Rule* rule) { rule->nodes = 3; }));
  EXPECT_FALSE(holds([](Rule* rule) { rule->ranks = 4; }));
  request.is_dtype_known = false;
  EXPECT_TRUE(holds([](Rule* rule) { rule->dtype = DType::kFloat16; }));
}

TEST(PlannerRules, WhatIsNotKnownIsTakenToHoldForDenialsAlone) {
  Rule deny = rule_with("none"), give = rule_with("q2");
  deny.ranks = give.ranks = 8;
  EXPECT_EQ(to_text(plan_by({deny}, gradient()).why), "line 7 of RINGPRESS_RULES");
  EXPECT_EQ(plan_by({give}, gradient()).codec, "q4");
  deny = rule_with("none"), give = rule_with("q2");
  deny.comm_match = give.comm_match = "tp*";
  EXPECT_EQ(plan_by({deny}, gradient(), {}, std::nullopt).codec, "none");
  EXPECT_EQ(plan_by({give}, gradient(), {}, std::nullopt).codec, "q4");
}

TEST(PlannerRules, NamesMatchPatterns) {
  const auto matches = [](const std::string& name, const std::string& pattern) {
    Rule rule = rule_with("q2");
    rule.comm_match = pattern;
    return plan_by({rule}, gradient(), {}, name).codec == "q2";
  };
  EXPECT_TRUE(matches("tp_0", "tp_*"));
  EXPECT_TRUE(matches("tp_0", "*0"));
  EXPECT_TRUE(matches("tp_0", "t?_?"));
  EXPECT_TRUE(matches("a_tp_b_tp", "*tp*tp"));
  EXPECT_TRUE(matches("tp", "tp**"));
  EXPECT_FALSE(matches("tp_0", "tp"));
  EXPECT_FALSE(matches("tp", "tp_?"));
  EXPECT_FALSE(matches("", "?*"));
  EXPECT_FALSE(matches("xtp", "tp*"));
}

TEST(PlannerRules, AlgorithmsAreGivenWithAndWithoutCodec) {
  Rule rule = rule_with("q4");
  rule.algorithm = Algorithm::kRing;
  EXPECT_EQ(plan_by({rule}, gradient()).algorithm, Algorithm::kRing);
  rule.codec.clear();
  Decision plan = plan_by({rule}, gradient(), {{"RINGPRESS_CODEC", "q8"}});
  EXPECT_EQ(plan.codec, "q8");
  EXPECT_EQ(plan.algorithm, Algorithm::kRing);
  EXPECT_FALSE(plan.is_by_rule());
  EXPECT_EQ(plan.algorithm_origin, Origin::kRule);
  rule.algorithm = Algorithm::kHier;
  EXPECT_EQ(plan_by({rule}, gradient()).algorithm, Algorithm::kSra);
  PlanRequest several = gradient();
  several.ranks_per_host = 2;
  EXPECT_EQ(plan_by({rule}, several).algorithm, Algorithm::kHier);
  rule.algorithm.reset();
  EXPECT_FALSE(plan_by({rule}, gradient()).is_by_rule());  // It says nothing.
  EXPECT_NE(plan_by({rule}, gradient()).algorithm_origin, Origin::kRule);
}

TEST(PlannerRules, WhatCanNeverBeLossyStaysExactAndModesHold) {
  PlanRequest request = gradient();
  request.dtype = DType::kInt32;
  EXPECT_EQ(to_text(plan_by({rule_with("q4")}, request).why), "int32 is always exact");
  EXPECT_EQ(to_text(plan_by({rule_with("q4")}, gradient(), {{"RINGPRESS", "off"}}).why),
            "RINGPRESS=off");
  EXPECT_EQ(plan_by({rule_with("q4")}, gradient(), {{"RINGPRESS", "lossless"}}).codec, "lossless");
  const Decision observed = plan_by({rule_with("q2")}, gradient(), {{"RINGPRESS", "observe"}});
  EXPECT_EQ(observed.codec, "none");
  EXPECT_TRUE(observed.is_observed());
  EXPECT_EQ(observed.why.codec, "q2");
}

/// What a program asks for a call is what a rule for it would say: by the same codec, or exact, and
/// else as rules and settings say.
TEST(PlannerOptions, ACallThatAsksIsAsIfARuleSaidSo) {
  const std::vector<Environment> environments = {{},
                                                 {{"RINGPRESS_CODEC", "none"}},
                                                 {{"RINGPRESS_CODEC", "q2"}},
                                                 {{"RINGPRESS", "off"}},
                                                 {{"RINGPRESS", "observe"}},
                                                 {{"RINGPRESS", "lossless"}},
                                                 {{"RINGPRESS_EF", "0"}},
                                                 {{"RINGPRESS_ALGO", "ring"}}};
  for (const Environment& environment : environments) {
    for (int kind = 0; kind < kCollectiveKindCount; ++kind) {
      for (const DType dtype : {DType::kFloat32, DType::kInt32, DType::kBfloat16}) {
        PlanRequest request = gradient();
        request.kind = static_cast<CollectiveKind>(kind);
        request.dtype = dtype;
        request.count = kind % 2 == 0 ? 10 : 1 << 20;
        const Decision by_rule = plan_by({rule_with("q8")}, request, environment);
        request.codec = "q8";
        Decision by_call = plan_by({rule_with("q3")}, request, environment);
        EXPECT_EQ(by_call.codec, by_rule.codec);
        EXPECT_EQ(to_text(by_call.why), to_text(by_rule.why));
        EXPECT_EQ(by_call.algorithm, by_rule.algorithm);
        EXPECT_EQ(by_call.error_feedback, by_rule.error_feedback);
        EXPECT_EQ(by_call.codec_origin, Origin::kCall);
        EXPECT_TRUE(by_call.is_given());
        // Of two that disagree, the one who wants it exact is right.
        by_call = plan_by({rule_with("none")}, request, environment);
        EXPECT_TRUE(by_call.is_exact());
        request.codec = kNoCodec;
        by_call = plan_by({rule_with("q3")}, request, environment);
        EXPECT_TRUE(by_call.is_exact());
        EXPECT_EQ(by_call.is_denied(), by_call.why.reason == ExactReason::kExactByCall);
      }
    }
  }
}

TEST(PlannerOptions, ARuleThatDeniesHolds) {
  PlanRequest request = gradient();
  request.codec = "q8";
  EXPECT_EQ(to_text(plan_by({rule_with("none")}, request).why), "line 7 of RINGPRESS_RULES");
  request.kind = CollectiveKind::kReduceScatter;
  request.all_reduces_only = true;
  EXPECT_EQ(to_text(plan_by({}, request).why), "q8 compresses all-reduces only");
}

}  // namespace
}  // namespace ringpress
