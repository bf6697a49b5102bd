#include "nccl_plugin/session/steps/warm_up.h"

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/names.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr char kBetween = ';';  // Codecs of RINGPRESS_WARMUP_CODECS.

// Elements of a tensor by whose bytes codecs are told apart.
constexpr std::size_t kUsualElements = 1 << 16;

/// What a tensor of different magnitudes takes.
std::size_t encoded_bits(const Codec& codec) {
  if (codec.traits().fixed_size) return 8 * codec.wire_bytes(kUsualElements);
  std::vector<float> values(kUsualElements);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float magnitude = static_cast<float>(i * 40503 % kUsualElements);
    values[i] = i % 2 == 0 ? magnitude : -magnitude;
  }
  std::vector<std::byte> wire(codec.wire_bytes(values.size()));
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size();
  args.wire = wire.data();
  return 8 * codec.encode(args);
}

/// Null for what is no specification.
std::unique_ptr<Codec> codec_of(const std::string& specification) {
  auto made = compress_kernels::make_codec(specification, DType::kFloat32, ReduceOp::kSum);
  return made.is_ok() ? std::move(made).value() : nullptr;
}

/// Whether a comma is followed by another codec: it parts NAME=VALUE of one.
bool has_comma_between_codecs(const std::string& text) {
  for (std::size_t comma = text.find(','); comma != text.npos; comma = text.find(',', comma + 1)) {
    const std::string item = text.substr(comma + 1, text.find(',', comma + 1) - comma - 1);
    if (item.find('=') >= item.find(':')) return true;
  }
  return false;
}

/// To follow what is said of a text that is no codec.
std::string meant_by(const std::string& text) {
  if (has_comma_between_codecs(text)) return std::string("; codecs are parted by ") + kBetween;
  // What calls that are not to be compressed are called elsewhere.
  const bool is_exact = !near_name(text, {"exact"}).empty();
  return is_exact ? " (maybe " + std::string(kNoCodec) + "?)" : "";
}

}  // namespace

std::size_t warm_up_steps_of(const Codec& codec) {
  if (codec.traits().lossless) return 0;
  // perf/fidelity/findings.md#warm-up: of 300 steps.
  constexpr std::size_t kOfOneBit = 100;
  constexpr std::size_t kOfTwoBits = 30;
  constexpr std::size_t kOfThreeBits = 10;
  if (codec.projection() != nullptr) return kOfOneBit;
  const std::size_t bits = encoded_bits(codec);
  // Half a bit for scales and places.
  if (2 * bits <= 3 * kUsualElements) return kOfOneBit;
  if (2 * bits <= 5 * kUsualElements) return kOfTwoBits;
  if (2 * bits <= 7 * kUsualElements) return kOfThreeBits;
  return 0;
}

std::vector<std::string> warm_up_codecs(const CallSettings& settings) {
  std::vector<std::string> codecs;
  std::istringstream text(settings.warm_up_codecs);
  for (std::string codec; std::getline(text, codec, kBetween);) {
    const std::size_t begin = std::min(codec.find_first_not_of(' '), codec.size());
    codecs.push_back(codec.substr(begin, codec.find_last_not_of(' ') + 1 - begin));
  }
  if (codecs.empty()) codecs.emplace_back(kNoCodec);
  return codecs;
}

Status check_warm_up(const CallSettings& settings) {
  for (const std::string& codec : warm_up_codecs(settings)) {
    if (is_no_codec(codec)) continue;
    const Status status = compress_kernels::normalize_specification(codec).status();
    if (status.is_ok()) continue;
    return {status.code(), "RINGPRESS_WARMUP_CODECS=" + settings.warm_up_codecs + ": " +
                               status.message() + meant_by(codec)};
  }
  return Status::ok();
}

WarmUpPlan plan_warm_up(const CallSettings& settings, const std::string& codec) {
  WarmUpPlan plan;
  if (settings.mode != Mode::kOn) return plan;
  const std::unique_ptr<Codec> made = codec_of(codec);
  if (made == nullptr || made->traits().lossless) return plan;
  const std::optional<std::size_t>& asked = settings.warm_up_steps.steps;
  plan.is_by_codec = !asked.has_value();
  plan.steps = asked ? *asked : warm_up_steps_of(*made);
  if (plan.steps != 0) plan.codecs = warm_up_codecs(settings);
  return plan;
}

WarmUp::WarmUp(const CallSettings& settings) {
  std::vector<std::string> codecs = rule_codecs(settings);
  codecs.push_back(usual_codec(settings));
  for (const std::string& codec : codecs) {
    WarmUpPlan plan = plan_warm_up(settings, codec);
    steps_ = std::max(steps_, plan.steps);
    if (plan.steps != 0) plans_.emplace(codec, std::move(plan));
  }
}

std::optional<WarmUpCall> WarmUp::at(const TrainingStep& step, std::string_view codec) const {
  const auto found = plans_.find(codec);
  if (found == plans_.end()) return std::nullopt;
  const WarmUpPlan& plan = found->second;
  if (step.before >= plan.steps || (plan.is_by_codec && !step.is_known)) return std::nullopt;
  // In doubles, as a number of steps may be very large.
  const double share = static_cast<double>(step.before) / static_cast<double>(plan.steps);
  const auto stage = static_cast<std::size_t>(share * static_cast<double>(plan.codecs.size()));
  return WarmUpCall{plan.codecs[std::min(stage, plan.codecs.size() - 1)], plan.steps};
}

}  // namespace ringpress::nccl_plugin
