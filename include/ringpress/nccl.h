/* The NCCL 2.32 API, declared by ringpress itself so that programs build where neither CUDA nor
 * nccl.h is installed. Names, types, values and layouts are those of NCCL 2.32.3: a program that
 * was compiled with either header runs with either library.
 *
 * Where this library differs from NCCL, because its data lie in host memory:
 *   - Buffers are ordinary memory. There are no streams: the stream argument may be anything and is
 *     ignored, and a call that returns ncclSuccess has its result in memory already.
 *   - On a nonblocking communicator (config.blocking = 0) the result is in memory as soon as
 *     ncclCommGetAsyncError() reports ncclSuccess.
 *   - A "device" is a number without a meaning; several ranks may have the same one.
 *   - Nothing runs on a device: ringpress/nccl_device.h has the host's half of the device API, and
 * what needs a device says so.
 *
 * C11 and C++; may stand before or after cuda_runtime.h. If nccl.h came first, nothing is left to
 * declare. */
#ifndef RINGPRESS_NCCL_H_
#define RINGPRESS_NCCL_H_

#ifndef NCCL_H_
#define NCCL_H_ /* A later nccl.h has nothing to add. */

#include "ringpress/nccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- About the library -----------------------------------------------------------------------*/

/* The API level in the form of NCCL_VERSION_CODE. */
ncclResult_t ncclGetVersion(int* version);
/* A few words for each code. Never null. */
const char* ncclGetErrorString(ncclResult_t result);
/* The sentence of the last error of `comm`; with null, or without one, of this thread, then of the
 * process. Valid until this thread calls it again. Never null. */
const char* ncclGetLastError(ncclComm_t comm);
/* Reads the debug level from the environment again. */
__attribute__((deprecated("may be gone in a later NCCL"))) void ncclResetDebugInit(void);
/* What communicators that are made from now on send over a network is encrypted with a key of psk
 * and of the job's secret. All ranks must give the same psk. */
ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t* config);

/* ---- Making and ending communicators ---------------------------------------------------------*/

/* One process makes the id and hands it to all ranks; the ranks find each other through it. */
ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);

/* Each rank calls from a thread or process of its own, or all from one thread within a group.
 * Returns when every rank has come, or with an error within the timeout. */
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config);
/* The same list of ids, in the same order, on every rank. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config);
/* All ranks in this process: comm[0..ndev). devlist may be null. */
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);

/* A communicator of those ranks of `comm` that pass the same color, ordered by key, then by rank;
 * null with NCCL_SPLIT_NOCOLOR. Every rank of `comm` calls. A null config is inherited. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config);
/* A communicator without the listed ranks; called by the others only. */
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);
/* Makes the id by which ranks join those of `comm`, on one of them. Each id is good for one
 * ncclCommGrow(), and there is one at a time. It is served for as long as a call may wait. */
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
/* A communicator of nRanks: those of `comm`, which keep their numbers, and new ones. The old ones
 * pass `comm` and -1, and the id where it was made (elsewhere null or the same); the new ones null,
 * the id and a number that none has. `comm` is as usable as before, and the old ranks take what
 * they have yet to send with them; what had been tuned is tuned anew. */
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                          ncclComm_t* newcomm, ncclConfig_t* config);

/* Finishes what was started; after it `comm` can only be destroyed. */
ncclResult_t ncclCommFinalize(ncclComm_t comm);
/* Frees `comm`, finalized or not. The handle is invalid from then on. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);
/* Ends calls that are under way in other threads with an error, then frees `comm`. */
ncclResult_t ncclCommAbort(ncclComm_t comm);
/* Ends calls that are under way, but keeps the handle, to be destroyed or aborted. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);

/* Gives back memory that calls have left behind, until ncclCommResume(): each call of `comm` but
 * queries and its end is ncclInvalidUsage until then. Every rank calls both. What it keeps are
 * residuals and what it has learned. flags: NCCL_SUSPEND_MEM. */
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);

/* ---- Asking a communicator -------------------------------------------------------------------*/

/* ncclInProgress while a nonblocking call runs, else the error that `comm` has met, if any. A call
 * that ncclCommRevoke() has cut off is an error for all threads but the one that has revoked
 * `comm`. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);
/* The entry of devlist, or 0. */
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
/* Memory of `comm`, in bytes: see ncclCommMemStat_t. */
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);

/* ---- Memory ----------------------------------------------------------------------------------*/

/* Page-aligned memory, fit for every other call. */
ncclResult_t ncclMemAlloc(void** ptr, size_t size);
ncclResult_t ncclMemFree(void* ptr);
/* Accepted, for programs that announce their buffers; nothing depends on it here. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
/* A window of memory of each rank, which the others may write to by one-sided calls. Every rank
 * calls, with a buffer and a size of its own; winFlags may be any of NCCL's and mean nothing here.
 * In a group `win` is filled at its end. The first one starts a thread that serves the calls. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                    int winFlags);
/* When it returns nobody writes to the memory any more; who tries to ends all one-sided calls. */
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
/* The buffer that `win` was registered with, of this rank. */
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr);

