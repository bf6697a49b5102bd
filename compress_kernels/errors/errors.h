// Values as the tables of errors read them: a piece at a time, as float32.
#ifndef COMPRESS_KERNELS_ERRORS_ERRORS_H_
#define COMPRESS_KERNELS_ERRORS_ERRORS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "compress_kernels/core/element.h"
#include "ringpress/internal/error_tables.h"

namespace ringpress::compress_kernels::errors {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// x = elements `first` to `first + count` of the tensor, with their residuals.
inline void load_piece(const MeasuredTensor& tensor, std::size_t first, std::size_t count,
                       float* x) {
  core::visit_compressible(tensor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) x[i] = core::load_wide<T>(tensor.values, first + i);
  });
  if (tensor.residual == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) x[i] += tensor.residual[first + i];
}

/// A whole number of blocks of any size.
inline constexpr std::size_t kPiece = 1024;

/// Calls take(values, count) for one piece of at most kPiece values after the other.
template <typename Take>
void for_each_piece(const MeasuredTensor& tensor, Take&& take) {
  float x[kPiece];
  for (std::size_t first = 0; first < tensor.count; first += kPiece) {
    const std::size_t count = std::min(kPiece, tensor.count - first);
    load_piece(tensor, first, count, x);
    take(x, count);
  }
}

/// Lanes of sums: neighbours go to different ones, so that a compiler can add them together.
inline constexpr std::size_t kLanes = 16;

/// The sum of term(value) over values; a float32 sum of each lane, so not of many of them.
template <typename Term>
double sum_of(const float* x, std::size_t count, Term&& term) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(x[i + lane]);
  }
  for (; i < count; ++i) lanes[i % kLanes] += term(x[i]);
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

}  // namespace ringpress::compress_kernels::errors

#endif  // COMPRESS_KERNELS_ERRORS_ERRORS_H_
