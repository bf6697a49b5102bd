// What a matrix loses at each rank, from one decomposition at the largest of them: of A it keeps
// P P^T A with orthonormal P, found by a few rounds of subspace iteration, and the squares of the
// singular values of Q = A^T P are what each further column of P keeps of the squares of A.
#include <string>

#include "compress_kernels/errors/errors.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/isa.h"
#include "compress_kernels/powersgd/factors.h"
#include "compress_kernels/powersgd/powersgd.h"

namespace ringpress::compress_kernels {
namespace {

constexpr int kRounds = 5;
// Columns above the largest rank: the last ones are found the worst.
constexpr std::size_t kSpareColumns = 4;
constexpr int kMostSweeps = 30;

Status check(const MeasuredTensor& tensor, const MeasuredMatrix& shape,
             std::span<const std::size_t> ranks) {
  const bool is_matrix = shape.rows != 0 && shape.columns == tensor.count / shape.rows &&
                         tensor.count % shape.rows == 0;
  if (!is_matrix) {
    return {Code::kInvalidArgument, std::to_string(tensor.count) + " values are no matrix of " +
                                        std::to_string(shape.rows) + " x " +
                                        std::to_string(shape.columns)};
  }
  for (const std::size_t rank : ranks) {
    if (rank >= 1 && rank <= powersgd::kLargestRank) continue;
    return {Code::kInvalidArgument, "a rank of " + std::to_string(rank) + "; allowed: 1 to 64"};
  }
  return Status::ok();
}

/// The eigenvalues of a symmetric matrix, the largest first: rotations that make all but the
/// diagonal vanish, one pair of rows and columns after the other (Jacobi).
class SymmetricMatrix {
 public:
  explicit SymmetricMatrix(std::size_t size) : size_(size), values_(size * size) {}

  double& at(std::size_t i, std::size_t j) { return values_[i * size_ + j]; }

  std::vector<double> eigenvalues() {
    for (int sweep = 0; sweep < kMostSweeps && rotate_all(); ++sweep) {
    }
    std::vector<double> found;
    for (std::size_t i = 0; i < size_; ++i) found.push_back(at(i, i));
    std::sort(found.rbegin(), found.rend());
    return found;
  }

 private:
  /// False if there was nothing left to rotate.
  bool rotate_all() {
    bool rotated = false;
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = i + 1; j < size_; ++j) rotated |= rotate(i, j);
    }
    return rotated;
  }

  bool rotate(std::size_t i, std::size_t j) {
    constexpr double kNegligible = 1e-14;
    const double off = at(i, j);
    if (std::abs(off) <= kNegligible * std::sqrt(std::abs(at(i, i) * at(j, j)))) return false;
    const double half = (at(j, j) - at(i, i)) / (2 * off);
    const double tangent = std::copysign(1.0, half) / (std::abs(half) + std::hypot(half, 1.0));
    const double cosine = 1 / std::hypot(tangent, 1.0);
    const double sine = tangent * cosine;
    for (std::size_t k = 0; k < size_; ++k) turn(&at(k, i), &at(k, j), cosine, sine);
    for (std::size_t k = 0; k < size_; ++k) turn(&at(i, k), &at(j, k), cosine, sine);
    return true;
  }
  static void turn(double* a, double* b, double cosine, double sine) {
    const double before = *a;
    *a = cosine * before - sine * *b;
    *b = sine * before + cosine * *b;
  }

  const std::size_t size_;
  std::vector<double> values_;
};

/// The squares of the singular values of the matrix, the largest first, as far as `columns` of P
/// find them. Empty: some value is not finite.
std::vector<double> squared_singular_values(const powersgd::MatrixView& matrix,
                                            std::size_t columns) {
  const powersgd::Kernels& kernels =
      selected_kernels(powersgd::reference_kernels(), powersgd::simd_kernels);
  const std::size_t stride = powersgd::stride_of(matrix.shape.columns);
  std::vector<float> p(columns * matrix.shape.rows);
  std::vector<float> q(columns * stride);
  for (std::size_t k = 0; k < columns; ++k) {
    powersgd::draw_column({}, k, matrix.shape.columns, q.data() + k * stride);
  }
  for (int round = 0; round < kRounds; ++round) {
    kernels.left(matrix, columns, q.data(), p.data());
    if (!powersgd::all_finite(p.data(), p.size())) return {};
    powersgd::orthonormalise(matrix.shape.rows, columns, p.data());
    kernels.right(matrix, columns, p.data(), q.data());
  }
  SymmetricMatrix products(columns);
  for (std::size_t i = 0; i < columns; ++i) {
    for (std::size_t j = i; j < columns; ++j) {
      const float* const a = q.data() + i * stride;
      const float* const b = q.data() + j * stride;
      double sum = 0;
      for (std::size_t k = 0; k < matrix.shape.columns; ++k) {
        sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
      }
      products.at(i, j) = products.at(j, i) = sum;
    }
  }
  return products.eigenvalues();
}

double squared_norm(const MeasuredTensor& tensor) {
  double sum = 0;
  errors::for_each_piece(tensor, [&](const float* x, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  });
  return sum;
}

}  // namespace

Result<std::vector<double>> measure_rank_errors(const MeasuredTensor& tensor,
                                                const MeasuredMatrix& shape,
                                                std::span<const std::size_t> ranks) {
  RINGPRESS_RETURN_IF_ERROR(check(tensor, shape, ranks));
  const std::size_t full = std::min(shape.rows, shape.columns);
  std::size_t columns = 0;
  for (const std::size_t rank : ranks) columns = std::max(columns, rank);
  columns = std::min({columns + kSpareColumns, full, powersgd::kLargestRank});
  const powersgd::MatrixView matrix{
      {shape.rows, shape.columns}, tensor.count, tensor.dtype, tensor.values, tensor.residual};
  const double whole = squared_norm(tensor);
  if (!std::isfinite(whole)) return std::vector<double>(ranks.size(), errors::kInfinity);
  const std::vector<double> kept = squared_singular_values(matrix, columns);
  if (kept.size() != columns) return std::vector<double>(ranks.size(), errors::kInfinity);
  std::vector<double> found;
  for (const std::size_t rank : ranks) {
    double rest = rank >= full ? 0 : whole;
    for (std::size_t i = 0; i < std::min(rank, kept.size()); ++i) rest -= kept[i];
    found.push_back(std::sqrt(std::max(0.0, rest)));
  }
  return found;
}

}  // namespace ringpress::compress_kernels
