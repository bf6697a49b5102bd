// Tuner plugin, version 6. NCCL 2.30 and later: chunk sizes.
#ifndef NCCL_PLUGIN_ABI_TUNER_V6_H_
#define NCCL_PLUGIN_ABI_TUNER_V6_H_

#include "nccl_plugin/abi/tuner_v5.h"
#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

struct TunerV6 {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t comm_id, std::size_t ranks, std::size_t nodes,
                       Logger log, NvlDomainInfoV5* nvl_domains, TunerConstantsV5* constants);
  ncclResult_t (*get_coll_info)(void* ctx, Function function, std::size_t bytes, int pipelined_ops,
                                float** costs, int algorithms, int protocols,
                                int buffers_can_register, int* channels);
  ncclResult_t (*finalize)(void* ctx);
  /// May change what NCCL has put in `chunk_bytes`; NCCL cuts it to the size of its buffers. May be
  /// null.
  ncclResult_t (*get_chunk_size)(void* ctx, Function function, std::size_t bytes, int algorithm,
                                 int protocol, int channels, std::size_t* chunk_bytes);
};
static_assert(sizeof(TunerV6) == 5 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_TUNER_V6_H_
