/* The NCCL 2.28 API, declared by ringpress itself so that programs build where neither CUDA nor
 * nccl.h is installed. Names, types, values and layouts are those of NCCL 2.28.9: a program that
 * was compiled with either header runs with either library.
 *
 * Where this library differs from NCCL, because its data lie in host memory:
 *   - Buffers are ordinary memory. There are no streams: the stream argument may be anything and is
 *     ignored, and a call that returns ncclSuccess has its result in memory already.
 *   - On a nonblocking communicator (config.blocking = 0) the result is in memory as soon as
 *     ncclCommGetAsyncError() reports ncclSuccess.
 *   - A "device" is a number without a meaning; several ranks may have the same one.
 *
 * C11 and C++; may stand before or after cuda_runtime.h. If nccl.h came first, nothing is left to
 * declare. */
#ifndef RINGPRESS_NCCL_H_
#define RINGPRESS_NCCL_H_

#ifndef NCCL_H_
#define NCCL_H_ /* A later nccl.h has nothing to add. */

#include <limits.h>
#include <stddef.h>

/* ---- Version ---------------------------------------------------------------------------------*/

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""

/* Up to 2.8 a version was coded with three digits after the major number, later with four. */
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE 22809

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Handles ---------------------------------------------------------------------------------*/

typedef struct CUstream_st* cudaStream_t; /* As in cuda_runtime.h, which is not needed here. */
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_COMM_NULL NULL

/* Names a communicator before it exists. Passed by value; copy all bytes to every rank. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* ---- Enumerations ----------------------------------------------------------------------------*/

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1, /* Never returned by the host backend. */
  ncclSystemError = 2,        /* The operating system refused something. */
  ncclInternalError = 3,      /* A bug in the library. */
  ncclInvalidArgument = 4,    /* One argument cannot be right. */
  ncclInvalidUsage = 5,       /* Each argument may be right, but not here, now or together. */
  ncclRemoteError = 6,        /* A peer failed, left, or never came. */
  ncclInProgress = 7,         /* Nonblocking communicators: not finished, poll again. */
  ncclNumResults = 8
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12,
  /* Second names. */
  ncclChar = ncclInt8,
  ncclInt = ncclInt32,
  ncclHalf = ncclFloat16,
  ncclFloat = ncclFloat32,
  ncclDouble = ncclFloat64
} ncclDataType_t;

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5, /* Operators made by ncclRedOpCreate...() have values from here on. */
  ncclMaxRedOp = 0x7fffffff >> (32 - 8 * sizeof(ncclRedOp_dummy_t))
} ncclRedOp_t;

/* Where the scalar of ncclRedOpCreatePreMulSum() lies and when it is read. */
typedef enum {
  ncclScalarDevice = 0,       /* Read by each collective that is given the operator. */
  ncclScalarHostImmediate = 1 /* Read once, when the operator is made. */
} ncclScalarResidence_t;

/* ---- Flags and values that mean "not set" ----------------------------------------------------*/

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_SPLIT_NOCOLOR (-1)

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01

#define NCCL_REVOKE_DEFAULT 0x00

/* ---- Structures with a size, a magic number and a version ------------------------------------*/

/* Start from NCCL_CONFIG_INITIALIZER. The host backend acts on `blocking`; it checks the other
 * fields as NCCL does and has no use for them. */
typedef struct ncclConfig_v22800 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking; /* 1 (default): calls return when done. 0: they return ncclInProgress. */
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

/* In the order of the fields: three that name the struct, then everything "not set". */
#define NCCL_CONFIG_INITIALIZER                                                         \
  {                                                                                     \
    sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,            \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,            \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,            \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,            \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                                    \
  }

/* Filled by ncclGroupSimulateEnd(). Start from NCCL_SIM_INFO_INITIALIZER. */
typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime; /* Microseconds; NCCL_UNDEF_FLOAT where unknown, as on the host. */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                        \
  {                                                                                      \
    sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), \
        NCCL_UNDEF_FLOAT                                                                 \
  }

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

