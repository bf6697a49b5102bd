#include "compress_kernels/powersgd/factors.h"

#include <algorithm>
#include <cmath>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/powersgd/arithmetic.h"
#include "compress_kernels/powersgd/powersgd.h"

namespace ringpress::compress_kernels::powersgd {
namespace {

double dot(const float* a, const float* b, std::size_t count) {
  double lanes[kDotLanes] = {};
  std::size_t i = 0;
  for (; i + kDotLanes <= count; i += kDotLanes) {
    for (std::size_t l = 0; l < kDotLanes; ++l) lanes[l] += double{a[i + l]} * double{b[i + l]};
  }
  for (std::size_t l = 0; i + l < count; ++l) lanes[l] += double{a[i + l]} * double{b[i + l]};
  for (std::size_t distance = kDotLanes / 2; distance > 0; distance /= 2) {
    for (std::size_t l = 0; l < distance; ++l) lanes[l] += lanes[l + distance];
  }
  return lanes[0];
}

void scale(double factor, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = scaled(values[i], factor);
  }
}

/// column -= (column . unit) unit
void remove_part(const float* unit, std::size_t count, float* column) {
  const double part = dot(column, unit, count);
  for (std::size_t i = 0; i < count; ++i) {
    column[i] = without_part(column[i], part, unit[i]);
  }
}

}  // namespace

void draw_column(const RandomKey& random, std::size_t k, std::size_t columns, float* column) {
  const std::uint64_t groups = (columns + core::kElementsPerGroup - 1) / core::kElementsPerGroup;
  const float factor = factor_of_draws(columns);
  for (std::uint64_t group = 0; group < groups; ++group) {
    const philox4x32_ctr_t words = words_of_group(random, k, columns, group);
    const std::size_t first = group * core::kElementsPerGroup;
    for (std::uint32_t i = 0; i < core::kElementsPerGroup && first + i < columns; ++i) {
      column[first + i] = drawn_value(words, i, factor);
    }
  }
}

void orthonormalise(std::size_t rows, std::size_t rank, float* p) {
  for (std::size_t k = 0; k < rank; ++k) {
    float* column = p + k * rows;
    const double whole = dot(column, column, rows);
    // Once is not enough for columns that are nearly parallel.
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t m = 0; m < k; ++m) remove_part(p + m * rows, rows, column);
    }
    const double left = dot(column, column, rows);
    if (is_worth_keeping(left, whole)) {
      scale(1 / std::sqrt(left), rows, column);
    } else {
      std::fill_n(column, rows, 0.0f);
    }
  }
}

bool normalise(std::size_t count, float* column) {
  if (!all_finite(column, count)) return false;
  const double square = dot(column, column, count);
  if (!(square > 0)) return false;
  scale(1 / std::sqrt(square), count, column);
  return true;
}

bool all_finite(const float* values, std::size_t count) {
  bool finite = true;
  for (std::size_t i = 0; i < count; ++i) {
    finite &= core::magnitude_bits(values[i]) < core::kInfinityBits;
  }
  return finite;
}

std::vector<float> spread_columns(const float* q, std::size_t columns, std::size_t rank) {
  const std::size_t stride = stride_of(columns);
  std::vector<float> spread(rank * stride);
  for (std::size_t k = 0; k < rank; ++k) {
    std::copy_n(q + k * columns, columns, spread.begin() + static_cast<std::ptrdiff_t>(k * stride));
  }
  return spread;
}

void gather_columns(const float* spread, std::size_t columns, std::size_t rank, float* q) {
  const std::size_t stride = stride_of(columns);
  for (std::size_t k = 0; k < rank; ++k) std::copy_n(spread + k * stride, columns, q + k * columns);
}

}  // namespace ringpress::compress_kernels::powersgd
