// The host's half of NCCL's device API: teams and properties are answered, what needs a device is
// refused.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/export.h"
#include "ringpress/nccl_device.h"

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Code;
using ringpress::Status;

namespace {

// The struct of NCCL 2.28, the first, ends before what 2.29 has.
constexpr std::size_t kSmallestProperties = offsetof(ncclCommProperties_t, ginType);

Status query(const ncclComm& comm, ncclCommProperties_t* out) {
  if (out->magic != NCCL_API_MAGIC || out->size < kSmallestProperties) {
    return Status(
        Code::kInvalidUsage,
        "props does not start from NCCL_COMM_PROPERTIES_INITIALIZER: its size or magic is "
        "wrong");
  }
  ncclCommProperties_t found{};
  std::memcpy(&found, out, offsetof(ncclCommProperties_t, rank));
  found.rank = comm.rank();
  found.nRanks = comm.size();
  found.cudaDev = comm.traits().device;
  found.nvmlDev = -1;
  found.nLsaTeams = comm.size();
  found.hostRmaSupport = comm.traits().configuration.one_sided.contexts > 0;
  found.commHash = comm.hash();
  std::memcpy(out, &found, std::min(out->size, sizeof found));
  return Status::ok();
}

/// `make` gets a communicator whose rank and size are known. Without one: `nothing`.
template <typename Value, typename Make>
Value answer(const char* function, ncclComm_t comm, Value nothing, Make&& make) noexcept {
  Value value = nothing;
  static_cast<void>(firewall(function, comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_known_comm(comm));
    value = make(*live);
    return Status::ok();
  }));
  return value;
}

ncclTeam_t everybody(const ncclComm& comm) {
  return {comm.size(), comm.rank(), 1};
}
ncclTeam_t alone(const ncclComm&) {
  return {1, 0, 1};
}
constexpr ncclTeam_t kNobody{0, 0, 0};

/// `lacking` ends a sentence.
ncclResult_t refuse(const char* function, ncclComm_t comm, const char* lacking) noexcept {
  return firewall(function, comm, [&]() -> Status {
    if (comm != nullptr) RINGPRESS_RETURN_IF_ERROR(find_comm(comm).status());
    return Status(Code::kInvalidUsage,
                  std::string("this library works on host memory: there is no ") + lacking);
  });
}
constexpr const char* kDevice = "device that could communicate by itself";
constexpr const char* kPointer = "device, and no other rank's memory that it could address";
constexpr const char* kMulticast = "multicast memory";
constexpr const char* kRequirement = "device communicator that could have what this asks for";

}  // namespace

RINGPRESS_EXPORT ncclResult_t ncclCommQueryProperties(ncclComm_t comm,
                                                      ncclCommProperties_t* props) {
  return firewall("ncclCommQueryProperties", comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_known_comm(comm));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(props, "props"));
    return query(*live, props);
  });
}
RINGPRESS_PROFILING_NAME(CommQueryProperties);

RINGPRESS_EXPORT ncclTeam_t ncclTeamWorld(ncclComm_t comm) {
  return answer("ncclTeamWorld", comm, kNobody, everybody);
}
RINGPRESS_PROFILING_NAME(TeamWorld);

RINGPRESS_EXPORT ncclTeam_t ncclTeamLsa(ncclComm_t comm) {
  return answer("ncclTeamLsa", comm, kNobody, alone);
}
RINGPRESS_PROFILING_NAME(TeamLsa);

RINGPRESS_EXPORT ncclTeam_t ncclTeamRail(ncclComm_t comm) {
  return answer("ncclTeamRail", comm, kNobody, everybody);
}
RINGPRESS_PROFILING_NAME(TeamRail);

RINGPRESS_EXPORT ncclTeam_t ncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t) {
  return answer("ncclTeamCft", comm, kNobody, alone);
}
RINGPRESS_PROFILING_NAME(TeamCft);

RINGPRESS_EXPORT ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm) {
  return answer("ncclTeamCftMultimem", comm, kNobody, alone);
}
RINGPRESS_PROFILING_NAME(TeamCftMultimem);

RINGPRESS_EXPORT int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return answer("ncclTeamRankToWorld", comm, -1, [&](const ncclComm& live) {
    return live.rank() + (rank - team.rank) * team.stride;
  });
}
RINGPRESS_PROFILING_NAME(TeamRankToWorld);

RINGPRESS_EXPORT int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank) {
  return answer("ncclTeamRankToLsa", comm, -1,
                [&](const ncclComm&) { return (rank - team.rank) * team.stride; });
}
RINGPRESS_PROFILING_NAME(TeamRankToLsa);

