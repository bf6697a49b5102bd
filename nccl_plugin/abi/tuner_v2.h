// Tuner plugin, version 2. NCCL 2.21 and later: names one algorithm and one protocol.
#ifndef NCCL_PLUGIN_ABI_TUNER_V2_H_
#define NCCL_PLUGIN_ABI_TUNER_V2_H_

#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

struct TunerV2 {
  const char* name;
  ncclResult_t (*init)(std::size_t ranks, std::size_t nodes, Logger log, void** ctx);
  /// What is left as it was is NCCL's choice.
  ncclResult_t (*get_coll_info)(void* ctx, Function function, std::size_t bytes,
                                int collnet_supported, int nvls_supported, int pipelined_ops,
                                int* algorithm, int* protocol, int* channels);
  ncclResult_t (*destroy)(void* ctx);
};
static_assert(sizeof(TunerV2) == 4 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_TUNER_V2_H_
