// Profiler plugin, version 7. NCCL 2.31 and later: what the program calls a tensor, symmetric
// kernels, phases of kernels.
#ifndef NCCL_PLUGIN_ABI_PROFILER_V7_H_
#define NCCL_PLUGIN_ABI_PROFILER_V7_H_

#include "nccl_plugin/abi/profiler_v4.h"
#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

/// Only the kinds of events that are asked for are declared; NCCL's other ones are no longer.
struct EventV7 {
  std::uint64_t type;  // One kProfile bit.
  void* parent;        // What start_event gave for the event that this one belongs to.
  int rank;
  union {
    struct {
      std::uint64_t sequence;
      const char* function;
      const void* send;
      void* receive;
      std::size_t count;
      int root;
      const char* datatype;
      std::uint8_t channels;  // Not filled for CollNet.
      std::uint8_t warps;
      const char* algorithm;
      const char* protocol;
      void* group;
      const char* symmetric_kernel;  // Null: none.
      bool is_symmetric;
      std::uint64_t tag;  // ncclCollConfig_t's userProfilerTag; 0: none. The highest bit is NCCL's.
    } coll;
    struct {
      pid_t process;  // That made the operation; `parent` is of that process.
      std::uint8_t channel;
      int peer;
      int steps;
      int chunk_bytes;
      int is_send;
    } proxy_op;
  };
};
static_assert(sizeof(EventV7) == 136);
static_assert(offsetof(EventV7, coll.send) == 40);
static_assert(offsetof(EventV7, coll.datatype) == 72);
static_assert(offsetof(EventV7, coll.is_symmetric) == 120);
static_assert(offsetof(EventV7, coll.tag) == 128);
static_assert(offsetof(EventV7, proxy_op.chunk_bytes) == 40);

struct ProfilerV7 {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t comm_id, int* activation_mask,
                       const char* comm_name, int nodes, int ranks, int rank, Logger log);
  ncclResult_t (*start_event)(void* ctx, void** event, EventV7* description);
  ncclResult_t (*stop_event)(void* event);
  ncclResult_t (*record_event_state)(void* event, int state, EventStateV4* arguments);
  ncclResult_t (*finalize)(void* ctx);
};
static_assert(sizeof(ProfilerV7) == 6 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_PROFILER_V7_H_