RINGPRESS_EXPORT int ncclLLA2ACalcSlots(int maxElts, int maxEltSize) {
  constexpr int kSlotBytes = 8;
  return maxElts * ((maxEltSize + kSlotBytes - 1) / kSlotBytes);
}
RINGPRESS_PROFILING_NAME(LLA2ACalcSlots);

RINGPRESS_EXPORT ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t*,
                                                ncclDevComm_t*) {
  return refuse("ncclDevCommCreate", comm, kDevice);
}
RINGPRESS_PROFILING_NAME(DevCommCreate);

RINGPRESS_EXPORT ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t*) {
  return refuse("ncclDevCommDestroy", comm, kDevice);
}
RINGPRESS_PROFILING_NAME(DevCommDestroy);

RINGPRESS_EXPORT ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t, size_t, void**) {
  return refuse("ncclGetLsaMultimemDevicePointer", nullptr, kMulticast);
}
RINGPRESS_PROFILING_NAME(GetLsaMultimemDevicePointer);

RINGPRESS_EXPORT ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t, size_t,
                                                           ncclMultimemHandle_t, void**) {
  return refuse("ncclGetMultimemDevicePointer", nullptr, kMulticast);
}
RINGPRESS_PROFILING_NAME(GetMultimemDevicePointer);

RINGPRESS_EXPORT ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t, size_t, int, void**) {
  return refuse("ncclGetLsaDevicePointer", nullptr, kPointer);
}
RINGPRESS_PROFILING_NAME(GetLsaDevicePointer);

RINGPRESS_EXPORT ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t, size_t, int, void**) {
  return refuse("ncclGetPeerDevicePointer", nullptr, kPointer);
}
RINGPRESS_PROFILING_NAME(GetPeerDevicePointer);

RINGPRESS_EXPORT ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t, size_t, ncclCftLeId*,
                                                          size_t*) {
  return refuse("ncclGetMultimemDeviceLeInfo", nullptr, kMulticast);
}
RINGPRESS_PROFILING_NAME(GetMultimemDeviceLeInfo);

RINGPRESS_EXPORT ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t, size_t, int, ncclTeam_t,
                                                     ncclCftLeId*, size_t*) {
  return refuse("ncclGetCftDeviceLeInfo", nullptr, kPointer);
}
RINGPRESS_PROFILING_NAME(GetCftDeviceLeInfo);

RINGPRESS_EXPORT ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t, size_t, int, ncclCftLeId*,
                                                      size_t*) {
  return refuse("ncclGetPeerDeviceLeInfo", nullptr, kPointer);
}
RINGPRESS_PROFILING_NAME(GetPeerDeviceLeInfo);

RINGPRESS_EXPORT ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t, int,
                                                              ncclLsaBarrierHandle_t*,
                                                              ncclDevResourceRequirements_t*) {
  return refuse("ncclLsaBarrierCreateRequirement", nullptr, kRequirement);
}
RINGPRESS_PROFILING_NAME(LsaBarrierCreateRequirement);

RINGPRESS_EXPORT ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t, int,
                                                              ncclGinBarrierHandle_t*,
                                                              ncclDevResourceRequirements_t*) {
  return refuse("ncclGinBarrierCreateRequirement", comm, kRequirement);
}
RINGPRESS_PROFILING_NAME(GinBarrierCreateRequirement);

RINGPRESS_EXPORT ncclResult_t ncclLLA2ACreateRequirement(int, int, ncclLLA2AHandle_t*,
                                                         ncclDevResourceRequirements_t*) {
  return refuse("ncclLLA2ACreateRequirement", nullptr, kRequirement);
}
RINGPRESS_PROFILING_NAME(LLA2ACreateRequirement);

RINGPRESS_EXPORT ncclResult_t ncclGinOutboxCreateRequirement(int, int, ncclGinOutboxHandle*,
                                                             ncclDevResourceRequirements_t*) {
  return refuse("ncclGinOutboxCreateRequirement", nullptr, kRequirement);
}
RINGPRESS_PROFILING_NAME(GinOutboxCreateRequirement);

RINGPRESS_EXPORT ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t, int, int,
                                                               ncclGinInboxA2AHandle*,
                                                               ncclDevResourceRequirements_t*) {
  return refuse("ncclGinInboxA2ACreateRequirement", nullptr, kRequirement);
}
RINGPRESS_PROFILING_NAME(GinInboxA2ACreateRequirement);
