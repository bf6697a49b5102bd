// RINGPRESS_DEBUG=info: what was decided of each kind of call, once.
#ifndef NCCL_PLUGIN_SESSION_LIVE_SAID_DECISIONS_H_
#define NCCL_PLUGIN_SESSION_LIVE_SAID_DECISIONS_H_

#include <set>
#include <string>
#include <string_view>

#include "nccl_plugin/session/live/call_watch.h"
#include "ringpress/internal/decision.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {

/// Of one communicator. One thread at a time.
class SaidDecisions {
 public:
  /// Of a call that has ended, with that codec. Costs hardly anything where nobody wants to know.
  void say(const WatchedCall& call, std::string_view codec, const Decision& decision) {
    if (log_enabled(LogLevel::kInfo)) say_once(call, codec, decision);
  }

 private:
  void say_once(const WatchedCall& call, std::string_view codec, const Decision& decision);

  std::set<std::string> said_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_SAID_DECISIONS_H_
