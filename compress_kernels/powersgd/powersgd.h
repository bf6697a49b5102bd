// powersgd:rank=r: a matrix M as the product of two thin ones (Vogels et al., PowerSGD, 2019). One
// step of power iteration from an earlier or random Q: P = M Q, P's columns orthonormalised,
// Q = M^T P; decoded: P Q^T, the part of M that lies in the space of P's columns.
//
// Both products are linear in M, so ranks sum P, then Q, and never encode M: see projection.cc,
// which all-reduces. The form described here stands alone: one chunk of one rank.
//
// Wire bytes of a chunk of n values. There is no header and the bytes do not depend on the element
// type. A chunk is a matrix of rows x columns, row by row, the last row filled up with zeros
// (squarest()). It is stored as it is if that is not longer: n <= r (rows + columns).
//
//   bytes            content
//   4 r rows         P, float32, column after column
//   4 r columns      Q, float32, column after column
//   or
//   4 n              the values, float32
//
// Arithmetic, each operation rounded to float32 (orthonormalise() to float64):
//
//   P_ik   sum over j of M_ij Q_jk in 16 lanes: j goes to lane j mod 16; lanes are added as
//          core::sum_lanes() does
//   Q_jk   sum over i of M_ij P_ik, in order: blocks of 64 rows, then the sums of the blocks
//   value  sum over k of P_ik Q_jk, in order
//
// A chunk with a NaN or an infinity, or whose P or Q overflows, gets P = NaN and Q = 0, decodes to
// NaN throughout and leaves its residual alone. Rows and columns of finite values overflow only if
// their l2 norm does.
//
// Error of a finite chunk, as the l2 norm of all its errors over that of its values: at most 1, but
// for rounding, since what is decoded is an orthogonal projection.
#ifndef COMPRESS_KERNELS_POWERSGD_POWERSGD_H_
#define COMPRESS_KERNELS_POWERSGD_POWERSGD_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/projection.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::powersgd {

inline constexpr std::size_t kLargestRank = 64;
/// Lanes of the sums of P.
inline constexpr std::size_t kLanesOfSum = 16;
/// Rows that are summed before the sum is added to that of the rows before.
inline constexpr std::size_t kRowsOfSum = 64;

struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  bool operator==(const MatrixShape&) const = default;
};

/// How `count` elements are seen as a matrix when nothing is known of them: as rows x columns =
/// count, rows <= columns <= 4 rows, with as many rows as possible; if there are no such factors,
/// as the smallest square that is not smaller, less the rows that it has no use for.
MatrixShape squarest(std::size_t count);

/// True if P and Q of such a matrix are smaller than its `count` elements.
inline bool is_worth_projecting(std::size_t rank, const MatrixShape& shape, std::size_t count) {
  // Divided, not multiplied: no product of what a caller says of a tensor may wrap around.
  return shape.rows != 0 && shape.columns != 0 &&
         shape.rows + shape.columns < count / rank + (count % rank != 0 ? 1 : 0);
}

/// A matrix in memory: element (i, j) is values[i * columns + j] + residual[i * columns + j], zero
/// from `count` on. Any alignment.
struct MatrixView {
  MatrixShape shape;
  std::size_t count = 0;
  DType dtype = DType::kFloat32;
  const void* values = nullptr;
  const float* residual = nullptr;  // May be null.
};

/// Floats from a column of Q to the next in memory of the kernels: whole vectors, and not a
/// multiple of a page, so that columns do not share the same sets of a cache. What lies between is
/// zero.
RINGPRESS_HOST_DEVICE inline std::size_t stride_of(std::size_t columns) {
  return (columns + kLanesOfSum - 1) / kLanesOfSum * kLanesOfSum + kLanesOfSum;
}

/// P Q^T, element by element.
struct RebuildArgs {
  MatrixShape shape;
  std::size_t count = 0;
  std::size_t rank = 0;
  const float* p = nullptr;
  const float* q = nullptr;  // Column k at k * stride_of(columns).
  void* result = nullptr;    // Null: not wanted.
  DType result_dtype = DType::kFloat32;
  // If own.values is not null: residual = own - P own_q^T, where that is finite.
  MatrixView own;
  const float* own_q = nullptr;  // May be `q`.
  float* residual = nullptr;     // As own.residual.
};

/// What each instruction set has its own code for. P is stored column after column.
struct Kernels {
  /// p = M q
  void (*left)(const MatrixView& matrix, std::size_t rank, const float* q, float* p) = nullptr;
  /// q = M^T p. Zeros what lies between columns, too.
  void (*right)(const MatrixView& matrix, std::size_t rank, const float* p, float* q) = nullptr;
  /// `result` may be own.values.
  void (*rebuild)(const RebuildArgs& args) = nullptr;
};

/// The specification: one element at a time.
const Kernels& reference_kernels();
/// The kernels of a Highway target; null if this build has none for it.
const Kernels* simd_kernels(std::int64_t target);

struct Parameters {
  std::size_t rank = 4;
  DType dtype = DType::kFloat32;
};

std::size_t encoded_bytes(const Parameters& parameters, std::size_t count);

std::unique_ptr<Projection> make_projection(const Parameters& parameters, const Kernels& kernels);

}  // namespace ringpress::compress_kernels::powersgd

#endif  // COMPRESS_KERNELS_POWERSGD_POWERSGD_H_
