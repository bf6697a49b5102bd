// For `hier`: the ranks of one host, and the ranks with one number on all hosts, as communicators
// of the real NCCL.
#ifndef NCCL_PLUGIN_INTERPOSER_HOST_GROUPS_H_
#define NCCL_PLUGIN_INTERPOSER_HOST_GROUPS_H_

#include <vector>

#include "nccl_plugin/preload/engine.h"

namespace ringpress::nccl_plugin::interposer {

/// Where a rank is among hosts that all have the same number of ranks.
struct HostPosition {
  int hosts = 0;
  int host = 0;        // In the order of the hosts' first ranks.
  int local_size = 0;  // Ranks of each host; 0: hosts have different numbers of them.
  int local_rank = 0;
};

/// `hosts`: by rank, the number of its host.
HostPosition find_position(const std::vector<int>& hosts, int rank);

struct HostGroups {
  HostPosition position;
  ncclComm_t local = nullptr;  // Ranks of this host, by number.
  ncclComm_t cross = nullptr;  // Ranks with this number, by host.

  bool exist() const { return local != nullptr && cross != nullptr; }
  /// Ends both. `end`: ncclCommDestroy or ncclCommAbort.
  void end(decltype(ringpressRealNccl::CommDestroy) end_comm) {
    for (ncclComm_t* group : {&cross, &local}) {
      if (*group != nullptr) static_cast<void>(end_comm(*group));
      *group = nullptr;
    }
  }
};

/// A communicator that is to be split, and into what.
struct HostSplit {
  ncclComm_t whole = nullptr;
  HostGroups* groups = nullptr;  // With its position.
};

/// Splits all of them: the communicators that one group has made, whose ranks all call this.
ncclResult_t split_hosts(const ringpressRealNccl& real, const std::vector<HostSplit>& splits);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_HOST_GROUPS_H_
