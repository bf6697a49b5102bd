#include "nccl_plugin/session/calls/comm_shape.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "compress_kernels/factory.h"
#include "ringpress/internal/decision.h"
#include "tuner/factory.h"

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

CommShape stream_shape_of(const Settings& settings, std::span<const int> hosts) {
  CommShape comm = comm_shape_of(settings, hosts);
  comm.in_streams = true;
  std::map<int, int> ranks;
  for (const int host : hosts) ++ranks[host];
  const bool are_equal = std::all_of(ranks.begin(), ranks.end(), [&ranks](const auto& host) {
    return host.second == ranks.begin()->second;
  });
  if (are_equal && !ranks.empty()) comm.ranks_per_host = ranks.begin()->second;
  return comm;
}

bool wants_host_groups(const Settings& settings, const CommShape& comm) {
  CallSettings without_rules = settings;
  without_rules.rule_list.clear();
  const std::unique_ptr<Planner> planner = tuner::make_planner(without_rules);
  const Decision decision = planner->plan(largest_request(comm));
  // What is projected is small between hosts and inside them.
  return !decision.is_exact() && traits_of(decision.algorithm).is_hierarchical &&
         !compress_kernels::projects(std::string(decision.codec));
}

}  // namespace ringpress::nccl_plugin
