#include "compress_kernels/uniform/uniform.h"

namespace ringpress::compress_kernels::uniform {

const KernelTable<UniformParameters>* simd_kernels(std::int64_t) {
  return nullptr;
}

}  // namespace ringpress::compress_kernels::uniform
