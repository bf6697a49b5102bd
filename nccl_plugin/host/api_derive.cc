// Entry points that make a communicator from another one.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/configuration.h"
#include "nccl_plugin/host/derived.h"
#include "nccl_plugin/host/group.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/export.h"
#include "ringpress/internal/log.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {
namespace {

/// A communicator and where its ranks met.
struct Split {
  std::unique_ptr<Communicator> communicator;
  UniqueId id{};
};

/// Those of the same color, ordered by key, then rank. A negative color gives null. Collective.
Result<Split> split_ranks(Communicator& parent, int color, int key, const Settings& settings) {
  struct Choice {
    std::int32_t color, key;
  };
  const Choice own{color, key};
  std::vector<Choice> choices(static_cast<std::size_t>(parent.size()));
  RINGPRESS_RETURN_IF_ERROR(parent.all_gather(&own, choices.data(), sizeof own, DType::kInt8));
  std::vector<int> members;  // Ranks of the parent, in the order of the new one.
  for (int peer = 0; peer < parent.size(); ++peer) {
    if (color >= 0 && choices[static_cast<std::size_t>(peer)].color == color) {
      members.push_back(peer);
    }
  }
  std::stable_sort(members.begin(), members.end(), [&choices](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  UniqueId id{};
  Status opened = Status::ok();
  if (!members.empty() && members.front() == parent.rank()) {
    auto made = make_unique_id(settings);
    if (made.is_ok()) id = made.value();
    opened = made.status();
  }
  std::vector<UniqueId> ids(static_cast<std::size_t>(parent.size()));
  RINGPRESS_RETURN_IF_ERROR(parent.all_gather(id.data(), ids.data(), sizeof id, DType::kInt8));
  if (members.empty()) return Split{};
  RINGPRESS_RETURN_IF_ERROR(opened);
  const auto leader = static_cast<std::size_t>(members.front());
  if (ids[leader] == UniqueId{}) {
    return Status(Code::kSystem, "rank " + std::to_string(leader) + ", which leads color " +
                                     std::to_string(color) + ", could not open a socket");
  }
  const auto place = std::find(members.begin(), members.end(), parent.rank()) - members.begin();
  Split split;
  split.id = ids[leader];
  RINGPRESS_ASSIGN_OR_RETURN(split.communicator,
                             Communicator::create(split.id, static_cast<int>(place),
                                                  static_cast<int>(members.size()), settings));
  return split;
}

Status split(ncclComm_t handle, int color, int key, ncclComm_t* out, const ncclConfig_t* config) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> parent, find_ready_comm(handle));
  RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "newcomm"));
  *out = nullptr;
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return Status(Code::kInvalidArgument, "color is " + std::to_string(color) +
                                              ", but must be 0 or more or NCCL_SPLIT_NOCOLOR");
  }
  Settings settings = settings_for_init();
  std::shared_ptr<ncclComm> child;
  if (color != NCCL_SPLIT_NOCOLOR) {
    RINGPRESS_ASSIGN_OR_RETURN(child, make_child(*parent, config));
    *out = child.get();
    settings.comm_name = child->traits().name();
  }
  const auto run = [parent, child, color, key, settings = std::move(settings)]() -> Status {
    return parent->run([&](Communicator& communicator) -> Status {
      auto made = split_ranks(communicator, color, key, settings);
      if (!made.is_ok()) return logged("ncclCommSplit", made.status());
      if (child == nullptr) return Status::ok();
      return child->attach(std::move(made.value().communicator), made.value().id);
    });
  };
  return submit_setup(parent, {child, out, run});
}

