#include "nccl_plugin/command/explain/decided.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/session/calls/budget.h"
#include "nccl_plugin/session/calls/codec_cache.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "nccl_plugin/session/calls/coordinate_scales.h"
#include "nccl_plugin/session/calls/named_codec.h"
#include "nccl_plugin/session/calls/savings.h"
#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/lazy/lazy_calls.h"
#include "nccl_plugin/session/ring_topology.h"
#include "nccl_plugin/session/settings/budget_error.h"
#include "nccl_plugin/session/steps/warm_up.h"
#include "nccl_plugin/session/tuning/level_family.h"
#include "nccl_plugin/session/usable_settings.h"
#include "ringpress/internal/planner.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::command {
namespace {

using NamedCodecs = nccl_plugin::CodecCache<nccl_plugin::NamedCodec>;

Result<const nccl_plugin::NamedCodec*> find_or_make(NamedCodecs& codecs, const PlanRequest& request,
                                                    const Decision& decision) {
  return codecs.find_or_make(decision.codec, request.dtype, request.op,
                             nccl_plugin::make_named_codec);
}

/// No calls have been made: only codecs are known. Those that automatic mode tries on host memory
/// are measured instead.
class Codecs final : public nccl_plugin::CallAdvisers {
 public:
  explicit Codecs(bool tries_several) : tries_several_(tries_several) {}
  static Codecs of_host(const Settings& settings) {
    Codecs codecs(true);
    codecs.scatters_keep_residuals_ = has_error_feedback(settings);
    return codecs;
  }

  Result<nccl_plugin::CodecLimits> limits_of(const PlanRequest& request,
                                             const Decision& decision) override {
    const bool is_tried = tries_several_ && decision.codec_origin == Origin::kAutomatic;
    if (decision.is_exact() || is_tried) return nccl_plugin::CodecLimits();
    RINGPRESS_ASSIGN_OR_RETURN(const nccl_plugin::NamedCodec* const named,
                               find_or_make(codecs_, request, decision));
    nccl_plugin::CodecLimits limits = nccl_plugin::limits_of(*named, request);
    limits.scatters_keep_residuals = scatters_keep_residuals_;
    return limits;
  }

 private:
  const bool tries_several_;
  bool scatters_keep_residuals_ = false;
  NamedCodecs codecs_;  // Decisions have names in them.
};

/// The same of streams, on a device that has kernels for all that can have any.
class StreamCodecs final : public nccl_plugin::StreamAdvisers {
 public:
  nccl_plugin::StreamLimits limits_of(const PlanRequest& request,
                                      const Decision& decision) override {
    const nccl_plugin::NamedCodec& named = *find_or_make(codecs_, request, decision).value();
    const Codec& codec = *named.codec;
    nccl_plugin::StreamLimits limits;
    limits.takes_error_feedback = named.takes_error_feedback;
    limits.has_no_kernels = codec.projection() == nullptr && !codec.traits().fixed_size;
    limits.saves_nothing = !nccl_plugin::saves_bytes(codec, request);
    limits.agrees_on_sums =
        request.kind == CollectiveKind::kAllGather && codec.agreement() != nullptr;
    return limits;
  }

