// What levels of compression would lose of a gradient, without compressing it at each of them: the
// tables that L-GreCo's choice is made from (levels.h). All errors are l2 norms of the loss of one
// encoding; infinity where the tensor is not finite.
#ifndef RINGPRESS_INTERNAL_ERROR_TABLES_H_
#define RINGPRESS_INTERNAL_ERROR_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ringpress/internal/types.h"

namespace ringpress {

/// A tensor, and what error feedback would add to it.
struct MeasuredTensor {
  const void* values = nullptr;     // `count` elements of a compressible type, any alignment.
  const float* residual = nullptr;  // `count` of them, or null.
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
};

/// How a tensor is seen as a matrix: element (i, j) is number i * columns + j.
struct MeasuredMatrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_ERROR_TABLES_H_