/// The ranks of a communicator that a shrink keeps, in order.
Result<std::vector<int>> surviving_ranks(const ncclComm& comm, const int* excluded, int count) {
  std::vector<bool> keep(static_cast<std::size_t>(comm.size()), true);
  for (int i = 0; i < count; ++i) {
    RINGPRESS_RETURN_IF_ERROR(check_rank(excluded[i], comm.size(), "a rank of excludeRanksList"));
    if (excluded[i] == comm.rank()) {
      return Status(Code::kInvalidArgument, "excludeRanksList has the calling rank " +
                                                std::to_string(comm.rank()) +
                                                "; only the ranks that stay may call");
    }
    keep[static_cast<std::size_t>(excluded[i])] = false;
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (keep[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

/// Brings the id that the first of `ranks` makes to the others. Only `ranks` take part.
Result<UniqueId> agree_on_id(Communicator& communicator, const std::vector<int>& ranks,
                             const Settings& settings) {
  UniqueId id{};
  std::vector<Transfer> transfers;
  const int leader = ranks.front();
  if (communicator.rank() == leader) {
    RINGPRESS_ASSIGN_OR_RETURN(id, make_unique_id(settings));
    for (const int rank : ranks) {
      if (rank != leader) transfers.push_back({true, id.data(), id.size(), DType::kUint8, rank});
    }
  } else {
    transfers.push_back({false, id.data(), id.size(), DType::kUint8, leader});
  }
  if (!transfers.empty()) RINGPRESS_RETURN_IF_ERROR(communicator.exchange(transfers));
  return id;
}

/// The arguments of ncclCommShrink().
struct Shrink {
  const int* excluded = nullptr;
  int excluded_count = 0;
  int flags = NCCL_SHRINK_DEFAULT;
};

Status check_shrink(const Shrink& shrink) {
  if (shrink.excluded_count < 1) {
    return Status(Code::kInvalidArgument, "excludeRanksCount is " +
                                              std::to_string(shrink.excluded_count) +
                                              ", but must be at least 1");
  }
  RINGPRESS_RETURN_IF_ERROR(check_pointer(shrink.excluded, "excludeRanksList"));
  if (shrink.flags == NCCL_SHRINK_DEFAULT || shrink.flags == NCCL_SHRINK_ABORT) {
    return Status::ok();
  }
  return Status(Code::kInvalidArgument, "shrinkFlags is " + std::to_string(shrink.flags) +
                                            ", but must be NCCL_SHRINK_DEFAULT or "
                                            "NCCL_SHRINK_ABORT");
}

/// Where the ranks that stay meet. A parent that was revoked has no connections any more.
Result<UniqueId> shrunk_id(ncclComm& parent, bool is_revoked, const std::vector<int>& ranks,
                           const Settings& settings) {
  if (is_revoked) return parent.survivors_id(ranks);
  UniqueId id{};
  RINGPRESS_RETURN_IF_ERROR(parent.run([&](Communicator& communicator) -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(id, agree_on_id(communicator, ranks, settings));
    return Status::ok();
  }));
  return id;
}

Status shrink(ncclComm_t handle, const Shrink& request, ncclComm_t* out,
              const ncclConfig_t* config) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> parent, find_comm(handle));
  const bool aborting = request.flags == NCCL_SHRINK_ABORT;
  RINGPRESS_RETURN_IF_ERROR(parent->life().check_parent(aborting));
  RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "newcomm"));
  *out = nullptr;
  RINGPRESS_RETURN_IF_ERROR(check_shrink(request));
  RINGPRESS_ASSIGN_OR_RETURN(const std::vector<int> ranks,
                             surviving_ranks(*parent, request.excluded, request.excluded_count));
  RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> child, make_child(*parent, config));
  Settings settings = settings_for_init(child->traits().name());
  *out = child.get();
  // Calls that have not left it by now end by themselves.
  if (aborting) static_cast<void>(parent->revoke());
  const bool is_revoked = parent->life().is_revoked();
  const auto run = [parent, child, ranks, is_revoked, settings = std::move(settings)]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const UniqueId id, shrunk_id(*parent, is_revoked, ranks, settings));
    const auto place = std::find(ranks.begin(), ranks.end(), parent->rank()) - ranks.begin();
    auto made =
        Communicator::create(id, static_cast<int>(place), static_cast<int>(ranks.size()), settings);
    if (!made.is_ok()) return logged("ncclCommShrink", made.status());
    RINGPRESS_RETURN_IF_ERROR(inherit(*parent, *made.value()));
    return child->attach(std::move(made).value(), id);
  };
  return submit_setup(parent, {child, out, run});
}

}  // namespace
}  // namespace ringpress::nccl_plugin::host

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.

RINGPRESS_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
                                            ncclComm_t* newcomm, ncclConfig_t* config) {
  return group_firewall("ncclCommSplit", comm,
                        [&] { return split(comm, color, key, newcomm, config); });
}
RINGPRESS_PROFILING_NAME(CommSplit);

RINGPRESS_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList,
                                             int excludeRanksCount, ncclComm_t* newcomm,
                                             ncclConfig_t* config, int shrinkFlags) {
  return group_firewall("ncclCommShrink", comm, [&] {
    return shrink(comm, {excludeRanksList, excludeRanksCount, shrinkFlags}, newcomm, config);
  });
}
RINGPRESS_PROFILING_NAME(CommShrink);