/* ---- Reduction operators ---------------------------------------------------------------------*/

/* A sum whose inputs are first multiplied by *scalar (of type `datatype`) on their own rank. Good
 * for `comm` and `datatype` alone. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm);
/* Allowed as soon as the calls that were given `op` have returned, also inside their group. */
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- Collectives -----------------------------------------------------------------------------*/
/* Every rank of the communicator calls, with equal arguments but for the buffers. Counts are in
 * elements. With a count of 0 nothing happens and the buffers may be null. "Block i" is the i-th
 * run of `count` elements of a buffer with one run per rank. */

/* recvbuff on every rank = the reduction of all sendbuffs. In place: equal pointers. */
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
/* recvbuff = block `rank` of the reduction. In place: recvbuff is that block of sendbuff. */
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
/* Block i of recvbuff = sendbuff of rank i. In place: sendbuff is block `rank` of recvbuff. */
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* recvbuff = sendbuff of the root, the only one that is read. In place: equal pointers. */
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
/* The older form, always in place. */
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream);
/* As ncclAllReduce, but only the root's recvbuff is written. */
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
/* Block i of recvbuff = block `rank` of rank i's sendbuff. Never in place. */
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* Block i of the root's recvbuff = sendbuff of rank i. In place: sendbuff is the root's block. */
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream);
/* recvbuff of rank i = block i of the root's sendbuff. In place: recvbuff is the root's block. */
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

/* The same, with what is asked for this call alone; null: nothing. In a group `config` is read by
 * the call itself, not at the end. */
ncclResult_t ncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount,
                                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config);
ncclResult_t ncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, int root, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                const ncclCollConfig_t* config);
ncclResult_t ncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config);

/* ---- Point to point --------------------------------------------------------------------------*/
/* Peer calls the other half with the same count and type. Calls that need each other (an exchange,
 * a send to oneself) belong into one group. */

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);

/* ---- One-sided calls -------------------------------------------------------------------------*/
/* They need no call of the peer, whose process must only live. Those of one rank for another arrive
 * in order, and a signal after the data that it comes with. Signals are counted for each rank that
 * sends them, sigIdx (below config.numRmaSig) and ctx (below config.numRmaCtx). A communicator
 * without a window has none. In a group puts and signals are made after the collectives and
 * exchanges, then the waits. */

/* Writes `count` elements to the peer's window, peerWinOffset bytes from its start. When it
 * returns, localbuff, which may be any memory, may change; the peer has the data when it has the
 * signal. */
ncclResult_t ncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                           unsigned int flags, ncclComm_t comm, cudaStream_t stream);
/* The signal alone. */
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                        cudaStream_t stream);
/* Waits until there are so many signals of each kind, and takes them off the counts. */
ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                            cudaStream_t stream);

/* ---- Groups ----------------------------------------------------------------------------------*/
/* Calls between start and the outermost end of a thread start together at that end. The collectives
 * of one communicator run in the order of the calls, then all its sends and receives at once;
 * different communicators run concurrently. An argument error is returned by its call at once; the
 * group then runs nothing and its end returns the first error. */

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
/* Ends the group without running it. simInfo may be null. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo);

/* ---- Parameters ------------------------------------------------------------------------------*/
/* Environment variables that this library reads: RINGPRESS_... and those of NCCL's that mean
 * something to it, as the next communicator will find them: the environment, nccl.conf, or the
 * default. Nothing here is to be freed; texts are valid until this thread's next such call. */

/* ncclInvalidArgument for a key that this library does not read. */
ncclResult_t ncclParamBind(ncclParamHandle_t* out, const char* key);
/* ncclInvalidArgument where the value is no number, or none that the type holds. "1" and "0" for
 * switches. */
ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t* out);
ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t* out);
ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t* out);
ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t* out);
ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t* out);
ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t* out);
ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t* out);
ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t* out);
ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char** out);
/* The text without a zero at its end; *len is its length. ncclInvalidArgument if maxLen is less. */
ncclResult_t ncclParamGet(ncclParamHandle_t h, void* out, int maxLen, int* len);
/* valueLen may be null. */
ncclResult_t ncclParamGetParameter(const char* key, const char** value, int* valueLen);
ncclResult_t ncclParamGetAllParameterKeys(const char*** table, int* tableLen);
/* To the log, at level info. */
void ncclParamDumpAll(void);

/* ---- The second name of each function --------------------------------------------------------*/
/* A profiler defines the first name and calls the second. */

