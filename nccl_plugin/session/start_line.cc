#include "nccl_plugin/session/start_line.h"

#include <atomic>
#include <memory>

#include "nccl_plugin/session/calls/comm_shape.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "nccl_plugin/session/settings/budget_error.h"
#include "ringpress/internal/decision.h"
#include "ringpress/internal/log.h"
#include "ringpress/internal/planner.h"
#include "ringpress/version.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin {
namespace {

std::string describe_exact(const WhyExact& why) {
  if (why.reason == ExactReason::kOneHost) {
    return "nothing is compressed, as calls within a host are left exact (RINGPRESS_CODEC=q4 "
           "compresses them)";
  }
  return "nothing is compressed: " + to_text(why);
}

std::string describe_lossy(const CallSettings& settings, const std::string& codec) {
  const bool is_auto = settings.codec.is_automatic();
  const std::string what =
      is_auto ? "gradients between hosts lose up to what " + codec + " loses, where that is quicker"
              : "large sums lose what " + codec + " loses";
  constexpr const char* kLoseNothing = "RINGPRESS=lossless or off loses nothing)";
  const std::string_view less = codec_that_loses_less(codec);
  if (less == kLosslessCodec) return what + " (" + kLoseNothing;
  const std::string setting = is_auto ? "RINGPRESS_BUDGET=" : "RINGPRESS_CODEC=";
  return what + " (" + setting + std::string(less) + " loses less, " + kLoseNothing;
}

std::string describe(const CallSettings& settings, const Decision& decision) {
  if (decision.is_exact()) return describe_exact(decision.why);
  if (decision.codec == kLosslessCodec) return "large sums are compressed without loss";
  return describe_lossy(settings, std::string(decision.codec));
}

/// What rules say otherwise, to follow a sentence; empty: nothing.
std::string describe_rules(const CallSettings& settings) {
  std::string codecs;
  for (const std::string& codec : rule_codecs(settings)) {
    codecs += (codecs.empty() ? "" : ", ") + codec;
  }
  return codecs.empty() ? "" : "; for some calls RINGPRESS_RULES names " + codecs;
}

}  // namespace

std::string describe_start(const CallSettings& settings, int ranks, bool crosses_hosts,
                           const char* what) {
  const std::string who = std::to_string(ranks) + " " + what + " on " +
                          (crosses_hosts ? "several hosts: " : "one host: ");
  switch (settings.mode) {
    case Mode::kOff:
      return who + "nothing is compressed: RINGPRESS=off";
    case Mode::kObserve:
      return who + "nothing is compressed: RINGPRESS=observe";
    case Mode::kLossless:
    case Mode::kOn:
      break;
  }
  CallSettings of_most_calls = settings;
  of_most_calls.rule_list.clear();
  const std::unique_ptr<Planner> planner = tuner::make_planner(of_most_calls);
  CommShape comm;
  comm.world = ranks;
  comm.crosses_hosts = crosses_hosts;
  const Decision decision = planner->plan(largest_request(comm));
  return who + describe(settings, decision) + describe_rules(settings);
}

void say_start(const CallSettings& settings, int rank, int ranks, bool crosses_hosts,
               const char* what) {
  static std::atomic<bool> has_said{false};
  if (rank != 0 || ranks < 2 || settings.mode == Mode::kOff) return;
  if (!log_enabled(LogLevel::kWarn) || has_said.exchange(true)) return;
  log_always(RINGPRESS_VERSION, "%s", describe_start(settings, ranks, crosses_hosts, what).c_str());
}

}  // namespace ringpress::nccl_plugin
