// Test data that every rank can make again from (seed, rank).
#ifndef TESTS_SUPPORT_RANDOM_TENSOR_H_
#define TESTS_SUPPORT_RANDOM_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringpress::testing {

/// Normally distributed floats with a few values ten times as large, as gradients have.
std::vector<float> random_gradient(std::size_t count, std::uint64_t seed, int rank);

/// Small whole numbers: their sums and products of a few are exact in every type.
std::vector<int> random_small_integers(std::size_t count, std::uint64_t seed, int rank);

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_RANDOM_TENSOR_H_
