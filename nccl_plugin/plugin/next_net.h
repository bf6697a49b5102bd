// RINGPRESS_NEXT_NET_PLUGIN: the network of another plugin in place of ours. A job has one network
// plugin, which brings CollNet and all point-to-point traffic together; a vendor's network must not
// be lost because ringpress brings CollNet.
//
// When this library is loaded, the tables of the next plugin are copied over ours, version by
// version: NCCL then calls that plugin itself, at no cost, and sees its name. Only init goes
// through us, to take NCCL's log along; and where devices can be merged, the two functions of that
// (merged_devices.h). A version that the next plugin lacks is
//   older than all that it has:  refused by init. NCCL could not have used that plugin either, and
//                                takes its own networks, as without us.
//   else:                        the version before it in a newer dress, as NCCL dresses the tables
//                                of older plugins itself. It would have looked for that version if
//                                we did not show a newer one.
#ifndef NCCL_PLUGIN_PLUGIN_NEXT_NET_H_
#define NCCL_PLUGIN_PLUGIN_NEXT_NET_H_

#include <vector>

#include "nccl_plugin/plugin/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::plugin {

/// Does the above if the setting names a plugin and none is in use yet. The library does so when it
/// is loaded; call it again after changing the environment, before NCCL looks for a network.
void adopt_next_net() noexcept;

/// True if the tables are those of the next plugin.
bool has_next_net();
/// Ok, or why the plugin that the setting names is not in use.
Status next_net_status();

/// The devices of the next plugin. Empty until NCCL has initialised it; from then on only those are
/// added that CollNet has merged, at the end. What was returned before stays valid.
const std::vector<Device>& next_net_devices();

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_NEXT_NET_H_
