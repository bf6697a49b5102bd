#include "nccl_plugin/command/explain/explanation.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/terminal/codec_list.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/session/calls/coordinate_scales.h"
#include "nccl_plugin/session/tuning/calibration.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::command {
namespace {

using compress_kernels::ValuesIn;

// A core's cache keeps no larger tensor with its residual and its result.
constexpr std::size_t kLargestInCache = std::size_t{1} << 20;

CodecSpeed measure(const std::string& codec, DType dtype, const CallShape& shape, ValuesIn where) {
  const int hosts = shape.world / std::max(1, shape.ranks_per_host);
  Result<CodecSpeed> speed =
      compress_kernels::measure_codec(codec, dtype, {shape.world, hosts, where});
  if (!speed.is_ok()) throw terminal::Error(codec + ": " + speed.status().message());
  CodecSpeed measured = std::move(speed).value();
  measured.codec = codec;  // As it was written.
  return measured;
}

/// Else it would only take time, and automatic mode never tries it.
bool saves_bytes(const CodecSpeed& codec, std::size_t bytes) {
  return codec.sent_ratio(static_cast<double>(bytes)) < 1;
}

CollectiveKind parse_collective(const std::string& name) {
  for (const CollectiveKind kind : kCompressibleKinds) {
    if (name == collective_name(kind)) return kind;
  }
  throw terminal::Error("\"" + name +
                        "\" is no collective that is compressed: all_reduce, reduce_scatter or "
                        "all_gather");
}

/// But for its size.
CallShape parse_shape(const ExplainOptions& options) {
  CallShape shape;
  shape.world = options.ranks;
  shape.ranks_per_host = options.ranks_per_host;
  shape.kind = parse_collective(options.collective);
  return shape;
}

Links parse_links(const ExplainOptions& options) {
  return {{parse_seconds(options.latency), parse_rate(options.rate)},
          {parse_seconds(options.inside_latency), parse_rate(options.inside_rate)}};
}

std::vector<std::string> codecs_of(const ExplainOptions& options, const std::string& budget) {
  if (options.codecs.empty()) return nccl_plugin::tuning::candidate_codecs(budget);
  std::vector<std::string> names = terminal::split_codecs("--codecs", options.codecs);
  for (const std::string& name : names) {
    const Status known = compress_kernels::normalize_specification(name).status();
    if (!known.is_ok()) throw terminal::Error("--codecs " + name + ": " + known.message());
  }
  const bool has_none = std::find(names.begin(), names.end(), "none") != names.end();
  if (!has_none) names.insert(names.begin(), "none");
  return names;
}

}  // namespace

std::string Explanation::objection(const CallCost& call) const {
  if (decided.left_exact.is_exact() && call.codec != "none") return "left exact";
  if (!decided.codec.empty() && call.codec != decided.codec) return "not by " + decided.codec_by;
  const std::string algorithm = algorithm_for(call.codec);
  if (!algorithm.empty() && algorithm_name(call.algorithm) != algorithm) {
    const std::string& by = decided.algorithm_by;
    return by.empty() ? "the library takes " + algorithm : "not by " + by;
  }
  const auto found = objections.find(call.codec);
  if (found != objections.end()) return found->second;
  const bool is_tried = tried.empty() || tried.count({call.codec, call.algorithm}) > 0;
  return is_tried ? "" : "a ring is tried without a codec, of 3 ranks and more";
}

const CallCost& Explanation::choice() const {
  return *std::find_if(calls.begin(), calls.end(),
                       [&](const CallCost& call) { return is_allowed(call); });
}

const CallCost& Explanation::uncompressed() const {
  const std::string algorithm = is_exact_of_nccl ? "" : algorithm_for("none");
  return *std::find_if(calls.begin(), calls.end(), [&](const CallCost& call) {
    return call.codec == "none" &&
           (algorithm.empty() || algorithm_name(call.algorithm) == algorithm);
  });
}

/// As the planner has it: exact calls of this library are never hierarchical, nor are any where a
/// host has one rank. Exact calls on GPUs are NCCL's, by what it likes.
std::string Explanation::algorithm_for(const std::string& codec) const {
  const bool is_automatic = decided.algorithm_by.empty() && decided.codec.empty();
  const bool is_left = decided.left_exact.is_exact();
  if (codec == "none" && (is_left ? is_exact_of_nccl : is_automatic)) return "";
  const auto asked = std::find_if(
      std::begin(kAlgorithms), std::end(kAlgorithms),
      [this](const AlgorithmTraits& traits) { return decided.algorithm == traits.name; });
  if (asked == std::end(kAlgorithms) || !asked->is_hierarchical) return decided.algorithm;
  const bool is_possible = std::any_of(calls.begin(), calls.end(), [&](const CallCost& call) {
    return codec != "none" && call.codec == codec && call.algorithm == asked->algorithm;
  });
  return is_possible ? decided.algorithm : algorithm_name(Algorithm::kSra);
}

Explainer::Explainer(const ExplainOptions& options, const Settings& settings)
    : settings_(settings),
      dtype_(parse_dtype(options.dtype)),
      shape_(parse_shape(options)),
      links_(parse_links(options)),
      codecs_(codecs_of(options, settings.budget.codec)),
      budget_(name_among(codecs_, settings.budget.codec)) {}

