// What `ringpress explain` says of a call is what the engine makes of it: of random settings,
// rules, jobs and calls, with a tuner and a plan for the step that say anything.
#include "nccl_plugin/command/explain/decided.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/interposer/comm/policy.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "nccl_plugin/session/calls/named_codec.h"
#include "nccl_plugin/session/calls/savings.h"
#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/tuning/tuned_calls.h"
#include "nccl_plugin/session/usable_settings.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::command {
namespace {

using nccl_plugin::TunedChoice;

class Dice {
 public:
  std::size_t below(std::size_t end) { return engine_() % end; }
  bool is_one_in(std::size_t times) { return below(times) == 0; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::mt19937_64 engine_{29};
};

Rule draw_rule(Dice& dice, std::size_t line) {
  Rule rule;
  rule.line = line;
  rule.codec = dice.one_of({"none", "q2", "", "lossless"});
  if (dice.is_one_in(2)) rule.kind = static_cast<CollectiveKind>(dice.below(3));
  if (dice.is_one_in(2)) rule.min_bytes = dice.below(1 << 20);
  if (dice.is_one_in(2)) rule.max_bytes = rule.min_bytes + dice.below(1 << 20);
  if (dice.is_one_in(4)) rule.nodes = 1 + static_cast<int>(dice.below(4));
  if (dice.is_one_in(4)) rule.ranks = 1 + static_cast<int>(dice.below(8));
  if (dice.is_one_in(4)) rule.comm_match = dice.one_of({"tp*", "*"});
  if (dice.is_one_in(4)) rule.dtype = dice.one_of({DType::kFloat32, DType::kInt32});
  if (dice.is_one_in(2)) rule.algorithm = static_cast<Algorithm>(dice.below(3));
  return rule;
}

Settings draw_settings(Dice& dice) {
  Settings settings = parse_settings({}, nullptr);
  settings.mode =
      dice.one_of({Mode::kOn, Mode::kOn, Mode::kOn, Mode::kOff, Mode::kObserve, Mode::kLossless});
  settings.codec.specification = dice.one_of<std::optional<std::string>>(
      {std::nullopt, std::nullopt, std::nullopt, "q4", "none", "powersgd", "lossless", "fp16"});
  settings.budget.codec = dice.one_of({"q4", "q8", "none"});
  settings.algorithm = dice.one_of<AlgorithmChoice>(
      {std::nullopt, std::nullopt, Algorithm::kRing, Algorithm::kSra, Algorithm::kHier});
  settings.backend = dice.one_of<BackendChoice>({std::nullopt, Backend::kHost});
  settings.minimum_bytes = dice.one_of<std::size_t>({65536, 0, 4096});
  settings.feedback = dice.is_one_in(2) ? FeedbackChoice::kAuto : FeedbackChoice::kOff;
  settings.deterministic = dice.is_one_in(4);
  settings.all_gather = dice.is_one_in(2);
  settings.comm_name = dice.one_of<std::optional<std::string>>({std::nullopt, "", "tp_0"});
  const bool is_named = settings.backend != Backend::kHost;  // As calls to NCCL have it.
  if (is_named && !settings.comm_name) settings.comm_name = "";
  // These change what is said besides, and no verdict on a call that is sent.
  settings.lazy = dice.is_one_in(4) ? 2 : 0;
  settings.adjust_steps = dice.is_one_in(4) ? 10 : 0;
  settings.warm_up_steps.steps = dice.one_of<std::optional<std::size_t>>({std::nullopt, 0, 30});
  for (std::size_t rules = dice.below(4); rules > 0; --rules) {
    settings.rule_list.push_back(draw_rule(dice, 4 - rules));
  }
  return settings;
}

/// They say anything of calls that they are asked about, as the communicators ask them.
class Anyone final : public nccl_plugin::CallAdvisers {
 public:
  Anyone(const Settings& settings, Dice& dice) : settings_(settings), dice_(dice) {}

  std::optional<nccl_plugin::PlannedStepCall> step_of(const PlanRequest& request,
                                                      const Decision&) override {
    const bool is_planned =
        nccl_plugin::StepPlanner::is_wanted(settings_, request.world, request.crosses_hosts);
    if (!is_planned || dice_.is_one_in(2)) return std::nullopt;
    nccl_plugin::PlannedStepCall call;
    call.algorithm = static_cast<std::uint8_t>(dice_.below(2));
    return call;
  }
  Result<std::optional<TunedChoice>> tuned_for(const PlanRequest&,
                                               const Decision& decision) override {
    const bool is_asked = nccl_plugin::tuning::TunedCalls::has_choice(settings_) &&
                          !decision.is_by_rule() && !decision.is_exact();
    if (!is_asked || dice_.is_one_in(2)) return std::optional<TunedChoice>();
    const bool is_free = decision.algorithm_origin == Origin::kAutomatic;
    return std::optional(
        TunedChoice{dice_.one_of<std::string_view>({"none", "q8", "bf16"}),
                    is_free ? static_cast<Algorithm>(dice_.below(2)) : decision.algorithm,
                    dice_.one_of<std::size_t>({0, 65536}), dice_.is_one_in(2)});
  }
  Result<nccl_plugin::CodecLimits> limits_of(const PlanRequest& request,
                                             const Decision& decision) override {
    if (decision.is_exact()) return nccl_plugin::CodecLimits();
    RINGPRESS_ASSIGN_OR_RETURN(named_, nccl_plugin::make_named_codec(std::string(decision.codec),
                                                                     request.dtype, request.op));
    return nccl_plugin::limits_of(named_, request);
  }

