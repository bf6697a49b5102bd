// Tuner plugin, version 3. NCCL 2.22 and later: a table of costs instead of one choice.
#ifndef NCCL_PLUGIN_ABI_TUNER_V3_H_
#define NCCL_PLUGIN_ABI_TUNER_V3_H_

#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

/// Rows of the cost table.
enum class Algorithm : int {
  kTree = 0,
  kRing = 1,
  kCollNetDirect = 2,
  kCollNetChain = 3,
  kNvls = 4,
  kNvlsTree = 5,
  kPat = 6,
};

/// Its columns.
enum class Protocol : int { kLowLatency = 0, kLowLatency128 = 1, kSimple = 2 };

/// The cost of what cannot be chosen.
constexpr float kNotAvailable = -1.0F;

struct TunerV3 {
  const char* name;
  ncclResult_t (*init)(std::size_t ranks, std::size_t nodes, Logger log, void** ctx);
  /// `costs` has algorithms x protocols entries in microseconds, rows together; NCCL takes the
  /// least that is not negative. It is declared with one star more than it has.
  ncclResult_t (*get_coll_info)(void* ctx, Function function, std::size_t bytes, int pipelined_ops,
                                float** costs, int algorithms, int protocols, int* channels);
  ncclResult_t (*destroy)(void* ctx);
};
static_assert(sizeof(TunerV3) == 4 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_TUNER_V3_H_
