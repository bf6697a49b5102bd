#include "nccl_plugin/session/steps/warm_up.h"

#include <algorithm>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "ringpress/internal/codec.h"

namespace ringpress::nccl_plugin {
namespace {

bool is_lossy(const std::string& codec) {
  const auto made = compress_kernels::make_codec(codec, DType::kFloat32, ReduceOp::kSum);
  return made.is_ok() && !made.value()->traits().lossless;
}

}  // namespace

WarmUpPlan plan_warm_up(const CallSettings& settings, const std::string& codec) {
  WarmUpPlan plan;
  const std::size_t steps = settings.warm_up_steps.steps.value_or(0);
  if (steps == 0 || settings.mode != Mode::kOn || !is_lossy(codec)) return plan;
  plan.steps = steps;
  plan.codecs = {std::string(kNoCodec)};
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

std::vector<std::string> WarmUp::codecs() const {
  std::vector<std::string> codecs;
  for (const auto& [codec, plan] : plans_) {
    for (const std::string& own : plan.codecs) {
      const bool is_new = std::find(codecs.begin(), codecs.end(), own) == codecs.end();
      if (is_new && !is_no_codec(own)) codecs.push_back(own);
    }
  }
  return codecs;
}

}  // namespace ringpress::nccl_plugin