 private:
  NamedCodecs codecs_;
};

/// As the engine does.
Decision decide_on(const Settings& settings, const Planner& planner, const PlanRequest& request) {
  if (is_on_host(settings)) {
    Codecs codecs = Codecs::of_host(settings);
    return nccl_plugin::decide_call(planner, request, codecs).value();
  }
  StreamCodecs codecs;
  return nccl_plugin::decide_in_stream(planner, request, codecs);
}

/// Which of them it is that leaves automatic mode no choice.
std::string codec_decided_by(const Settings& settings, const Decision& decision) {
  if (decision.is_by_rule()) return "a rule";
  if (settings.mode != Mode::kOn) return "RINGPRESS=" + to_text(settings.mode);
  return settings.codec.is_automatic() ? "RINGPRESS_DETERMINISTIC=1"
                                       : "RINGPRESS_CODEC=" + *settings.codec.specification;
}

/// What the planner is asked about such a call once it has recurred.
PlanRequest make_request(const CallShape& shape, DType dtype, const Settings& settings) {
  std::vector<int> hosts;
  for (int rank = 0; rank < shape.world; ++rank) {
    hosts.push_back(rank / std::max(1, shape.ranks_per_host));
  }
  nccl_plugin::CommShape comm;
  if (is_on_host(settings)) {
    comm = nccl_plugin::comm_shape_of(settings, hosts);
    comm.may_gather = false;
  } else {
    comm = nccl_plugin::stream_shape_of(settings, hosts);
    if (!nccl_plugin::wants_host_groups(settings, comm)) comm.ranks_per_host = 0;
  }
  PlanRequest request =
      nccl_plugin::request_of(comm, shape.kind, shape.bytes / dtype_size(dtype), dtype);
  request.call_class = CallClass::kGradient;
  return request;
}

std::string describe_piecewise(const Decision& decision) {
  if (decision.is_exact()) return "exact, as " + to_text(decision.why);
  return std::string(decision.codec) + (decision.error_feedback ? " with" : " without") +
         " error feedback";
}

int nodes_of(const CallShape& shape) {
  return shape.world / std::max(1, shape.ranks_per_host);
}

/// Whether NCCL cuts such a call into pieces for the plugin: it does so of all-reduces between
/// nodes.
bool comes_in_pieces(const Settings& settings, const CallShape& shape) {
  return !is_on_host(settings) && shape.kind == CollectiveKind::kAllReduce && nodes_of(shape) > 1;
}

/// What the plugin makes of a call that comes in pieces.
std::string note_on_pieces(const Settings& settings, const CallShape& shape, DType dtype) {
  const std::unique_ptr<Planner> planner = tuner::make_planner(settings);
  PlanRequest request = make_request(shape, dtype, settings);
  request.world = nodes_of(shape);
  request.comm_ranks = request.ranks_per_host = 0;  // Of a node, how many ranks is not known there.
  Codecs codecs(false);
  const auto decided = [&](PiecewiseTensor::Known known) {
    return nccl_plugin::decide_tensor(*planner, request, known, codecs).value();
  };
  const Decision decision = decided(PiecewiseTensor::Known::kTensor);
  const std::string whole = describe_piecewise(decision);
  std::string note = "in the plugin, which gets pieces of such a call from NCCL: " + whole;
  if (decision.is_exact()) return note;
  const std::string unknown = describe_piecewise(decided(PiecewiseTensor::Known::kExtent));
  if (unknown != whole) note += "; where NCCL does not say which tensor they are of: " + unknown;
  return note;
}

/// Of an all-reduce that is compressed.
std::string note_on_scales(const Settings& settings, const std::string& codec) {
  const nccl_plugin::ScalesAnswer answer = nccl_plugin::may_have_scales(settings, codec);
  if (answer != nccl_plugin::ScalesAnswer::kYes) {
    return "RINGPRESS_EF=scales is as auto: " + nccl_plugin::to_text(answer, codec);
  }
  return "RINGPRESS_EF=scales: where that loses less, such a call has coordinate scales, for no "
         "byte "
         "more";
}

/// Of a call that is compressed and has one.
std::string note_on_warm_up(const Settings& settings, const nccl_plugin::WarmUpPlan& plan) {
  std::string stages;
  if (!is_on_host(settings)) stages = "exact";
  for (const std::string& stage : plan.codecs) {
    if (!is_on_host(settings)) break;
    if (!stages.empty()) stages += ", then ";
    stages += is_no_codec(stage) ? "exact" : "by " + stage;
  }
  const std::string known = plan.is_by_codec ? ", as soon as they are known" : "";
  return "RINGPRESS_WARMUP_STEPS=" + to_text(settings.warm_up_steps) + ": in the first " +
         std::to_string(plan.steps) + " steps of a training" + known + ", such a call is " + stages;
}

/// What is lost without error feedback, warm-up, coordinate scales, RINGPRESS_LAZY and
/// RINGPRESS_ADJUST_STEPS.
std::vector<std::string> notes_on(const Settings& settings, const PlanRequest& request,
                                  const Planner& planner, const Decided& decided,
                                  bool has_feedback) {
  std::vector<std::string> notes;
  const Decision planned = planner.plan(request);
  const std::string codec(planned.codec);
  const bool is_compressed = !decided.left_exact.is_exact();
  if (is_compressed && !has_feedback && nccl_plugin::loses_without_feedback(codec)) {
    notes.push_back(nccl_plugin::loss_without_feedback(codec, !has_error_feedback(settings)));
  }
  const nccl_plugin::WarmUpPlan warm_up = nccl_plugin::plan_warm_up(settings, codec);
  if (is_compressed && warm_up.steps != 0) notes.push_back(note_on_warm_up(settings, warm_up));
  const bool is_all_reduce = request.kind == CollectiveKind::kAllReduce;
  if (settings.feedback == FeedbackChoice::kScales && is_all_reduce && is_compressed) {
    notes.push_back(note_on_scales(settings, codec));
  }
  if (nccl_plugin::LazyCalls::is_wanted(settings)) {
    const bool is_put_off = nccl_plugin::may_be_put_off(settings, planner, request);
    const std::string setting = fmt::format("RINGPRESS_LAZY={:g}: ", settings.lazy);
    notes.push_back(
        setting +
        (is_put_off ? fmt::format("put off: such a call gives zeros until what a rank has added up "
                                  "is {:g} times as long as a gradient, and then, or at every {}th "
                                  "call, is sent as above",
                                  settings.lazy, settings.lazy_calls)
                    : std::string("such a call is never put off")));
  }
  const bool has_levels = is_on_host(settings) && settings.mode == Mode::kOn &&
                          settings.adjust_steps != 0 && is_all_reduce && is_compressed &&
                          !decided.is_by_rule;
  if (has_levels && nccl_plugin::tuning::make_level_family(settings) != nullptr) {
    notes.push_back(
        fmt::format("RINGPRESS_ADJUST_STEPS={}: parts of such a call that would go by "
                    "{} get levels of their own, at no more error",
                    settings.adjust_steps, usual_codec(settings)));
  }
  return notes;
}

}  // namespace

