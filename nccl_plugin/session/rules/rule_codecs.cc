#include "nccl_plugin/session/rules/rule_codecs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "ringpress/internal/decision.h"
#include "ringpress/internal/planner.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr int kNoRuleSays = std::numeric_limits<int>::max();
constexpr std::size_t kLarge = std::size_t{1} << 40;

/// A name that such a pattern matches, and others only if they match whatever it does.
std::string name_for(const std::string& pattern) {
  std::string name;
  for (const char c : pattern) name += c == '*' ? "\1\1\1" : std::string(1, c == '?' ? '\1' : c);
  return name;
}

/// Of calls that a rule is for, up to the last one that other rules may be for, too: between these
/// nothing changes.
std::vector<std::size_t> sizes_of(const Rule& rule, const Settings& settings) {
  std::vector<std::size_t> sizes = {rule.min_bytes, settings.minimum_bytes, kLarge};
  for (const Rule& other : settings.rule_list) {
    if (other.max_bytes < rule.max_bytes) sizes.push_back(other.max_bytes + 1);
  }
  std::erase_if(sizes, [&rule](std::size_t bytes) {
    return bytes < rule.min_bytes || bytes > rule.max_bytes;
  });
  return sizes;
}

/// Of each sort of calls of that kind that a rule is for.
std::vector<PlanRequest> requests_for(const Rule& rule, const Settings& settings,
                                      CollectiveKind kind) {
  constexpr std::array kTwoHosts = {0, 1};
  CommShape comm = comm_shape_of(settings, kTwoHosts);
  comm.comm_nodes = rule.nodes < 0 ? kNoRuleSays : rule.nodes;
  comm.comm_ranks = rule.ranks < 0 ? kNoRuleSays : rule.ranks;
  std::vector<PlanRequest> requests;
  for (const DType dtype : kCompressibleTypes) {
    for (const std::size_t bytes : sizes_of(rule, settings)) {
      const std::size_t size = dtype_size(dtype);
      requests.push_back(request_of(comm, kind, (bytes + size - 1) / size, dtype));
      requests.back().call_class = CallClass::kGradient;
    }
  }
  return requests;
}

}  // namespace

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
  if (settings.mode == Mode::kOff) return codecs;
  const std::string lossless(kLosslessCodec);
  for (const Rule& rule : settings.rule_list) {
    if (rule.codec.empty() || rule.denies()) continue;
    const std::string& codec = settings.mode == Mode::kLossless ? lossless : rule.codec;
    if (std::find(codecs.begin(), codecs.end(), codec) == codecs.end()) codecs.push_back(codec);
  }
  return codecs;
}

std::vector<GivenCodec> given_codecs(const Settings& settings, CollectiveKind kind) {
  std::vector<GivenCodec> given;
  std::vector<Rule> rules = settings.rule_list;
  rules.emplace_back();  // Of calls that no other is for.
  for (const Rule& rule : rules) {
    CallSettings named = settings;
    named.comm_name = name_for(rule.comm_match);
    const std::unique_ptr<Planner> planner = tuner::make_planner(named);
    for (const PlanRequest& request : requests_for(rule, settings, kind)) {
      const Decision decision = planner->plan(request);
      const bool is_known = std::any_of(given.begin(), given.end(), [&](const GivenCodec& known) {
        return known.codec == decision.codec;
      });
      if (decision.is_exact() || is_known) continue;
      given.push_back(
          {std::string(decision.codec), decision.error_feedback, decision.codec_origin});
    }
  }
  return given;
}

}  // namespace ringpress::nccl_plugin
