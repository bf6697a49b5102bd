// Tuner plugin, version 5. NCCL 2.28 and later: the id of the communicator, NVLink domains.
#ifndef NCCL_PLUGIN_ABI_TUNER_V5_H_
#define NCCL_PLUGIN_ABI_TUNER_V5_H_

#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

struct NvlDomainInfoV5 {
  int domains;
  int least_ranks;  // In one domain.
  int most_ranks;
};
static_assert(sizeof(NvlDomainInfoV5) == 12);

struct TunerConstantsV5;  // The constants of NCCL's own model. Not touched here.

struct TunerV5 {
  const char* name;
  ncclResult_t (*init)(void** ctx, std::uint64_t comm_id, std::size_t ranks, std::size_t nodes,
                       Logger log, NvlDomainInfoV5* nvl_domains, TunerConstantsV5* constants);
  ncclResult_t (*get_coll_info)(void* ctx, Function function, std::size_t bytes, int pipelined_ops,
                                float** costs, int algorithms, int protocols,
                                int buffers_can_register, int* channels);
  ncclResult_t (*finalize)(void* ctx);
};
static_assert(sizeof(TunerV5) == 4 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_TUNER_V5_H_
