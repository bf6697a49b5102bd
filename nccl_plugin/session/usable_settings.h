// What the making of a communicator asks of its settings. The doors ask it, and `ringpress params`
// and `ringpress doctor` before a job: what one refuses the other does, in the same words.
#ifndef NCCL_PLUGIN_SESSION_USABLE_SETTINGS_H_
#define NCCL_PLUGIN_SESSION_USABLE_SETTINGS_H_

#include <string>
#include <vector>

#include "nccl_plugin/session/ring_topology.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// What every door asks: check_settings(), and that codecs, RINGPRESS_BUDGET and RINGPRESS_RULES
/// can be used.
Status check_values(const Settings& settings);

/// What a session asks, on host memory and in the plugin: check_values(), the backend, and what
/// RINGPRESS_TOPOLOGY names.
Status check_session(const Settings& settings, const RingTopology& topology);

/// All that a rank on host memory can be refused before it meets others: check_session(), the
/// interfaces that it may use, NCCL_COMM_ID, and its host's place in RINGPRESS_TOPOLOGY.
Status check_host_rank(const Settings& settings);

/// The same with what streams of a device take for each codec: what ranks compare, plan with and
/// report there is what is in use.
Settings in_streams(Settings settings);

/// What is no more than a warning: files that cannot be written, what is ignored or not to be had,
/// and what does not go together.
std::vector<Status> find_shortcomings(const Settings& settings);
/// What matters to some programs only; they are warned where they do it.
std::vector<std::string> find_notes(const Settings& settings);
/// Those of a communicator that has been made, once each.
void warn_of_shortcomings(const Settings& settings, int rank);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_USABLE_SETTINGS_H_
