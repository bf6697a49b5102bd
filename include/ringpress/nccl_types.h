/* The types and values of ringpress/nccl.h, which includes it: not to be included alone. C11 and
 * C++. */
#ifndef RINGPRESS_NCCL_TYPES_H_
#define RINGPRESS_NCCL_TYPES_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Version ---------------------------------------------------------------------------------*/

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""

/* Up to 2.8 a version was coded with three digits after the major number, later with four. */
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE 23203

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Handles ---------------------------------------------------------------------------------*/

/* As in cuda_runtime.h, which is not needed here. */
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
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
  ncclTimeout = 8,            /* Since NCCL 2.30. Not returned here: what takes too long is a
                               * peer's fault, ncclRemoteError. */
  ncclNumResults = 9
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

#define NCCL_API_MAGIC 0xcafebeef

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01

#define NCCL_REVOKE_DEFAULT 0x00

#define NCCL_SUSPEND_MEM 0x01

/* Of config.hostCftMode and config.nvlsHostMode, which mean nothing on host memory. */
typedef enum {
  ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
  ncclHostCftEnable = 1,
  ncclHostCftDisable = 2,
  ncclHostCftFallback = 3
} ncclHostCftMode_t;

typedef enum {
  ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
  ncclNvlsHostModeEnable = 0,
  ncclNvlsHostModeDisableTransport = 1,
  ncclNvlsHostModeDisableSymmetricMultimem = 2,
  ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

/* What ncclCommMemStats() is asked for. The names are NCCL's; here it is host memory. */
typedef enum {
  ncclStatGpuMemSuspend = 0,   /* Bytes that ncclCommSuspend() gives back. */
  ncclStatGpuMemSuspended = 1, /* 1: it is suspended. */
  ncclStatGpuMemPersist = 2,   /* Bytes that it keeps. */
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

/* ---- Structures with a size, a magic number and a version ------------------------------------*/

/* Start from NCCL_CONFIG_INITIALIZER. The host backend acts on `blocking`, `commName`, `numRmaCtx`
 * and `numRmaSig`; it checks the other fields as NCCL does and has no use for them. Programs of
 * older versions pass a shorter struct, of newer ones a longer one: what this version does not know
 * is not looked at, as in NCCL. */
typedef struct ncclConfig_v23100 {
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
  const char* commName; /* In rules, traces and statistics. */
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx; /* Contexts of one-sided calls; 1 (default) or more, 0: no such calls. */
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig; /* Signal indices of a context; 1 (default) or more. */
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
} ncclConfig_t;

/* In the order of the fields: three that name the struct, then everything "not set". */
#define NCCL_CONFIG_INITIALIZER                                                             \
  {                                                                                         \
    sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                                        \
  }

/* One option of some vendor's library, in a list that has no circle and no key twice. Options of
 * another vendor are passed over; ours are in ringpress.h. */
typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId; /* 1 to 2^24 - 1. */
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

/* What one collective is asked for, by the nccl*Config() calls. Start from
 * NCCL_COLLCONFIG_INITIALIZER; the same on every rank, kept until the call has ended. Values are
 * checked as NCCL's. Channels, clusters, NVLink and the algorithm of a kernel mean nothing on host
 * memory: what is valid of them is accepted and changes nothing. */
typedef struct ncclCollConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  ncclConfigExt_t* ext; /* May be null. */
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;          /* Names the tensor (ringpress.h); 0: nothing. */
  cudaEvent_t launchCompletionEvent; /* Must be null: there is no device to record it. */
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                             \
  {                                                                                             \
    sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                    \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, 1,                 \
        NCCL_CONFIG_UNDEF_INT, 0, NCCL_CONFIG_UNDEF_PTR                                         \
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

typedef enum {
  NCCL_ENCRYPTION_MODE_NONE = 0,
  NCCL_ENCRYPTION_MODE_PSK = 1 /* With a key that all processes have. */
} ncclEncryptionMode_t;

/* Start from NCCL_ENCRYPTION_CONFIG_INITIALIZER. */
typedef struct ncclEncryptionConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode;
  const char* psk;
} ncclEncryptionConfig_t;

#define NCCL_ENCRYPTION_CONFIG_INITIALIZER                                           \
  {                                                                                  \
    sizeof(ncclEncryptionConfig_t), NCCL_API_MAGIC,                                  \
        NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_ENCRYPTION_MODE_NONE, \
        NCCL_CONFIG_UNDEF_PTR                                                        \
  }

/* So many signals of a rank that ncclWaitSignal() waits for. */
typedef struct {
  int opCnt; /* 1 or more. */
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

/* One of ncclParamGetAllParameterKeys(), found by name. */
typedef struct ncclParamHandle* ncclParamHandle_t;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RINGPRESS_NCCL_TYPES_H_ */
