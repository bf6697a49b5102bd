// Environment plugin, version 1. NCCL 2.28.7 and later.
#ifndef NCCL_PLUGIN_ABI_ENV_V1_H_
#define NCCL_PLUGIN_ABI_ENV_V1_H_

#include "nccl_plugin/abi/types.h"

namespace ringpress::abi {

struct EnvV1 {
  const char* name;
  ncclResult_t (*init)(std::uint8_t nccl_major, std::uint8_t nccl_minor, std::uint8_t nccl_patch,
                       const char* nccl_suffix);
  ncclResult_t (*finalize)();
  /// The value of a variable or null. Valid until finalize() or the next call with this name.
  const char* (*get_env)(const char* name);
};
static_assert(sizeof(EnvV1) == 4 * sizeof(void*));

}  // namespace ringpress::abi

#endif  // NCCL_PLUGIN_ABI_ENV_V1_H_
