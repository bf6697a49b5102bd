// How the time of an operation is measured, and what values it is given.
#ifndef COMPRESS_KERNELS_SPEED_TIMING_H_
#define COMPRESS_KERNELS_SPEED_TIMING_H_

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/factory.h"
#include "ringpress/internal/cost_model.h"

namespace ringpress::compress_kernels::speed {

inline constexpr std::size_t kSmall = 1024;  // What an operation takes of so few is its start.
inline constexpr std::size_t kLarge = std::size_t{1} << 17;
// More than a core's caches hold.
inline constexpr std::size_t kWhole = std::size_t{1} << 22;
inline constexpr std::size_t kDifferent = std::size_t{1}
                                          << 14;  // Then values repeat: they are dear.
inline constexpr int kRepetitions = 4;

inline std::vector<float> make_values(ErrorOf values) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, 1e-3f);
  std::student_t_distribution<float> heavy(3);
  std::vector<float> made(kDifferent);
  for (float& value : made) {
    switch (values) {
      case ErrorOf::kNormalValues:
        value = normal(generator);
        break;
      case ErrorOf::kHeavyTails:
        value = 1e-3f * heavy(generator);
        break;
    }
  }
  return made;
}

/// `count` elements of such values.
inline std::vector<std::byte> make_elements(ErrorOf values, DType dtype, std::size_t count) {
  const std::vector<float> different = make_values(values);
  std::vector<std::byte> made(count * dtype_size(dtype));
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < std::min(count, kDifferent); ++i) {
      core::store_wide<T>(made.data(), i, different[i]);
    }
  });
  const std::size_t period = kDifferent * dtype_size(dtype);
  for (std::size_t at = period; at < made.size(); at += period) {
    std::copy_n(made.data(), std::min(period, made.size() - at), made.data() + at);
  }
  return made;
}

/// The l2 norm of what `count` elements have lost over that of what they were.
inline double relative_error(DType dtype, const std::byte* were, const std::byte* are,
                             std::size_t count) {
  double lost = 0;
  double whole = 0;
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(core::load_wide<T>(were, i));
      const double rest = value - static_cast<double>(core::load_wide<T>(are, i));
      lost += rest * rest;
      whole += value * value;
    }
  });
  return std::sqrt(lost / whole);
}

/// Of several times operation(count), as other programs only ever make it slower.
template <typename Operation>
double quickest(Operation& operation, std::size_t count) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepetitions; ++i) {
    const Clock::time_point begin = Clock::now();
    operation(count);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

/// Of operation(count), elements of so many bytes each, of which there are `most`.
template <typename Operation>
OperationCost cost_of(Operation&& operation, std::size_t element_bytes, std::size_t most = kLarge) {
  const double few = quickest(operation, kSmall);
  const double many = quickest(operation, most);
  OperationCost cost;
  cost.seconds_per_byte = many / static_cast<double>(most * element_bytes);
  cost.start_seconds =
      std::max(0.0, few - cost.seconds_per_byte * static_cast<double>(kSmall * element_bytes));
  return cost;
}

}  // namespace ringpress::compress_kernels::speed

#endif  // COMPRESS_KERNELS_SPEED_TIMING_H_