Explanation Explainer::explain(std::size_t bytes) {
  Explanation explanation{shape_, links_, {}, {}, {}, {}, {}, !is_on_host(settings_)};
  explanation.shape.bytes = bytes;
  explanation.decided = decide(settings_, explanation.shape, dtype_, codecs_);
  for (const std::string& name : codecs_) explanation.codecs.push_back(speed(name, bytes));
  const std::string& codec = explanation.decided.codec;
  const bool is_new =
      !codec.empty() && std::find(codecs_.begin(), codecs_.end(), codec) == codecs_.end();
  if (is_new) explanation.codecs.push_back(speed(codec, bytes));
  Result<std::vector<CallCost>> calls =
      tuner::rank_calls(explanation.shape, links_, explanation.codecs);
  if (!calls.is_ok()) throw terminal::Error(calls.status().message());
  explanation.calls = std::move(calls).value();
  std::erase_if(explanation.calls, [this](const CallCost& call) {
    return traits_of(call.algorithm).is_hierarchical && is_on_host(settings_);
  });
  if (!explanation.decided.left_exact.is_exact() && codec.empty()) {
    ask_automatic_mode(&explanation);
  }
  return explanation;
}

/// As TunedCalls does on host memory. On GPUs there is the budget's codec, or none.
void Explainer::ask_automatic_mode(Explanation* explanation) {
  Calibration calibration{links_.between, {}, links_.inside};
  for (const CodecSpeed& codec : explanation->codecs) {
    const std::string objection = objection_to(codec, explanation->shape.bytes);
    if (objection.empty()) {
      calibration.codecs.push_back(codec);
    } else {
      explanation->objections[codec.codec] = objection;
    }
  }
  if (!is_on_host(settings_) || !explanation->decided.algorithm.empty()) return;
  CallShape shape = explanation->shape;
  shape.kind = CollectiveKind::kAllReduce;
  const Result<std::vector<Candidate>> found = tuner::find_candidates(shape, calibration);
  if (!found.is_ok()) throw terminal::Error(found.status().message());
  note_scales(shape, calibration, found.value(), explanation);
  for (const Candidate& candidate : found.value()) {
    const Choice& choice = candidate.choice;
    explanation->tried.emplace(calibration.codecs[choice.codec].codec, choice.algorithm);
  }
}

/// Whether the quickest codec's calls have coordinate scales.
void Explainer::note_scales(const CallShape& shape, const Calibration& calibration,
                            const std::vector<Candidate>& candidates, Explanation* explanation) {
  const auto lossy = std::find_if(candidates.begin(), candidates.end(),
                                  [](const Candidate& one) { return !one.choice.is_exact(); });
  const bool is_open = settings_.feedback == FeedbackChoice::kAuto &&
                       nccl_plugin::CoordinateScales::may_be_wanted(settings_);
  if (lossy == candidates.end() || !is_open) return;
  const std::string& codec = calibration.codecs[lossy->choice.codec].codec;
  if (nccl_plugin::may_have_scales(settings_, codec) != nccl_plugin::ScalesAnswer::kYes) return;
  const Result<bool> are_cheap = tuner::are_scales_cheap(shape, calibration, lossy->choice);
  if (!are_cheap.is_ok()) throw terminal::Error(are_cheap.status().message());
  explanation->decided.notes.push_back(
      are_cheap.value() ? "RINGPRESS_EF=auto: where that loses less, such calls by " + codec +
                              " have coordinate scales, as they take hardly longer"
                        : "RINGPRESS_EF=auto: such calls by " + codec +
                              " have no coordinate scales, as they would take clearly longer");
}

std::string Explainer::objection_to(const CodecSpeed& codec, std::size_t bytes) {
  if (codec.codec == "none") return "";
  if (!saves_bytes(codec, bytes)) return "sends no fewer bytes";
  if (codec.codec == budget_) return "";
  const auto [known, is_new] = excess_.try_emplace(codec.codec, 0);
  if (is_new) {
    const auto errors_of = [this](const std::string& name) {
      Result<std::vector<double>> errors = nccl_plugin::tuning::measure_errors(name, dtype_);
      if (!errors.is_ok()) throw terminal::Error(name + ": " + errors.status().message());
      return std::move(errors).value();
    };
    known->second = nccl_plugin::tuning::find_excess(errors_of(codec.codec), errors_of(budget_));
  }
  if (known->second > 0) return "above the error of " + budget_;
  return is_on_host(settings_) ? "" : "on GPUs auto takes " + budget_ + " or none";
}

CodecSpeed Explainer::speed(const std::string& codec, std::size_t bytes) {
  const ValuesIn where = bytes > kLargestInCache ? ValuesIn::kMemory : ValuesIn::kCache;
  const auto known = measured_.find({codec, where});
  if (known != measured_.end()) return known->second;
  const CodecSpeed speed = measure(codec, dtype_, shape_, where);
  return measured_.emplace(std::pair(codec, where), speed).first->second;
}

DType parse_dtype(const std::string& name) {
  for (const DType dtype : kCompressibleTypes) {
    if (name == dtype_name(dtype)) return dtype;
  }
  throw terminal::Error("\"" + name +
                        "\" is no type that is compressed: float32, float16 or bfloat16");
}

}  // namespace ringpress::nccl_plugin::command