__typeof__(ncclGetVersion) pncclGetVersion;
__typeof__(ncclGetErrorString) pncclGetErrorString;
__typeof__(ncclGetLastError) pncclGetLastError;
__typeof__(ncclSetEncryption) pncclSetEncryption;
__attribute__((deprecated("may be gone in a later NCCL"))) void pncclResetDebugInit(void);
__typeof__(ncclGetUniqueId) pncclGetUniqueId;
__typeof__(ncclCommInitRank) pncclCommInitRank;
__typeof__(ncclCommInitRankConfig) pncclCommInitRankConfig;
__typeof__(ncclCommInitRankScalable) pncclCommInitRankScalable;
__typeof__(ncclCommInitAll) pncclCommInitAll;
__typeof__(ncclCommSplit) pncclCommSplit;
__typeof__(ncclCommShrink) pncclCommShrink;
__typeof__(ncclCommGetUniqueId) pncclCommGetUniqueId;
__typeof__(ncclCommGrow) pncclCommGrow;
__typeof__(ncclCommFinalize) pncclCommFinalize;
__typeof__(ncclCommDestroy) pncclCommDestroy;
__typeof__(ncclCommAbort) pncclCommAbort;
__typeof__(ncclCommRevoke) pncclCommRevoke;
__typeof__(ncclCommSuspend) pncclCommSuspend;
__typeof__(ncclCommResume) pncclCommResume;
__typeof__(ncclCommGetAsyncError) pncclCommGetAsyncError;
__typeof__(ncclCommCount) pncclCommCount;
__typeof__(ncclCommUserRank) pncclCommUserRank;
__typeof__(ncclCommCuDevice) pncclCommCuDevice;
__typeof__(ncclCommMemStats) pncclCommMemStats;
__typeof__(ncclMemAlloc) pncclMemAlloc;
__typeof__(ncclMemFree) pncclMemFree;
__typeof__(ncclCommRegister) pncclCommRegister;
__typeof__(ncclCommDeregister) pncclCommDeregister;
__typeof__(ncclCommWindowRegister) pncclCommWindowRegister;
__typeof__(ncclCommWindowDeregister) pncclCommWindowDeregister;
__typeof__(ncclWinGetUserPtr) pncclWinGetUserPtr;
__typeof__(ncclRedOpCreatePreMulSum) pncclRedOpCreatePreMulSum;
__typeof__(ncclRedOpDestroy) pncclRedOpDestroy;
__typeof__(ncclAllReduce) pncclAllReduce;
__typeof__(ncclReduceScatter) pncclReduceScatter;
__typeof__(ncclAllGather) pncclAllGather;
__typeof__(ncclBroadcast) pncclBroadcast;
__typeof__(ncclBcast) pncclBcast;
__typeof__(ncclReduce) pncclReduce;
__typeof__(ncclAlltoAll) pncclAlltoAll;
__typeof__(ncclGather) pncclGather;
__typeof__(ncclScatter) pncclScatter;
__typeof__(ncclAllReduceConfig) pncclAllReduceConfig;
__typeof__(ncclReduceScatterConfig) pncclReduceScatterConfig;
__typeof__(ncclAllGatherConfig) pncclAllGatherConfig;
__typeof__(ncclBroadcastConfig) pncclBroadcastConfig;
__typeof__(ncclReduceConfig) pncclReduceConfig;
__typeof__(ncclAlltoAllConfig) pncclAlltoAllConfig;
__typeof__(ncclGatherConfig) pncclGatherConfig;
__typeof__(ncclScatterConfig) pncclScatterConfig;
__typeof__(ncclSend) pncclSend;
__typeof__(ncclRecv) pncclRecv;
__typeof__(ncclPutSignal) pncclPutSignal;
__typeof__(ncclSignal) pncclSignal;
__typeof__(ncclWaitSignal) pncclWaitSignal;
__typeof__(ncclGroupStart) pncclGroupStart;
__typeof__(ncclGroupEnd) pncclGroupEnd;
__typeof__(ncclGroupSimulateEnd) pncclGroupSimulateEnd;
__typeof__(ncclParamBind) pncclParamBind;
__typeof__(ncclParamGetI8) pncclParamGetI8;
__typeof__(ncclParamGetI16) pncclParamGetI16;
__typeof__(ncclParamGetI32) pncclParamGetI32;
__typeof__(ncclParamGetI64) pncclParamGetI64;
__typeof__(ncclParamGetU8) pncclParamGetU8;
__typeof__(ncclParamGetU16) pncclParamGetU16;
__typeof__(ncclParamGetU32) pncclParamGetU32;
__typeof__(ncclParamGetU64) pncclParamGetU64;
__typeof__(ncclParamGetStr) pncclParamGetStr;
__typeof__(ncclParamGet) pncclParamGet;
__typeof__(ncclParamGetParameter) pncclParamGetParameter;
__typeof__(ncclParamGetAllParameterKeys) pncclParamGetAllParameterKeys;
void pncclParamDumpAll(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* NCCL_H_ */

#endif /* RINGPRESS_NCCL_H_ */
