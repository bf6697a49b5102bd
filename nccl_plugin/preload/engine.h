/* What the preloaded shim and the engine know of each other. The shim links nothing but libc; it
 * opens the engine when a program makes an id or a communicator and hands it the functions of the
 * real NCCL. (Of an id the engine makes no more than a meeting place: no device is looked at.)
 * The engine answers with functions of its own, which the shim calls in their place. C11 and C++.
 */
#ifndef NCCL_PLUGIN_PRELOAD_ENGINE_H_
#define NCCL_PLUGIN_PRELOAD_ENGINE_H_

#include <stddef.h>

#include "ringpress/nccl.h"

#define RINGPRESS_ENGINE_VERSION 4

/* The functions that the engine takes part in. */
#define RINGPRESS_INTERCEPTED(X) \
  X(GetUniqueId)                 \
  X(CommInitRank)                \
  X(CommInitRankConfig)          \
  X(CommInitRankScalable)        \
  X(CommInitAll)                 \
  X(CommSplit)                   \
  X(CommShrink)                  \
  X(CommGetUniqueId)             \
  X(CommGrow)                    \
  X(CommSuspend)                 \
  X(CommResume)                  \
  X(CommFinalize)                \
  X(CommDestroy)                 \
  X(CommAbort)                   \
  X(CommRevoke)                  \
  X(GroupStart)                  \
  X(GroupEnd)                    \
  X(GroupSimulateEnd)            \
  X(AllReduce)                   \
  X(ReduceScatter)               \
  X(AllGather)                   \
  X(AllReduceConfig)             \
  X(ReduceScatterConfig)         \
  X(AllGatherConfig)             \
  X(CommGetAsyncError)           \
  X(GetLastError)

/* Those that it only calls. */
#define RINGPRESS_CALLED(Y) \
  Y(GetVersion)             \
  Y(CommCount)              \
  Y(CommUserRank)           \
  Y(CommCuDevice)           \
  Y(Send)                   \
  Y(Recv)

#define RINGPRESS_FIELD(name) __typeof__(nccl##name)* name;

/* The real library's functions; null where it has none of that name. */
typedef struct {
  size_t size; /* Of this struct. */
  unsigned int version;
  RINGPRESS_INTERCEPTED(RINGPRESS_FIELD)
  RINGPRESS_CALLED(RINGPRESS_FIELD)
  /* Groups that the calling thread is within, of those that it began before the engine was there.
   * Null: none. */
  int (*GroupDepth)(void);
} ringpressRealNccl;

/* The engine's. Each returns what the real one of the same name would. None is called while this
 * thread is inside one of them already, nor in a process that was forked from the one that opened
 * the engine. */
typedef struct {
  size_t size;
  unsigned int version;
  RINGPRESS_INTERCEPTED(RINGPRESS_FIELD)
} ringpressEngine;

#ifdef __cplusplus
extern "C" {
#endif

/* The engine's one entry point: fills in `engine` and returns 0, once a process. Anything else
 * means that it has nothing to do here: the shim then leaves everything to the real library. The
 * reason has been logged, if it was not asked for. */
int ringpressOpenEngine(const ringpressRealNccl* real, ringpressEngine* engine);
typedef __typeof__(ringpressOpenEngine) ringpressOpenEngine_t;

#ifdef __cplusplus
}
#endif

#endif /* NCCL_PLUGIN_PRELOAD_ENGINE_H_ */
