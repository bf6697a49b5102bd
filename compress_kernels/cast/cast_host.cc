#include "compress_kernels/cast/cast.h"

namespace ringpress::compress_kernels::cast {

const KernelTable<CastParameters>* simd_kernels(std::int64_t) {
  return nullptr;
}

}  // namespace ringpress::compress_kernels::cast
