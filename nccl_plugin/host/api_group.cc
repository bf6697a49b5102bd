// Entry points of groups.
#include <cstddef>

#include "nccl_plugin/host/group.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/export.h"
#include "ringpress/nccl.h"

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Code;
using ringpress::Status;

namespace {

constexpr unsigned kSimulationMagic = 0x74685283;

Status check_simulation(const ncclSimInfo_t* info) {
  if (info == nullptr) return Status::ok();
  constexpr std::size_t kSmallestBytes = offsetof(ncclSimInfo_t, estimatedTime) + sizeof(float);
  if (info->magic == kSimulationMagic && info->size >= kSmallestBytes) return Status::ok();
  return Status(
      Code::kInvalidArgument,
      "simInfo does not start from NCCL_SIM_INFO_INITIALIZER: its size or magic is wrong");
}

}  // namespace

RINGPRESS_EXPORT ncclResult_t ncclGroupStart(void) {
  return firewall("ncclGroupStart", nullptr, []() -> Status {
    group_start();
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(GroupStart);

RINGPRESS_EXPORT ncclResult_t ncclGroupEnd(void) {
  return firewall("ncclGroupEnd", nullptr, group_end);
}
RINGPRESS_PROFILING_NAME(GroupEnd);

RINGPRESS_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  return firewall("ncclGroupSimulateEnd", nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(group_drop());  // Also where simInfo is wrong: the group must end.
    RINGPRESS_RETURN_IF_ERROR(check_simulation(simInfo));
    if (simInfo != nullptr) simInfo->estimatedTime = NCCL_UNDEF_FLOAT;
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(GroupSimulateEnd);
