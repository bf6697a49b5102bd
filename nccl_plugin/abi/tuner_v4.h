// Tuner plugin, version 4. NCCL 2.24 and later: tells whether buffers can be registered.
#ifndef NCCL_PLUGIN_ABI_TUNER_V4_H_
#define NCCL_PLUGIN_ABI_TUNER_V4_H_

#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

struct TunerV4 {
  const char* name;
  ncclResult_t (*init)(std::size_t ranks, std::size_t nodes, Logger log, void** ctx);
  ncclResult_t (*get_coll_info)(void* ctx, Function function, std::size_t bytes, int pipelined_ops,
                                float** costs, int algorithms, int protocols,
                                int buffers_can_register, int* channels);
  ncclResult_t (*destroy)(void* ctx);
};
static_assert(sizeof(TunerV4) == 4 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_TUNER_V4_H_
