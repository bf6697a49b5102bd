#include "nccl_plugin/session/calls/comm_shape.h"

#include <set>

#include "compress_kernels/factory.h"

namespace ringpress::nccl_plugin {

CommShape comm_shape_of(const Settings& settings, std::span<const int> hosts) {
  const std::set<int> different(hosts.begin(), hosts.end());
  CommShape comm;
  comm.world = comm.comm_ranks = static_cast<int>(hosts.size());
  comm.comm_nodes = static_cast<int>(different.size());
  comm.crosses_hosts = different.size() > 1;
  comm.all_reduces_only = compress_kernels::projects(usual_codec(settings));
  comm.may_gather = settings.all_gather;
  return comm;
}

}  // namespace ringpress::nccl_plugin
