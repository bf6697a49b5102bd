// The one line that a job says when it starts: what becomes of its gradients, and how to change it.
#ifndef NCCL_PLUGIN_SESSION_START_LINE_H_
#define NCCL_PLUGIN_SESSION_START_LINE_H_

#include <string>

#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

/// Of a communicator of so many ranks, on one host or several. `what`: the word for ranks.
std::string describe_start(const CallSettings& settings, int ranks, bool crosses_hosts,
                           const char* what = "ranks");

/// Says that at the first communicator of this process of which this is rank 0 and not the only
/// one, unless RINGPRESS=off or warnings are not wanted.
void say_start(const CallSettings& settings, int rank, int ranks, bool crosses_hosts,
               const char* what = "ranks");

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_START_LINE_H_
