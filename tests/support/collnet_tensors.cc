#include "tests/support/collnet_tensors.h"

#include <cmath>
#include <limits>

#include "ringpress/internal/types.h"
#include "tests/support/numbers.h"
#include "tests/support/random_tensor.h"

namespace ringpress::testing {
namespace {

DType dtype_of(ncclDataType_t type) {
  return type == ncclFloat32   ? DType::kFloat32
         : type == ncclFloat16 ? DType::kFloat16
                               : DType::kBfloat16;
}

/// Halves: exact in every type.
std::vector<float> node_gradient(std::size_t count, std::uint64_t seed, int rank) {
  auto values = random_gradient(count, seed, rank);
  for (float& value : values) value = std::round(value * 2) / 2;
  return values;
}

}  // namespace

std::vector<std::byte> gradient_of(std::size_t count, std::uint64_t seed, int rank,
                                   ncclDataType_t type) {
  const auto values = node_gradient(count, seed, rank);
  const std::size_t width = dtype_size(dtype_of(type));
  std::vector<std::byte> bytes(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    write_number(bytes.data() + i * width, dtype_of(type), values[i]);
  }
  return bytes;
}

std::vector<double> exact_sum(std::size_t count, std::uint64_t seed, int size) {
  std::vector<double> sum(count);
  for (int rank = 0; rank < size; ++rank) {
    const auto values = node_gradient(count, seed, rank);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

double relative_error(const std::vector<std::byte>& result, ncclDataType_t type,
                      const std::vector<double>& exact) {
  const std::size_t width = dtype_size(dtype_of(type));
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double value = read_number(result.data() + i * width, dtype_of(type));
    if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
    error += std::pow(value - exact[i], 2);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(norm > 0 ? error / norm : error);
}

}  // namespace ringpress::testing
