// What all versions of NCCL's plugin structures share. The structures of these headers are NCCL's
// published plugin interface, declared here so that no NCCL installation is needed to build; each
// header's static_asserts hold the layout that NCCL's own build gives them on 64-bit Linux.
#ifndef NCCL_PLUGIN_ABI_TYPES_H_
#define NCCL_PLUGIN_ABI_TYPES_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "ringpress/nccl.h"

namespace ringpress::abi {

enum class LogLevel : int { kNone = 0, kVersion = 1, kWarn = 2, kInfo = 3, kAbort = 4, kTrace = 5 };

constexpr unsigned long kLogInit = 1;
constexpr unsigned long kLogNet = 16;
constexpr unsigned long kLogTuning = 64;
constexpr unsigned long kLogEnv = 128;

/// NCCL's log; `flags` are the kLog subsystems. Usable from any thread.
using Logger = void (*)(LogLevel level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

/// Reports an event of the network to the profiler; `phandle` is what isend or irecv was given.
using ProfilerCallback = ncclResult_t (*)(void** event, int type, void* phandle,
                                          std::int64_t plugin_id, void* data);

// NCCL's ncclDataType_t and ncclRedOp_t where it passes them: any number may come, and C++ does not
// define what such an enumeration does with one that it has no name for.
using DataTypeNumber = int;
using OperationNumber = int;

constexpr std::size_t kHandleBytes = 128;  // Of what listen() gives and connect() gets.
constexpr int kMaxRequests = 32;           // Under way on one connection.
constexpr std::size_t kMaxTransferBytes = std::size_t{1} << 40;  // The limit of max...Bytes.

constexpr int kPointerHost = 1;
constexpr int kPointerCuda = 2;
constexpr int kPointerDmaBuf = 4;

/// irecv's `*request` on entry: the receiver polls the data itself. A hint.
constexpr std::uintptr_t kOptionalReceiveCompletion = 1;

enum class NetDeviceType : int { kHost = 0, kUnpack = 1 };

struct NetDeviceHandle {
  NetDeviceType type;
  int version;
  void* handle;
  std::size_t size;
  int needs_proxy_progress;
};
static_assert(sizeof(NetDeviceHandle) == 32);

/// One piece of memory of an all-gather or a reduce-scatter.
struct NetPart {
  void* mhandle;
  void* address;
  std::size_t size;
};

enum class Function : int {
  kBroadcast = 0,
  kReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllReduce = 4,
};

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_TYPES_H_
