#include "nccl_plugin/session/live/said_decisions.h"

#include "ringpress/internal/algorithms.h"

namespace ringpress::nccl_plugin {
namespace {

// Kinds of calls; programs whose sizes never repeat are not followed to their end.
constexpr std::size_t kMostSaid = 256;

}  // namespace

void SaidDecisions::say_once(const WatchedCall& call, std::string_view codec,
                             const Decision& decision) {
  if (said_.size() >= kMostSaid) return;
  std::string text = std::string(collective_name(call.kind)) + " of " + std::to_string(call.count) +
                     " " + dtype_name(call.dtype) + ": " + std::string(codec) + " by " +
                     algorithm_name(decision.algorithm);
  const std::string why = to_text(decision.why);
  if (!why.empty()) text += ", as " + why;
  if (said_.insert(text).second) log_line(LogLevel::kInfo, "%s", text.c_str());
}

}  // namespace ringpress::nccl_plugin
