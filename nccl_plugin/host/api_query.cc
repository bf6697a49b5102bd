// Entry points that answer questions: about the library, an error, a communicator.
#include <memory>

#include "nccl_plugin/host/arguments.h"
#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/log_output.h"
#include "nccl_plugin/host/registry.h"
#include "nccl_plugin/host/translate.h"
#include "ringpress/internal/export.h"
#include "ringpress/nccl.h"

using namespace ringpress::nccl_plugin::host;  // NOLINT: the entry points are in no namespace.
using ringpress::Status;
using ringpress::nccl_plugin::catch_all;
using ringpress::nccl_plugin::to_nccl_result;

namespace {

/// Writes what `query` says of a communicator whose rank and size are known.
template <typename Query>
ncclResult_t answer(const char* function, ncclComm_t comm, int* out, const char* out_name,
                    Query&& query) noexcept {
  return firewall(function, comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_known_comm(comm));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(out, out_name));
    *out = query(*live);
    return Status::ok();
  });
}

}  // namespace

RINGPRESS_EXPORT ncclResult_t ncclGetVersion(int* version) {
  return firewall("ncclGetVersion", nullptr, [&]() -> Status {
    RINGPRESS_RETURN_IF_ERROR(check_pointer(version, "version"));
    *version = NCCL_VERSION_CODE;
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(GetVersion);

RINGPRESS_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  // Not a switch over the enumeration: C code may pass any number.
  switch (enum_value(result)) {
    case ncclSuccess:
      return "success";
    case ncclUnhandledCudaError:
      return "a CUDA function failed";
    case ncclSystemError:
      return "the operating system refused something (see ncclGetLastError)";
    case ncclInternalError:
      return "internal error: a bug in the library (see ncclGetLastError)";
    case ncclInvalidArgument:
      return "invalid argument (see ncclGetLastError)";
    case ncclInvalidUsage:
      return "invalid usage (see ncclGetLastError)";
    case ncclRemoteError:
      return "a peer failed, left or never came (see ncclGetLastError)";
    case ncclInProgress:
      return "in progress";
    case ncclTimeout:
      return "the time was up";
    default:
      return "unknown result code";
  }
}
RINGPRESS_PROFILING_NAME(GetErrorString);

RINGPRESS_EXPORT const char* ncclGetLastError(ncclComm_t comm) {
  const char* text = "";
  static_cast<void>(catch_all([&]() -> Status {
    const std::shared_ptr<ncclComm> live = Registry::instance().find(comm);
    const std::string own = live == nullptr ? std::string() : live->objects().error.text();
    text = own.empty() ? last_error() : keep_text(own);
    return Status::ok();
  }));
  return text;
}
RINGPRESS_PROFILING_NAME(GetLastError);

RINGPRESS_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return firewall("ncclCommGetAsyncError", comm, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<ncclComm> live, find_comm(comm));
    RINGPRESS_RETURN_IF_ERROR(check_pointer(asyncError, "asyncError"));
    const Status status = live->async_status();
    if (!status.is_ok() && status.code() != ringpress::Code::kInProgress) {
      live->objects().error.set(status.message());  // Asked for next.
    }
    *asyncError = to_nccl_result(status.code());
    return Status::ok();
  });
}
RINGPRESS_PROFILING_NAME(CommGetAsyncError);

RINGPRESS_EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return answer("ncclCommCount", comm, count, "count",
                [](const ncclComm& live) { return live.size(); });
}
RINGPRESS_PROFILING_NAME(CommCount);

RINGPRESS_EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return answer("ncclCommUserRank", comm, rank, "rank",
                [](const ncclComm& live) { return live.rank(); });
}
RINGPRESS_PROFILING_NAME(CommUserRank);

RINGPRESS_EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return answer("ncclCommCuDevice", comm, device, "device",
                [](const ncclComm& live) { return live.traits().device; });
}
RINGPRESS_PROFILING_NAME(CommCuDevice);

// Both names are deprecated; here they are only defined.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
RINGPRESS_EXPORT void ncclResetDebugInit(void) {
  static_cast<void>(catch_all([]() -> Status {
    direct_log(ringpress::settings_from_environment());
    return Status::ok();
  }));
}
RINGPRESS_PROFILING_NAME(ResetDebugInit);

/// What NCCL's library shows beside it, without a second name.
extern "C" RINGPRESS_EXPORT void ncclResetDebugInitInternal(void);
RINGPRESS_EXPORT void ncclResetDebugInitInternal(void) {
  ncclResetDebugInit();
}
#pragma GCC diagnostic pop
