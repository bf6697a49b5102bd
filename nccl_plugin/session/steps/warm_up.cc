#include "nccl_plugin/session/steps/warm_up.h"

#include <algorithm>
#include <sstream>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "ringpress/internal/codec.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr char kBetween = ';';  // Codecs of RINGPRESS_WARMUP_CODECS.

bool is_lossy(const std::string& codec) {
  const auto made = compress_kernels::make_codec(codec, DType::kFloat32, ReduceOp::kSum);
  return made.is_ok() && !made.value()->traits().lossless;
}

}  // namespace

std::vector<std::string> warm_up_codecs(const CallSettings& settings) {
  std::vector<std::string> codecs;
  std::istringstream text(settings.warm_up_codecs);
  for (std::string codec; std::getline(text, codec, kBetween);) codecs.push_back(codec);
  if (codecs.empty()) codecs.emplace_back(kNoCodec);
  return codecs;
}

Status check_warm_up(const CallSettings& settings) {
  for (const std::string& codec : warm_up_codecs(settings)) {
    if (is_no_codec(codec)) continue;
    const Status status = compress_kernels::normalize_specification(codec).status();
    if (status.is_ok()) continue;
    return {status.code(),
            "RINGPRESS_WARMUP_CODECS=" + settings.warm_up_codecs + ": " + status.message()};
  }
  return Status::ok();
}

WarmUpPlan plan_warm_up(const CallSettings& settings, const std::string& codec) {
  WarmUpPlan plan;
  const std::size_t steps = settings.warm_up_steps.steps.value_or(0);
  if (steps == 0 || settings.mode != Mode::kOn || !is_lossy(codec)) return plan;
  plan.steps = steps;
  plan.codecs = warm_up_codecs(settings);
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

std::optional<WarmUpCall> WarmUp::at(std::size_t step, std::string_view codec) const {
  const auto found = plans_.find(codec);
  if (found == plans_.end()) return std::nullopt;
  const WarmUpPlan& plan = found->second;
  if (step >= plan.steps) return std::nullopt;
  // In doubles, as a number of steps may be very large.
  const double share = static_cast<double>(step) / static_cast<double>(plan.steps);
  const auto stage = static_cast<std::size_t>(share * static_cast<double>(plan.codecs.size()));
  return WarmUpCall{plan.codecs[std::min(stage, plan.codecs.size() - 1)], plan.steps};
}

}  // namespace ringpress::nccl_plugin
