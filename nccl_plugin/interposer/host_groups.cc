#include "nccl_plugin/interposer/host_groups.h"

#include <algorithm>
#include <cstddef>

namespace ringpress::nccl_plugin::interposer {
namespace {

ncclResult_t split_one(const ringpressRealNccl& real, const HostSplit& split, bool is_local) {
  const HostPosition& position = split.groups->position;
  if (is_local) {
    return real.CommSplit(split.whole, position.host, position.local_rank, &split.groups->local,
                          nullptr);
  }
  return real.CommSplit(split.whole, position.local_rank, position.host, &split.groups->cross,
                        nullptr);
}

}  // namespace

HostPosition find_position(const std::vector<int>& hosts, int rank) {
  HostPosition position;
  std::vector<int> order;  // Hosts by their first rank.
  std::vector<int> sizes;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    auto known = std::find(order.begin(), order.end(), hosts[r]);
    if (known == order.end()) {
      known = order.insert(order.end(), hosts[r]);
      sizes.push_back(0);
    }
    const auto host = static_cast<std::size_t>(known - order.begin());
    if (static_cast<int>(r) == rank) {
      position.host = static_cast<int>(host);
      position.local_rank = sizes[host];
    }
    ++sizes[host];
  }
  position.hosts = static_cast<int>(order.size());
  const bool alike =
      std::all_of(sizes.begin(), sizes.end(), [&](int size) { return size == sizes.front(); });
  position.local_size = alike && !sizes.empty() ? sizes.front() : 0;
  return position;
}

ncclResult_t split_hosts(const ringpressRealNccl& real, const std::vector<HostSplit>& splits) {
  for (const bool is_local : {true, false}) {
    ncclResult_t result = real.GroupStart();
    if (result != ncclSuccess) return result;
    for (const HostSplit& split : splits) {
      if (result == ncclSuccess) result = split_one(real, split, is_local);
    }
    const ncclResult_t ended = real.GroupEnd();
    if (result == ncclSuccess) result = ended;
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

}  // namespace ringpress::nccl_plugin::interposer