std::string describe_exact(const KeptReason& left_exact, const Settings& settings) {
  const WhyExact why = left_exact.why();
  const std::string text = to_text(why);
  const auto all_gather = static_cast<std::uint32_t>(CollectiveKind::kAllGather);
  if (why.reason == ExactReason::kTooSmall) {
    return text + "=" + std::to_string(settings.minimum_bytes);
  }
  const bool may_gather = !is_on_host(settings);
  if (may_gather && why.reason == ExactReason::kCollective && why.number == all_gather) {
    return text + " without RINGPRESS_ALL_GATHER=1";
  }
  return text;
}

std::string name_among(const std::vector<std::string>& names, const std::string& specification) {
  const Result<std::string> wanted = compress_kernels::normalize_specification(specification);
  const auto is_same = [&](const std::string& name) {
    const Result<std::string> known = compress_kernels::normalize_specification(name);
    return known.is_ok() && wanted.is_ok() && known.value() == wanted.value();
  };
  const auto found = std::find_if(names.begin(), names.end(), is_same);
  return found == names.end() ? specification : *found;
}

Settings good_settings(const std::string& budget) {
  Settings settings = settings_from_environment();
  settings.comm_name = "";
  Status valid = Status::ok();
  if (!budget.empty()) {
    const std::optional<BudgetChoice> read = nccl_plugin::read_budget(budget);
    if (!read) {
      throw terminal::Error("--budget " + budget + ": expected " + nccl_plugin::kExpectedBudget);
    }
    settings.budget = *read;
    valid = nccl_plugin::check_budget(settings.budget.codec, "--budget ");
  }
  if (valid.is_ok()) {
    valid = is_on_host(settings)
                ? nccl_plugin::check_session(settings, nccl_plugin::read_ring_topology(settings))
                : nccl_plugin::check_values(settings);
  }
  if (!valid.is_ok()) throw terminal::Error(valid.message());
  return settings;
}

Decided decide(const Settings& given, const CallShape& shape, DType dtype,
               const std::vector<std::string>& names) {
  const Settings settings = is_on_host(given) ? given : nccl_plugin::in_streams(given);
  const std::unique_ptr<Planner> planner = tuner::make_planner(settings);
  const PlanRequest request = make_request(shape, dtype, settings);
  const Decision decision = decide_on(settings, *planner, request);
  const bool is_chosen = decision.is_compressed() && decision.codec_origin == Origin::kAutomatic;
  const bool is_tried = is_chosen && is_on_host(settings);
  Decided decided;
  decided.is_by_rule = !is_chosen && decision.is_by_rule();
  if (decision.algorithm_origin == Origin::kRule) {
    decided.algorithm_by = "a rule";
  } else if (decision.algorithm_origin == Origin::kSetting && !decision.is_by_rule()) {
    decided.algorithm_by = "RINGPRESS_ALGO=" + to_text(settings.algorithm);
  }
  if (!is_tried || decision.algorithm_origin != Origin::kAutomatic) {
    decided.algorithm = algorithm_name(decision.algorithm);
  }
  decided.left_exact = KeptReason(decision.why);
  if (!decided.left_exact.is_exact() && !is_chosen) {
    decided.codec = name_among(names, std::string(decision.codec));
    decided.codec_by = codec_decided_by(settings, decision);
  }
  decided.notes = notes_on(settings, request, *planner, decided, decision.error_feedback);
  if (comes_in_pieces(given, shape)) {
    decided.notes.push_back(note_on_pieces(given, shape, dtype));
  }
  return decided;
}

}  // namespace ringpress::nccl_plugin::command
