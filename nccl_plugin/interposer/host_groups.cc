#include "nccl_plugin/interposer/host_groups.h"

#include <algorithm>
#include <cstddef>

namespace ringpress::nccl_plugin::interposer {
namespace {

ncclResult_t split_one(const ringpressRealNccl& real, const HostSplit& split, bool is_local) {
  const HostPlace& place = split.groups->place;
  if (is_local) {
    return real.CommSplit(split.whole, place.host, place.local_rank, &split.groups->local, nullptr);
  }
  return real.CommSplit(split.whole, place.local_rank, place.host, &split.groups->cross, nullptr);
}

}  // namespace

HostPlace find_place(const std::vector<int>& hosts, int rank) {
  HostPlace place;
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
      place.host = static_cast<int>(host);
      place.local_rank = sizes[host];
    }
    ++sizes[host];
  }
  place.hosts = static_cast<int>(order.size());
  const bool alike =
      std::all_of(sizes.begin(), sizes.end(), [&](int size) { return size == sizes.front(); });
  place.local_size = alike && !sizes.empty() ? sizes.front() : 0;
  return place;
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
