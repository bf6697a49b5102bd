// Tensors that nodes with CollNet sum, and how far off a sum is.
#ifndef TESTS_SUPPORT_COLLNET_TENSORS_H_
#define TESTS_SUPPORT_COLLNET_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringpress/nccl.h"

namespace ringpress::testing {

/// A gradient of one node: halves, which are exact in float32, float16 and bfloat16, as `type`.
std::vector<std::byte> gradient_of(std::size_t count, std::uint64_t seed, int rank,
                                   ncclDataType_t type);

/// The sum of what gradient_of() makes for ranks 0 to size - 1.
std::vector<double> exact_sum(std::size_t count, std::uint64_t seed, int size);

/// l2 norm of the error over that of the sum; infinite for a non-finite value.
double relative_error(const std::vector<std::byte>& result, ncclDataType_t type,
                      const std::vector<double>& exact);

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_COLLNET_TENSORS_H_
