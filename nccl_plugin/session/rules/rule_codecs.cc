#include "nccl_plugin/session/rules/rule_codecs.h"

#include <algorithm>

#include "compress_kernels/factory.h"
#include "ringpress/internal/decision.h"

namespace ringpress::nccl_plugin {

Status check_rules(const Settings& settings) {
  for (const Rule& rule : settings.rule_list) {
    if (rule.codec.empty()) continue;
    Status status = compress_kernels::normalize_specification(rule.codec).status();
    if (status.is_ok() && compress_kernels::projects(rule.codec)) {
      status = {Code::kInvalidArgument, "\"" + rule.codec +
                                            "\" looks at whole tensors and cannot be one of "
                                            "several; allowed: other codecs, or RINGPRESS_CODEC"};
    }
    if (status.is_ok()) continue;
    return {Code::kInvalidArgument, "RINGPRESS_RULES=" + settings.rules + ": line " +
                                        std::to_string(rule.line) + ", codec: " + status.message()};
  }
  return Status::ok();
}

std::vector<std::string> rule_codecs(const CallSettings& settings) {
  std::vector<std::string> codecs;
  if (!compresses(settings.mode)) return codecs;
  const std::string lossless(kLosslessCodec);
  for (const Rule& rule : settings.rule_list) {
    if (rule.codec.empty() || rule.denies()) continue;
    const std::string& codec = settings.mode == Mode::kOn ? rule.codec : lossless;
    if (std::find(codecs.begin(), codecs.end(), codec) == codecs.end()) codecs.push_back(codec);
  }
  return codecs;
}

}  // namespace ringpress::nccl_plugin