 private:
  const Settings& settings_;
  Dice& dice_;
  nccl_plugin::NamedCodec named_;
};

/// The same of streams. What their kernels are for is not drawn: that is what codecs are.
class AnyoneInStreams final : public nccl_plugin::StreamAdvisers {
 public:
  explicit AnyoneInStreams(Dice& dice) : dice_(dice) {}

  nccl_plugin::StreamLimits limits_of(const PlanRequest& request,
                                      const Decision& decision) override {
    const auto named =
        nccl_plugin::make_named_codec(std::string(decision.codec), request.dtype, request.op);
    const Codec& codec = *named.value().codec;
    nccl_plugin::StreamLimits limits;
    limits.has_no_kernels = decision.codec == "lossless";
    limits.takes_error_feedback = named.value().takes_error_feedback;
    limits.saves_nothing = !nccl_plugin::saves_bytes(codec, request);
    limits.agrees_on_sums =
        request.kind == CollectiveKind::kAllGather && codec.agreement() != nullptr;
    return limits;
  }
  std::optional<nccl_plugin::WarmUpCall> warm_up_of(const PlanRequest&, const Decision&) override {
    if (!dice_.is_one_in(8)) return std::nullopt;
    return nccl_plugin::WarmUpCall{kNoCodec, 30};
  }
  nccl_plugin::StreamVerdict verdict_on(const PlanRequest&, const Decision& decision) override {
    if (decision.is_given()) return {};
    return {dice_.is_one_in(8), dice_.is_one_in(2)};
  }

 private:
  Dice& dice_;
};

/// Of a call that has recurred often, and of the training's later steps: what earlier calls have
/// shown does not count.
Decision without_measurements(Decision made) {
  const ExactReason reason = made.why.reason;
  if (reason == ExactReason::kWarmUp || reason == ExactReason::kNothingGained) made.why = {};
  return made;
}

std::string normal(const std::string& specification) {
  return compress_kernels::normalize_specification(specification).value();
}

/// The same of a call in a stream.
const char* compare_in_stream(const Decided& said, const Decision& made) {
  const WhyExact why = said.left_exact.why();
  EXPECT_EQ(why, made.why) << to_text(why) << " or " << to_text(made.why);
  EXPECT_EQ(said.algorithm, algorithm_name(made.algorithm));
  if (!made.is_compressed()) return "exact";
  const bool is_chosen = made.codec_origin == Origin::kAutomatic;
  EXPECT_EQ(said.codec.empty(), is_chosen);
  if (is_chosen) return "chosen";
  EXPECT_EQ(normal(said.codec), normal(std::string(made.codec)));
  EXPECT_EQ(said.is_by_rule, made.is_by_rule());
  return said.is_by_rule ? "rule" : "setting";
}

/// What kind of verdict it was, once it is the engine's, too.
const char* compare(const Decided& said, const Decision& made) {
  const std::string algorithm = algorithm_name(made.algorithm);
  const WhyExact why = said.left_exact.why();
  if (said.left_exact.is_exact()) {
    EXPECT_TRUE(made.is_exact());
    EXPECT_EQ(why, made.why) << to_text(why) << " or " << to_text(made.why);
    EXPECT_EQ(said.algorithm, algorithm);
    return "exact";
  }
  if (!said.codec.empty()) {
    EXPECT_FALSE(made.is_exact()) << to_text(made.why);
    EXPECT_EQ(normal(said.codec), normal(std::string(made.codec)));
    EXPECT_EQ(said.algorithm, algorithm);
    EXPECT_EQ(said.is_by_rule, made.is_by_rule());
    return said.is_by_rule ? "rule" : "setting";
  }
  EXPECT_FALSE(made.is_by_rule());
  EXPECT_NE(made.codec_origin, Origin::kSetting);
  const bool is_known =
      made.why.reason == ExactReason::kNone || made.why.reason == ExactReason::kStepNoShorter ||
      made.why.reason == ExactReason::kNothingGained || made.why.reason == ExactReason::kTrial ||
      made.why.reason == ExactReason::kSavesNothing;
  EXPECT_TRUE(is_known) << to_text(made.why);
  if (said.algorithm_by == "a rule") {
    EXPECT_EQ(said.algorithm, algorithm);
  }
  return "chosen";
}

/// A communicator at door A, as far as decisions go: split by hosts if it is to be.
class StreamComm {
 public:
  StreamComm(const Settings& settings, int nodes, int ranks_per_host)
      : settings_(nccl_plugin::in_streams(settings)),
        policy_(settings_, nodes * ranks_per_host, true, settings.comm_name.value_or("")) {
    std::vector<int> hosts;
    for (int rank = 0; rank < nodes * ranks_per_host; ++rank) {
      hosts.push_back(rank / ranks_per_host);
    }
    policy_.set_hosts(hosts);
    if (interposer::wants_groups(settings_, true, hosts)) {
      policy_.set_position(interposer::find_position(hosts, 0));
    }
  }

