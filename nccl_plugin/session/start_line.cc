#include "nccl_plugin/session/start_line.h"

#include <atomic>

#include "ringpress/internal/decision.h"
#include "ringpress/internal/log.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin {
namespace {

std::string describe_lossy(const CallSettings& settings) {
  const std::string codec = usual_codec(settings);
  if (is_no_codec(codec)) {
    return "nothing is compressed: " +
           to_text(WhyExact{
               settings.codec.is_automatic() ? ExactReason::kBudgetNone : ExactReason::kCodecNone,
               0,
               {}});
  }
  if (codec == kLosslessCodec) return "large sums are compressed without loss";
  const std::string what =
      settings.codec.is_automatic()
          ? "gradients between hosts lose up to what " + codec + " loses, where that is quicker"
          : "large sums lose what " + codec + " loses";
  const std::string setting =
      settings.codec.is_automatic() ? "RINGPRESS_BUDGET" : "RINGPRESS_CODEC";
  return what + " (" + setting + "=q8 loses less, RINGPRESS=lossless or off nothing)";
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
  if (settings.codec.is_automatic() && !crosses_hosts) {
    return who +
           "nothing is compressed, as calls within a host are left exact (RINGPRESS_CODEC=q4 "
           "compresses them)";
  }
  if (settings.mode == Mode::kLossless) return who + "large sums are compressed without loss";
  return who + describe_lossy(settings);
}

void say_start(const CallSettings& settings, int rank, int ranks, bool crosses_hosts,
               const char* what) {
  static std::atomic<bool> has_said{false};
  if (rank != 0 || ranks < 2 || settings.mode == Mode::kOff) return;
  if (!log_enabled(LogLevel::kWarn) || has_said.exchange(true)) return;
  log_always(RINGPRESS_VERSION, "%s", describe_start(settings, ranks, crosses_hosts, what).c_str());
}

}  // namespace ringpress::nccl_plugin
