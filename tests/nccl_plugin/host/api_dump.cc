// Prints every type, value and layout of the NCCL API as the compiler sees it. Compiled against our
// nccl.h and, where it is installed, NVIDIA's: both must print api_dump.txt.
#ifdef RINGPRESS_DUMP_INSTALLED_HEADER
#define NCCL_OS_LINUX  // Else it hides ncclResetDebugInit().
#include <nccl.h>
#else
#include "ringpress/nccl.h"
#endif

#include <cxxabi.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>

namespace {

template <typename T>
std::string type_name() {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, &status), std::free);
  return text == nullptr ? "?" : text.get();
}

template <typename T>
void print_value(const char* name, T value) {
  std::printf("%s = %.17g (%s)\n", name, static_cast<double>(value), type_name<T>().c_str());
}

template <typename T>
void print_size(const char* name) {
  std::printf("%s: %zu bytes, aligned to %zu, %s\n", name, sizeof(T), alignof(T),
              type_name<T>().c_str());
}

#define TYPE(type) print_size<type>(#type)
#define VALUE(value) print_value(#value, value)
#define FIELD(type, field)                                                            \
  std::printf("%s.%s: at %zu, %zu bytes, %s\n", #type, #field, offsetof(type, field), \
              sizeof(type::field), type_name<decltype(type::field)>().c_str())
