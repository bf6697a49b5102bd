#include "compress_kernels/none/none.h"

namespace ringpress::compress_kernels::none {

const KernelTable<NoneParameters>* simd_kernels(std::int64_t) {
  return nullptr;
}

}  // namespace ringpress::compress_kernels::none
