// Profiler plugin, version 4. NCCL 2.27, which tells of an operation's first channel alone, in each
// direction. Later releases look for version 5 first, and tell of all.
#ifndef NCCL_PLUGIN_ABI_PROFILER_V4_H_
#define NCCL_PLUGIN_ABI_PROFILER_V4_H_

#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

// Bits of the activation mask, and the types of events.
constexpr int kProfileGroup = 1 << 0;
constexpr int kProfileColl = 1 << 1;
constexpr int kProfileProxyOp = 1 << 3;

union EventStateV4;  // What comes with a change of state. Not looked at here.

/// Only the kinds of events that are asked for are declared; NCCL's other ones are no longer.
struct EventV4 {
  std::uint8_t type;  // One kProfile bit.
  void* parent;       // What start_event gave for the event that this one belongs to.
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
static_assert(sizeof(EventV4) == 104);
static_assert(offsetof(EventV4, coll.send) == 40);
static_assert(offsetof(EventV4, coll.datatype) == 72);
static_assert(offsetof(EventV4, proxy_op.chunk_bytes) == 40);

struct ProfilerV4 {
  const char* name;
  ncclResult_t (*init)(void** ctx, int* activation_mask, const char* comm_name,
                       std::uint64_t comm_hash, int nodes, int ranks, int rank, Logger log);
  ncclResult_t (*start_event)(void* ctx, void** event, EventV4* description);
  ncclResult_t (*stop_event)(void* event);
  ncclResult_t (*record_event_state)(void* event, int state, EventStateV4* arguments);
  ncclResult_t (*finalize)(void* ctx);
};
static_assert(sizeof(ProfilerV4) == 6 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_PROFILER_V4_H_
