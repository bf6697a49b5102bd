// The products of powersgd for one target. Compiled once per target.
//
// All three take kRowGroup rows at a time, so that what is loaded of Q serves as many sums, and a
// panel of columns, whose values are first brought into aligned scratch as float32. Missing rows
// and columns are zeros there: to add a zero changes no sum that began as +0.
#if defined(COMPRESS_KERNELS_POWERSGD_POWERSGD_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_POWERSGD_POWERSGD_SIMD_INL_H_
#undef COMPRESS_KERNELS_POWERSGD_POWERSGD_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_POWERSGD_POWERSGD_SIMD_INL_H_
#endif

#include <hwy/aligned_allocator.h>

#include <algorithm>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/powersgd/powersgd.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::powersgd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::kFloatTag, arrays::kLanes;

inline constexpr std::size_t kRowGroup = 4;
inline constexpr std::size_t kPanel = 512;  // Columns; a multiple of kLanesOfSum.
// Columns of Q whose sums are kept in registers at a time: kRowGroup vectors each.
inline constexpr std::size_t kInRegisters = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
static_assert(kLanesOfSum % kLanes == 0);

/// Rows of one panel as float32.
struct Panel {
  std::size_t first_row = 0;
  std::size_t rows = 0;  // Of kRowGroup.
  std::size_t first_column = 0;
  std::size_t columns = 0;
  std::size_t padded = 0;  // A multiple of kLanesOfSum.

  Panel(const MatrixShape& shape, std::size_t row, std::size_t column)
      : first_row(row),
        rows(std::min(kRowGroup, shape.rows - row)),
        first_column(column),
        columns(std::min(kPanel, shape.columns - column)),
        padded((columns + kLanesOfSum - 1) / kLanesOfSum * kLanesOfSum) {}

  /// Index in the matrix of the first element of a row.
  std::size_t index(const MatrixShape& shape, std::size_t row) const {
    return (first_row + row) * shape.columns + first_column;
  }
  /// Elements of a row that are there.
  std::size_t length(const MatrixShape& shape, std::size_t count, std::size_t row) const {
    if (row >= rows) return 0;
    return std::min(columns, count - std::min(count, index(shape, row)));
  }
};

/// x[row * kPanel + column]
inline void load_panel(const MatrixView& matrix, const Panel& panel, float* x) {
  for (std::size_t row = 0; row < kRowGroup; ++row) {
    float* values = x + row * kPanel;
    const std::size_t length = panel.length(matrix.shape, matrix.count, row);
    const std::size_t index = panel.index(matrix.shape, row);
    if (length > 0 && matrix.residual != nullptr) {
      arrays::load_sum(matrix.dtype, matrix.values, matrix.residual, index, length, values);
    } else if (length > 0) {
      arrays::load_array(matrix.dtype, matrix.values, index, length, values);
    }
    std::fill(values + length, values + panel.padded, 0.0f);
  }
}

/// lanes[(k * kRowGroup + row) * kLanesOfSum + l] += ... for kCount columns of Q from k on.
template <std::size_t kCount>
HWY_INLINE void add_to_lanes(const float* x, std::size_t padded, const float* q, std::size_t stride,
                             float* lanes) {
  for (std::size_t part = 0; part < kLanesOfSum; part += kLanes) {
    Floats sums[kCount][kRowGroup];
    for (std::size_t k = 0; k < kCount; ++k) {
      for (std::size_t row = 0; row < kRowGroup; ++row) {
        sums[k][row] = hn::Load(kFloatTag, lanes + (k * kRowGroup + row) * kLanesOfSum + part);
      }
    }
    for (std::size_t j = part; j < padded; j += kLanesOfSum) {
      Floats values[kRowGroup];
      for (std::size_t row = 0; row < kRowGroup; ++row) {
        values[row] = hn::Load(kFloatTag, x + row * kPanel + j);
      }
      for (std::size_t k = 0; k < kCount; ++k) {
        const Floats factor = hn::LoadU(kFloatTag, q + k * stride + j);
        for (std::size_t row = 0; row < kRowGroup; ++row) {
          sums[k][row] = hn::Add(sums[k][row], hn::Mul(values[row], factor));
        }
      }
    }
    for (std::size_t k = 0; k < kCount; ++k) {
      for (std::size_t row = 0; row < kRowGroup; ++row) {
        hn::Store(sums[k][row], kFloatTag, lanes + (k * kRowGroup + row) * kLanesOfSum + part);
      }
    }
  }
}