#define FUNCTION(name)                                                                        \
  static_assert(std::is_same_v<decltype(nccl##name), decltype(pnccl##name)>, "names differ"); \
  std::printf("nccl%s: %s\n", #name, type_name<decltype(nccl##name)>().c_str())

void print_types() {
  TYPE(ncclComm_t);
  TYPE(ncclWindow_t);
  TYPE(cudaStream_t);
  TYPE(cudaEvent_t);
  TYPE(ncclUniqueId);
  TYPE(ncclResult_t);
  TYPE(ncclDataType_t);
  TYPE(ncclRedOp_t);
  TYPE(ncclRedOp_dummy_t);
  TYPE(ncclScalarResidence_t);
  TYPE(ncclConfig_t);
  TYPE(ncclSimInfo_t);
  TYPE(ncclConfigExt_t);
  TYPE(ncclCollConfig_t);
  TYPE(ncclEncryptionConfig_t);
  TYPE(ncclWaitSignalDesc_t);
  TYPE(ncclParamHandle_t);
  TYPE(ncclCommMemStat_t);
  TYPE(ncclEncryptionMode_t);
  TYPE(ncclHostCftMode_t);
  TYPE(ncclNvlsHostMode_t);
  FIELD(ncclUniqueId, internal);
  FIELD(ncclConfig_t, size);
  FIELD(ncclConfig_t, magic);
  FIELD(ncclConfig_t, version);
  FIELD(ncclConfig_t, blocking);
  FIELD(ncclConfig_t, cgaClusterSize);
  FIELD(ncclConfig_t, minCTAs);
  FIELD(ncclConfig_t, maxCTAs);
  FIELD(ncclConfig_t, netName);
  FIELD(ncclConfig_t, splitShare);
  FIELD(ncclConfig_t, trafficClass);
  FIELD(ncclConfig_t, commName);
  FIELD(ncclConfig_t, collnetEnable);
  FIELD(ncclConfig_t, CTAPolicy);
  FIELD(ncclConfig_t, shrinkShare);
  FIELD(ncclConfig_t, nvlsCTAs);
  FIELD(ncclConfig_t, nChannelsPerNetPeer);
  FIELD(ncclConfig_t, nvlinkCentricSched);
  FIELD(ncclConfig_t, graphUsageMode);
  FIELD(ncclConfig_t, numRmaCtx);
  FIELD(ncclConfig_t, maxP2pPeers);
  FIELD(ncclConfig_t, graphStreamOrdering);
  FIELD(ncclConfig_t, launchOrderImplicit);
  FIELD(ncclConfig_t, numRmaSig);
  FIELD(ncclConfig_t, rmaEagerInit);
  FIELD(ncclConfig_t, hostCftMode);
  FIELD(ncclConfig_t, nvlsHostMode);
  FIELD(ncclCollConfig_t, size);
  FIELD(ncclCollConfig_t, magic);
  FIELD(ncclCollConfig_t, version);
  FIELD(ncclCollConfig_t, ext);
  FIELD(ncclCollConfig_t, minCTAs);
  FIELD(ncclCollConfig_t, maxCTAs);
  FIELD(ncclCollConfig_t, nvlsCTAs);
  FIELD(ncclCollConfig_t, cgaClusterSize);
  FIELD(ncclCollConfig_t, algSelection);
  FIELD(ncclCollConfig_t, forceAlgSelection);
  FIELD(ncclCollConfig_t, CTAPolicy);
  FIELD(ncclCollConfig_t, userProfilerTag);
  FIELD(ncclCollConfig_t, launchCompletionEvent);
  FIELD(ncclConfigExt_t, next);
  FIELD(ncclConfigExt_t, key.vendorId);
  FIELD(ncclConfigExt_t, key.optionId);
  FIELD(ncclConfigExt_t, val.i);
  FIELD(ncclConfigExt_t, val.s);
  FIELD(ncclConfigExt_t, val.raw);
  FIELD(ncclEncryptionConfig_t, size);
  FIELD(ncclEncryptionConfig_t, magic);
  FIELD(ncclEncryptionConfig_t, version);
  FIELD(ncclEncryptionConfig_t, mode);
  FIELD(ncclEncryptionConfig_t, psk);
  FIELD(ncclWaitSignalDesc_t, opCnt);
  FIELD(ncclWaitSignalDesc_t, peer);
  FIELD(ncclWaitSignalDesc_t, sigIdx);
  FIELD(ncclWaitSignalDesc_t, ctx);
  FIELD(ncclSimInfo_t, size);
  FIELD(ncclSimInfo_t, magic);
  FIELD(ncclSimInfo_t, version);
  FIELD(ncclSimInfo_t, estimatedTime);
}

void print_enumerators() {
  VALUE(ncclSuccess);
  VALUE(ncclUnhandledCudaError);
  VALUE(ncclSystemError);
  VALUE(ncclInternalError);
  VALUE(ncclInvalidArgument);
  VALUE(ncclInvalidUsage);
  VALUE(ncclRemoteError);
  VALUE(ncclInProgress);
  VALUE(ncclTimeout);
  VALUE(ncclNumResults);
  VALUE(ncclInt8);
  VALUE(ncclChar);
  VALUE(ncclUint8);
  VALUE(ncclInt32);
  VALUE(ncclInt);
  VALUE(ncclUint32);
  VALUE(ncclInt64);
  VALUE(ncclUint64);
  VALUE(ncclFloat16);
  VALUE(ncclHalf);
  VALUE(ncclFloat32);
  VALUE(ncclFloat);
  VALUE(ncclFloat64);
  VALUE(ncclDouble);
  VALUE(ncclBfloat16);
  VALUE(ncclFloat8e4m3);
  VALUE(ncclFloat8e5m2);
  VALUE(ncclNumTypes);
  VALUE(ncclNumOps_dummy);
  VALUE(ncclSum);
  VALUE(ncclProd);
  VALUE(ncclMax);
  VALUE(ncclMin);
  VALUE(ncclAvg);
  VALUE(ncclNumOps);
  VALUE(ncclMaxRedOp);
  VALUE(ncclScalarDevice);
  VALUE(ncclScalarHostImmediate);
  VALUE(ncclStatGpuMemSuspend);
  VALUE(ncclStatGpuMemSuspended);
  VALUE(ncclStatGpuMemPersist);
  VALUE(ncclStatGpuMemTotal);
  VALUE(ncclHostCftDefault);
  VALUE(ncclHostCftEnable);
  VALUE(ncclHostCftDisable);
  VALUE(ncclHostCftFallback);
  VALUE(ncclNvlsHostModeDefault);
  VALUE(ncclNvlsHostModeEnable);
  VALUE(ncclNvlsHostModeDisableTransport);
  VALUE(ncclNvlsHostModeDisableSymmetricMultimem);
  VALUE(ncclNvlsHostModeDisable);
  VALUE(NCCL_ENCRYPTION_MODE_NONE);
  VALUE(NCCL_ENCRYPTION_MODE_PSK);
}

void print_macros() {
  VALUE(NCCL_MAJOR);
  VALUE(NCCL_MINOR);
  VALUE(NCCL_PATCH);
  VALUE(NCCL_VERSION_CODE);
  VALUE(NCCL_VERSION(2, 7, 8));
  VALUE(NCCL_VERSION(2, 8, 3));
  VALUE(NCCL_VERSION(2, 28, 9));
  std::printf("NCCL_SUFFIX = \"%s\"\n", NCCL_SUFFIX);
  VALUE(NCCL_UNIQUE_ID_BYTES);
  VALUE(NCCL_CONFIG_UNDEF_INT);
  VALUE(NCCL_UNDEF_FLOAT);
  VALUE(NCCL_SPLIT_NOCOLOR);
  VALUE(NCCL_WIN_DEFAULT);
  VALUE(NCCL_WIN_COLL_SYMMETRIC);
  VALUE(NCCL_WIN_REQUIRED_ALIGNMENT);
  VALUE(NCCL_CTA_POLICY_DEFAULT);
  VALUE(NCCL_CTA_POLICY_EFFICIENCY);
  VALUE(NCCL_CTA_POLICY_ZERO);
  VALUE(NCCL_SHRINK_DEFAULT);
  VALUE(NCCL_SHRINK_ABORT);
  VALUE(NCCL_REVOKE_DEFAULT);
  VALUE(NCCL_API_MAGIC);
  VALUE(NCCL_SUSPEND_MEM);
  VALUE(NCCL_WIN_STRICT_ORDERING);
  VALUE(NCCL_WIN_GIN_ONLY);
  VALUE(NCCL_WIN_CFT_COUNTED);
  const ncclComm_t null_comm = NCCL_COMM_NULL;
  const char* const null_pointer = NCCL_CONFIG_UNDEF_PTR;
  std::printf("nulls: %d %d\n", null_comm == nullptr, null_pointer == nullptr);
}

void print_initializers() {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  std::printf("config: %zu %#x %u, %d %d %d %d, %d %d %d, %d, %d %d %d %d %d %d\n", config.size,
              config.magic, config.version, config.blocking, config.cgaClusterSize, config.minCTAs,
              config.maxCTAs, config.netName == nullptr, config.splitShare, config.trafficClass,
              config.commName == nullptr, config.collnetEnable, config.CTAPolicy,
              config.shrinkShare, config.nvlsCTAs, config.nChannelsPerNetPeer,
              config.nvlinkCentricSched);
  std::printf("newer: %d %d %d %d %d %d %d %d %d\n", config.graphUsageMode, config.numRmaCtx,
              config.maxP2pPeers, config.graphStreamOrdering, config.launchOrderImplicit,
              config.numRmaSig, config.rmaEagerInit, config.hostCftMode, config.nvlsHostMode);
  const ncclCollConfig_t call = NCCL_COLLCONFIG_INITIALIZER;
  std::printf("call: %zu %#x %u, %d, %d %d %d %d, %d %d, %d, %d %d\n", call.size, call.magic,
              call.version, call.ext == nullptr, call.minCTAs, call.maxCTAs, call.nvlsCTAs,
              call.cgaClusterSize, call.algSelection == nullptr, call.forceAlgSelection,
              call.CTAPolicy, call.userProfilerTag == 0, call.launchCompletionEvent == nullptr);
  const ncclEncryptionConfig_t encryption = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  std::printf("encryption: %zu %#x %u, %d %d\n", encryption.size, encryption.magic,
              encryption.version, encryption.mode, encryption.psk == nullptr);
  const ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  std::printf("simulation: %zu %#x %u %g\n", info.size, info.magic, info.version,
              static_cast<double>(info.estimatedTime));
}

void print_functions() {
  FUNCTION(GetVersion);
  FUNCTION(GetErrorString);
  FUNCTION(GetLastError);
  FUNCTION(ResetDebugInit);
  FUNCTION(SetEncryption);
  FUNCTION(GetUniqueId);
  FUNCTION(CommInitRank);
  FUNCTION(CommInitRankConfig);
  FUNCTION(CommInitRankScalable);
  FUNCTION(CommInitAll);
  FUNCTION(CommSplit);
  FUNCTION(CommShrink);
  FUNCTION(CommGetUniqueId);
  FUNCTION(CommGrow);
  FUNCTION(CommFinalize);
  FUNCTION(CommDestroy);
  FUNCTION(CommAbort);
  FUNCTION(CommRevoke);
  FUNCTION(CommSuspend);
  FUNCTION(CommResume);
  FUNCTION(CommMemStats);
  FUNCTION(CommGetAsyncError);
  FUNCTION(CommCount);
  FUNCTION(CommUserRank);
  FUNCTION(CommCuDevice);
  FUNCTION(MemAlloc);
  FUNCTION(MemFree);
  FUNCTION(CommRegister);
  FUNCTION(CommDeregister);
  FUNCTION(CommWindowRegister);
  FUNCTION(CommWindowDeregister);
  FUNCTION(WinGetUserPtr);
  FUNCTION(RedOpCreatePreMulSum);
  FUNCTION(RedOpDestroy);
  FUNCTION(AllReduce);
  FUNCTION(ReduceScatter);
  FUNCTION(AllGather);
  FUNCTION(Broadcast);
  FUNCTION(Bcast);
  FUNCTION(Reduce);
  FUNCTION(AlltoAll);
  FUNCTION(Gather);
  FUNCTION(Scatter);
  FUNCTION(AllReduceConfig);
  FUNCTION(BroadcastConfig);
  FUNCTION(ReduceConfig);
  FUNCTION(AllGatherConfig);
  FUNCTION(ReduceScatterConfig);
  FUNCTION(AlltoAllConfig);
  FUNCTION(GatherConfig);
  FUNCTION(ScatterConfig);
  FUNCTION(Send);
  FUNCTION(Recv);
  FUNCTION(PutSignal);
  FUNCTION(Signal);
  FUNCTION(WaitSignal);
  FUNCTION(GroupStart);
  FUNCTION(GroupEnd);
  FUNCTION(GroupSimulateEnd);
  FUNCTION(ParamBind);
  FUNCTION(ParamGetI8);
  FUNCTION(ParamGetI16);
  FUNCTION(ParamGetI32);
  FUNCTION(ParamGetI64);
  FUNCTION(ParamGetU8);
  FUNCTION(ParamGetU16);
  FUNCTION(ParamGetU32);
  FUNCTION(ParamGetU64);
  FUNCTION(ParamGetStr);
  FUNCTION(ParamGet);
  FUNCTION(ParamGetParameter);
  FUNCTION(ParamGetAllParameterKeys);
  FUNCTION(ParamDumpAll);
}

}  // namespace

int main() {
  print_types();
  print_enumerators();
  print_macros();
  print_initializers();
  print_functions();
}
