// The specification of powersgd's products as code: plain loops over elements.
#include <algorithm>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/powersgd/powersgd.h"

namespace ringpress::compress_kernels::powersgd {
namespace {

static_assert(kLanesOfSum == core::kSumLanes);

float load(const MatrixView& matrix, std::size_t index) {
  const float value = core::load_wide(matrix.dtype, matrix.values, index);
  if (matrix.residual == nullptr) return value;
  return value + core::load_element<float>(matrix.residual, index);
}

/// Columns of row i that hold elements.
std::size_t length_of_row(const MatrixShape& shape, std::size_t count, std::size_t i) {
  return std::min(shape.columns, count - std::min(count, i * shape.columns));
}

void left(const MatrixView& matrix, std::size_t rank, const float* q, float* p) {
  const MatrixShape& shape = matrix.shape;
  const std::size_t stride = stride_of(shape.columns);
  for (std::size_t k = 0; k < rank; ++k) {
    for (std::size_t i = 0; i < shape.rows; ++i) {
      float lanes[kLanesOfSum] = {};
      for (std::size_t j = 0; j < length_of_row(shape, matrix.count, i); ++j) {
        lanes[j % kLanesOfSum] += load(matrix, i * shape.columns + j) * q[k * stride + j];
      }
      p[k * shape.rows + i] = core::sum_lanes(lanes);
    }
  }
}

void right(const MatrixView& matrix, std::size_t rank, const float* p, float* q) {
  const MatrixShape& shape = matrix.shape;
  const std::size_t stride = stride_of(shape.columns);
  std::fill_n(q, rank * stride, 0.0f);
  for (std::size_t k = 0; k < rank; ++k) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      for (std::size_t first = 0; first < shape.rows; first += kRowsOfSum) {
        float sum = 0;
        for (std::size_t i = first; i < std::min(shape.rows, first + kRowsOfSum); ++i) {
          if (j >= length_of_row(shape, matrix.count, i)) continue;
          sum += load(matrix, i * shape.columns + j) * p[k * shape.rows + i];
        }
        q[k * stride + j] += sum;
      }
    }
  }
}

float product(const RebuildArgs& args, const float* q, std::size_t i, std::size_t j) {
  const std::size_t stride = stride_of(args.shape.columns);
  float sum = args.p[i] * q[j];
  for (std::size_t k = 1; k < args.rank; ++k) {
    sum += args.p[k * args.shape.rows + i] * q[k * stride + j];
  }
  return sum;
}

void rebuild(const RebuildArgs& args) {
  for (std::size_t index = 0; index < args.count; ++index) {
    const std::size_t i = index / args.shape.columns;
    const std::size_t j = index % args.shape.columns;
    if (args.own.values != nullptr) {
      const float lost = load(args.own, index) - product(args, args.own_q, i, j);
      if (core::is_finite(lost)) core::store_element<float>(args.residual, index, lost);
    }
    if (args.result == nullptr) continue;
    core::store_wide(args.result_dtype, args.result, index, product(args, args.q, i, j));
  }
}

}  // namespace

const Kernels& reference_kernels() {
  static constexpr Kernels kKernels{left, right, rebuild};
  return kKernels;
}

}  // namespace ringpress::compress_kernels::powersgd