inline void add_panel_to_lanes(const float* x, const Panel& panel, std::size_t rank, const float* q,
                               std::size_t stride, float* lanes) {
  const float* column = q + panel.first_column;
  std::size_t k = 0;
  for (; k + kInRegisters <= rank; k += kInRegisters) {
    add_to_lanes<kInRegisters>(x, panel.padded, column + k * stride, stride,
                               lanes + k * kRowGroup * kLanesOfSum);
  }
  for (; k < rank; ++k) {
    add_to_lanes<1>(x, panel.padded, column + k * stride, stride,
                    lanes + k * kRowGroup * kLanesOfSum);
  }
}

inline void left(const MatrixView& matrix, std::size_t rank, const float* q, float* p) {
  const MatrixShape& shape = matrix.shape;
  HWY_ALIGN float x[kRowGroup * kPanel];
  HWY_ALIGN float lanes[kLargestRank * kRowGroup * kLanesOfSum];
  for (std::size_t first = 0; first < shape.rows; first += kRowGroup) {
    std::fill_n(lanes, rank * kRowGroup * kLanesOfSum, 0.0f);
    for (std::size_t column = 0; column < shape.columns; column += kPanel) {
      const Panel panel(shape, first, column);
      load_panel(matrix, panel, x);
      add_panel_to_lanes(x, panel, rank, q, stride_of(shape.columns), lanes);
    }
    const std::size_t rows = std::min(kRowGroup, shape.rows - first);
    for (std::size_t k = 0; k < rank; ++k) {
      for (std::size_t row = 0; row < rows; ++row) {
        p[k * shape.rows + first + row] =
            core::sum_lanes(lanes + (k * kRowGroup + row) * kLanesOfSum);
      }
    }
  }
}

/// The values of P for a group of rows: factors[k * kRowGroup + row], zero for missing rows.
inline void load_factors(const float* p, const MatrixShape& shape, std::size_t rank,
                         std::size_t first_row, float* factors) {
  const std::size_t rows = std::min(kRowGroup, shape.rows - first_row);
  for (std::size_t k = 0; k < rank; ++k) {
    for (std::size_t row = 0; row < kRowGroup; ++row) {
      factors[k * kRowGroup + row] = row < rows ? p[k * shape.rows + first_row + row] : 0.0f;
    }
  }
}

/// sums[k * kPanel + j] += sum over the rows of the group, in order.
inline void add_rows(const float* x, std::size_t padded, std::size_t rank, const float* factors,
                     float* sums) {
  for (std::size_t j = 0; j < padded; j += kLanes) {
    Floats values[kRowGroup];
    for (std::size_t row = 0; row < kRowGroup; ++row) {
      values[row] = hn::Load(kFloatTag, x + row * kPanel + j);
    }
    for (std::size_t k = 0; k < rank; ++k) {
      Floats sum = hn::Load(kFloatTag, sums + k * kPanel + j);
      for (std::size_t row = 0; row < kRowGroup; ++row) {
        const Floats factor = hn::Set(kFloatTag, factors[k * kRowGroup + row]);
        sum = hn::Add(sum, hn::Mul(values[row], factor));
      }
      hn::Store(sum, kFloatTag, sums + k * kPanel + j);
    }
  }
}

inline void right(const MatrixView& matrix, std::size_t rank, const float* p, float* q) {
  const MatrixShape& shape = matrix.shape;
  const std::size_t stride = stride_of(shape.columns);
  std::fill_n(q, rank * stride, 0.0f);
  HWY_ALIGN float x[kRowGroup * kPanel];
  HWY_ALIGN float factors[kLargestRank * kRowGroup];
  const auto sums = hwy::AllocateAligned<float>(rank * kPanel);
  for (std::size_t block = 0; block < shape.rows; block += kRowsOfSum) {
    const std::size_t end = std::min(shape.rows, block + kRowsOfSum);
    for (std::size_t column = 0; column < shape.columns; column += kPanel) {
      std::fill_n(sums.get(), rank * kPanel, 0.0f);
      const Panel whole(shape, block, column);
      for (std::size_t first = block; first < end; first += kRowGroup) {
        load_panel(matrix, Panel(shape, first, column), x);
        load_factors(p, shape, rank, first, factors);
        add_rows(x, whole.padded, rank, factors, sums.get());
      }
      for (std::size_t k = 0; k < rank; ++k) {
        float* total = q + k * stride + column;
        for (std::size_t j = 0; j < whole.padded; j += kLanes) {
          const Floats sum = hn::Load(kFloatTag, sums.get() + k * kPanel + j);
          hn::StoreU(hn::Add(hn::LoadU(kFloatTag, total + j), sum), kFloatTag, total + j);
        }
      }
    }
  }
}