/* Finishes what was started; after it `comm` can only be destroyed. */
ncclResult_t ncclCommFinalize(ncclComm_t comm);
/* Frees `comm`, finalized or not. The handle is invalid from then on. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);
/* Ends calls that are under way in other threads with an error, then frees `comm`. */
ncclResult_t ncclCommAbort(ncclComm_t comm);
/* Ends calls that are under way, but keeps the handle, to be destroyed or aborted. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);

/* ---- Asking a communicator -------------------------------------------------------------------*/

/* ncclInProgress while a nonblocking call runs, else the error that `comm` has met, if any. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);
/* The entry of devlist, or 0. */
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);

/* ---- Memory ----------------------------------------------------------------------------------*/

/* Page-aligned memory, fit for every other call. */
ncclResult_t ncclMemAlloc(void** ptr, size_t size);
ncclResult_t ncclMemFree(void* ptr);
/* Accepted, for programs that announce their buffers; nothing depends on it here. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                    int winFlags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);

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

/* ---- Point to point --------------------------------------------------------------------------*/
/* Peer calls the other half with the same count and type. Calls that need each other (an exchange,
 * a send to oneself) belong into one group. */

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);

/* ---- Groups ----------------------------------------------------------------------------------*/
/* Calls between start and the outermost end of a thread start together at that end. The collectives
 * of one communicator run in the order of the calls, then all its sends and receives at once;
 * different communicators run concurrently. An argument error is returned by its call at once; the
 * group then runs nothing and its end returns the first error. */

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
/* Ends the group without running it. simInfo may be null. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo);

/* ---- The second name of each function --------------------------------------------------------*/
/* A profiler defines the first name and calls the second. */

__typeof__(ncclGetVersion) pncclGetVersion;
__typeof__(ncclGetErrorString) pncclGetErrorString;
__typeof__(ncclGetLastError) pncclGetLastError;
__attribute__((deprecated("may be gone in a later NCCL"))) void pncclResetDebugInit(void);
__typeof__(ncclGetUniqueId) pncclGetUniqueId;
__typeof__(ncclCommInitRank) pncclCommInitRank;
__typeof__(ncclCommInitRankConfig) pncclCommInitRankConfig;
__typeof__(ncclCommInitRankScalable) pncclCommInitRankScalable;
__typeof__(ncclCommInitAll) pncclCommInitAll;
__typeof__(ncclCommSplit) pncclCommSplit;
__typeof__(ncclCommShrink) pncclCommShrink;
__typeof__(ncclCommFinalize) pncclCommFinalize;
__typeof__(ncclCommDestroy) pncclCommDestroy;
__typeof__(ncclCommAbort) pncclCommAbort;
__typeof__(ncclCommRevoke) pncclCommRevoke;
__typeof__(ncclCommGetAsyncError) pncclCommGetAsyncError;
__typeof__(ncclCommCount) pncclCommCount;
__typeof__(ncclCommUserRank) pncclCommUserRank;
__typeof__(ncclCommCuDevice) pncclCommCuDevice;
__typeof__(ncclMemAlloc) pncclMemAlloc;
__typeof__(ncclMemFree) pncclMemFree;
__typeof__(ncclCommRegister) pncclCommRegister;
__typeof__(ncclCommDeregister) pncclCommDeregister;
__typeof__(ncclCommWindowRegister) pncclCommWindowRegister;
__typeof__(ncclCommWindowDeregister) pncclCommWindowDeregister;
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
__typeof__(ncclSend) pncclSend;
__typeof__(ncclRecv) pncclRecv;
__typeof__(ncclGroupStart) pncclGroupStart;
__typeof__(ncclGroupEnd) pncclGroupEnd;
__typeof__(ncclGroupSimulateEnd) pncclGroupSimulateEnd;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* NCCL_H_ */

#endif /* RINGPRESS_NCCL_H_ */
