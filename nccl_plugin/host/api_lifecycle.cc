// Entry points that make and end communicators.
#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/configuration.h"
#include "nccl_plugin/host/group.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/export.h"
#include "ringpress/internal/log.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(UniqueId));

/// One communicator to be joined.
struct Join {
  UniqueId id{};
  int rank = 0;
  int size = 1;
  int device = 0;
};

/// With NCCL_COMM_ID every rank may make the id by itself.
Result<UniqueId> find_id(const Settings& settings) {
  return settings.nccl.comm_id.empty() ? make_unique_id(settings) : known_unique_id(settings);
}

Status make_id(ncclUniqueId* out) {
  RINGPRESS_ASSIGN_OR_RETURN(const UniqueId id, find_id(settings_for_init()));
  std::memcpy(out, id.data(), sizeof *out);
  return Status::ok();
}

/// Makes the handle at once and submits the rest.
Status join(ncclComm_t* out, const Join& request, const Configuration& configuration) {
  Settings settings = settings_for_init(configuration.name);
  const auto comm = std::make_shared<ncclComm>(CommTraits{configuration, request.device});
  Registry::instance().add(comm);
  *out = comm.get();
  // The setup shares its communicator: an abort must not free it under the ranks' meeting.
  return submit_setup(
      comm, {comm, out, [comm, request, settings = std::move(settings)]() -> Status {
               auto made = Communicator::create(request.id, request.rank, request.size, settings);
               if (made.is_ok()) return comm->attach(std::move(made).value(), request.id);
               log_line(LogLevel::kError, "rank %d of %d: %s", request.rank, request.size,
                        made.status().message().c_str());
               return made.status();
             }});
}

Status init_rank(ncclComm_t* out, int size, const ncclUniqueId* id, int rank,
                 const ncclConfig_t* config) {
  RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "comm"));
  *out = nullptr;
  if (size < 1) {
    return Status(Code::kInvalidArgument,
                  "nranks is " + std::to_string(size) + ", but must be at least 1");
  }
  RINGPRESS_RETURN_IF_ERROR(check_rank(rank, size, "rank"));
  RINGPRESS_ASSIGN_OR_RETURN(const Configuration configuration, parse_configuration(config, {}));
  Join request{{}, rank, size, 0};
  std::memcpy(request.id.data(), id, request.id.size());
  return join(out, request, configuration);
}

Status check_devices(int count, const int* devices) {
  std::set<int> seen;
  for (int i = 0; devices != nullptr && i < count; ++i) {
    if (devices[i] < 0) {
      return Status(Code::kInvalidArgument,
                    "devlist[" + std::to_string(i) + "] is " + std::to_string(devices[i]));
    }
    if (!seen.insert(devices[i]).second) {
      return Status(Code::kInvalidUsage,
                    "devlist has device " + std::to_string(devices[i]) + " twice");
    }
  }
  return Status::ok();
}

/// As in NCCL: the end of one that does not block waits for nothing, and comes after what it does.
Status check_destroyable(ncclComm& comm) {
  return comm.async_status().code() == Code::kInProgress ? comm.life().check_ready() : Status::ok();
}

Status init_all(ncclComm_t* out, int count, const int* devices) {
  RINGPRESS_RETURN_IF_ERROR(check_pointer(out, "comm"));
  if (count < 1) {
    return Status(Code::kInvalidArgument,
                  "ndev is " + std::to_string(count) + ", but must be at least 1");
  }
  RINGPRESS_RETURN_IF_ERROR(check_devices(count, devices));
  std::fill(out, out + count, nullptr);
  ncclUniqueId id;
  RINGPRESS_RETURN_IF_ERROR(make_id(&id));
  group_start();
  for (int rank = 0; rank < count; ++rank) {
    Join request{{}, rank, count, devices == nullptr ? rank : devices[rank]};
    std::memcpy(request.id.data(), &id, request.id.size());
    const Status status = join(&out[rank], request, {});
    if (!status.is_ok()) group_note(status);
  }
  return group_end();
}

}  // namespace
}  // namespace ringpress::nccl_plugin::host

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Code;
using ringpress::Status;

RINGPRESS_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return firewall("ncclGetUniqueId", nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(uniqueId, "uniqueId"));
    return make_id(uniqueId);
  });
}
RINGPRESS_PROFILING_NAME(GetUniqueId);

RINGPRESS_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId,
                                               int rank) {
  return group_firewall("ncclCommInitRank", nullptr,
                        [&] { return init_rank(comm, nranks, &commId, rank, nullptr); });
}
RINGPRESS_PROFILING_NAME(CommInitRank);

RINGPRESS_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks,
                                                     ncclUniqueId commId, int rank,
                                                     ncclConfig_t* config) {
  return group_firewall("ncclCommInitRankConfig", nullptr,
                        [&] { return init_rank(comm, nranks, &commId, rank, config); });
}
RINGPRESS_PROFILING_NAME(CommInitRankConfig);

RINGPRESS_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank,
                                                       int nId, ncclUniqueId* commIds,
                                                       ncclConfig_t* config) {
  return group_firewall("ncclCommInitRankScalable", nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(commIds, "commIds"));
    if (nId < 1 || nId > nranks) {
      return Status(Code::kInvalidArgument, "nId is " + std::to_string(nId) +
                                                ", but must be from 1 to nranks, which is " +
                                                std::to_string(nranks));
    }
    // One meeting point serves every rank well; the others go unused.
    return init_rank(newcomm, nranks, &commIds[0], myrank, config);
  });
}
RINGPRESS_PROFILING_NAME(CommInitRankScalable);

RINGPRESS_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return group_firewall("ncclCommInitAll", nullptr, [&] { return init_all(comm, ndev, devlist); });
}
RINGPRESS_PROFILING_NAME(CommInitAll);

RINGPRESS_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return group_firewall("ncclCommFinalize", comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_ready_comm(comm));
    return submit_finalize(live);
  });
}
RINGPRESS_PROFILING_NAME(CommFinalize);

RINGPRESS_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return group_firewall("ncclCommDestroy", comm, [&]() -> Status {
    if (comm == nullptr) return Status::ok();  // As in NCCL.
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm(comm));
    if (!live->traits().blocking()) RINGPRESS_RETURN_IF_ERROR(check_destroyable(*live));
    return submit_destroy(live);
  });
}
RINGPRESS_PROFILING_NAME(CommDestroy);

RINGPRESS_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return firewall("ncclCommAbort", comm, [&]() -> Status {
    if (comm == nullptr) return Status::ok();  // As in NCCL.
    // The handle dies first: of two aborts one wins, and no new call gets in.
    const std::shared_ptr<ncclComm> live = Registry::instance().remove(comm);
    if (live == nullptr) return find_comm(comm).status();
    live->abort();
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(CommAbort);

RINGPRESS_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  return firewall("ncclCommRevoke", comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm(comm));
    if (revokeFlags != NCCL_REVOKE_DEFAULT) {
      return Status(Code::kInvalidArgument, "revokeFlags is " + std::to_string(revokeFlags) +
                                                ", but must be NCCL_REVOKE_DEFAULT");
    }
    return live->revoke();
  });
}
RINGPRESS_PROFILING_NAME(CommRevoke);