  /// What is decided on a gradient, and how it goes then.
  Decision decide(CollectiveKind kind, std::size_t count, DType dtype, Dice& dice) const {
    interposer::Call call;
    call.kind = kind;
    call.count = count;
    call.dtype = static_cast<ncclDataType_t>(dtype);
    call.call_class = CallClass::kGradient;
    AnyoneInStreams anyone(dice);
    Decision decision =
        nccl_plugin::decide_in_stream(policy_.planner(), policy_.request(call), anyone);
    const bool is_projected = compress_kernels::projects(std::string(decision.codec));
    if (decision.is_compressed()) {
      decision.algorithm = policy_.way(decision, call, is_projected).algorithm;
    }
    return decision;
  }

 private:
  const Settings settings_;
  interposer::CommPolicy policy_;
};

TEST(Explain, KnowsWhatRulesChooseInStreams) {
  Dice dice;
  Settings settings = parse_settings({}, nullptr);
  settings.comm_name = "";
  Rule rule;
  rule.codec = "q4";
  rule.algorithm = Algorithm::kRing;
  settings.rule_list = {rule};
  const CallShape shape{1 << 22, 8, 4, CollectiveKind::kAllReduce};
  // Only RINGPRESS_ALGO chooses between these two.
  const Decided ring = decide(settings, shape, DType::kFloat32, {});
  EXPECT_EQ(ring.algorithm, "sra");
  EXPECT_NE(ring.algorithm_by, "a rule");
  settings.rule_list[0].algorithm = std::nullopt;
  EXPECT_EQ(decide(settings, shape, DType::kFloat32, {}).algorithm, "hier");
  // The communicator is split for what most calls are.
  settings.codec.specification = "none";
  const Decided alone = decide(settings, shape, DType::kFloat32, {});
  EXPECT_EQ(alone.algorithm, "sra");
  const StreamComm comm(settings, 2, 4);
  EXPECT_EQ(comm.decide(CollectiveKind::kAllReduce, 1 << 20, DType::kFloat32, dice).algorithm,
            Algorithm::kSra);
}

TEST(Explain, SaysWhatTheEngineDecides) {
  constexpr int kSettings = 1000;
  constexpr int kCallsEach = 110;
  Dice dice;
  std::map<std::string, int> verdicts;
  for (int i = 0; i < kSettings && !::testing::Test::HasFailure(); ++i) {
    const Settings settings = draw_settings(dice);
    const std::unique_ptr<Planner> planner = tuner::make_planner(settings);
    Anyone anyone(settings, dice);
    for (int call = 0; call < kCallsEach && !::testing::Test::HasFailure(); ++call) {
      const int nodes = 1 + static_cast<int>(dice.below(4));
      const int ranks_per_host = 1 + static_cast<int>(dice.below(4));
      const auto kind = static_cast<CollectiveKind>(dice.below(3));
      const auto dtype =
          dice.is_one_in(4) ? static_cast<DType>(dice.below(kDTypeCount)) : DType::kFloat32;
      const int world = nodes * ranks_per_host;
      if (world < 2) continue;
      // As a communicator of a device makes it of the program's call.
      const std::size_t count = 4 + dice.below(1 << 19) / static_cast<std::size_t>(world);
      const bool may_gather = settings.all_gather && settings.backend != Backend::kHost;
      nccl_plugin::CommShape comm{world,      nodes > 1, settings.codec.specification == "powersgd",
                                  may_gather, 0,         nodes,
                                  world};
      const std::size_t whole = nccl_plugin::whole_count(kind, count, world);
      PlanRequest request = nccl_plugin::request_of(comm, kind, whole, dtype);
      request.call_class = CallClass::kGradient;
      const CallShape shape{whole * dtype_size(dtype), world, ranks_per_host, kind};
      const Decided said = decide(settings, shape, dtype, {"none", "q2", "q4", "q8"});
      if (is_on_host(settings)) {
        const Decision made = nccl_plugin::decide_call(*planner, request, anyone).value();
        ++verdicts[compare(said, made)];
      } else {
        const StreamComm stream(settings, nodes, ranks_per_host);
        const Decision made = stream.decide(kind, count, dtype, dice);
        ++verdicts[std::string("in a stream: ") +
                   compare_in_stream(said, without_measurements(made))];
      }
    }
  }
  for (const std::string verdict : {"exact", "rule", "setting", "chosen"}) {
    EXPECT_GT(verdicts[verdict], 1000) << verdict;
    EXPECT_GT(verdicts["in a stream: " + verdict], 1000) << verdict;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command