/// y = P Q^T for one panel.
inline void multiply(const float* factors, std::size_t rank, const float* q, std::size_t stride,
                     std::size_t padded, float* y) {
  for (std::size_t j = 0; j < padded; j += kLanes) {
    Floats sums[kRowGroup];
    const Floats first = hn::LoadU(kFloatTag, q + j);
    for (std::size_t row = 0; row < kRowGroup; ++row) {
      sums[row] = hn::Mul(hn::Set(kFloatTag, factors[row]), first);
    }
    for (std::size_t k = 1; k < rank; ++k) {
      const Floats values = hn::LoadU(kFloatTag, q + k * stride + j);
      for (std::size_t row = 0; row < kRowGroup; ++row) {
        const Floats factor = hn::Set(kFloatTag, factors[k * kRowGroup + row]);
        sums[row] = hn::Add(sums[row], hn::Mul(factor, values));
      }
    }
    for (std::size_t row = 0; row < kRowGroup; ++row) {
      hn::Store(sums[row], kFloatTag, y + row * kPanel + j);
    }
  }
}

/// residual = x - y, where that is finite.
inline void keep_lost(const float* x, const float* y, std::size_t count, float* residual,
                      std::size_t index) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats lost = hn::Sub(hn::Load(kFloatTag, x + i), hn::Load(kFloatTag, y + i));
    const Floats old = arrays::load_floats<float>(residual, index + i);
    arrays::store_floats<float>(hn::IfThenElse(hn::IsFinite(lost), lost, old), residual, index + i);
  }
  for (; i < count; ++i) {
    const float lost = x[i] - y[i];
    if (core::is_finite(lost)) core::store_element<float>(residual, index + i, lost);
  }
}

/// The residual of a panel; leaves the values of P own_q^T in `y`.
inline void rebuild_own(const RebuildArgs& args, const Panel& panel, const float* factors, float* x,
                        float* y) {
  load_panel(args.own, panel, x);
  multiply(factors, args.rank, args.own_q + panel.first_column, stride_of(args.shape.columns),
           panel.padded, y);
  for (std::size_t row = 0; row < panel.rows; ++row) {
    keep_lost(x + row * kPanel, y + row * kPanel, panel.length(args.shape, args.count, row),
              args.residual, panel.index(args.shape, row));
  }
}

inline void rebuild(const RebuildArgs& args) {
  HWY_ALIGN float x[kRowGroup * kPanel];
  HWY_ALIGN float y[kRowGroup * kPanel];
  HWY_ALIGN float factors[kLargestRank * kRowGroup];
  const bool keeps_residual = args.own.values != nullptr;
  for (std::size_t first = 0; first < args.shape.rows; first += kRowGroup) {
    load_factors(args.p, args.shape, args.rank, first, factors);
    for (std::size_t column = 0; column < args.shape.columns; column += kPanel) {
      const Panel panel(args.shape, first, column);
      if (keeps_residual) rebuild_own(args, panel, factors, x, y);
      if (args.result == nullptr) continue;
      if (!keeps_residual || args.own_q != args.q) {
        multiply(factors, args.rank, args.q + column, stride_of(args.shape.columns), panel.padded,
                 y);
      }
      for (std::size_t row = 0; row < panel.rows; ++row) {
        arrays::store_array(args.result_dtype, y + row * kPanel,
                            panel.length(args.shape, args.count, row), args.result,
                            panel.index(args.shape, row));
      }
    }
  }
}

inline const Kernels& kernels() {
  static constexpr Kernels kKernels{left, right, rebuild};
  return kKernels;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::powersgd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
