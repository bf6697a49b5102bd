#include "compress_kernels/errors/errors.h"
#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels {
namespace {

/// `squares` and those of the values, added up in their order.
double more_squares(const float* x, std::size_t count, double squares) {
  for (std::size_t i = 0; i < count; ++i) {
    squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return squares;
}

/// The same, and of the values with a sum: two sums that do not wait for each other.
LengthPart more_squares_of_both(const float* x, const float* sum, std::size_t count,
                                LengthPart squares) {
  double values = squares.value_squares, totals = squares.total_squares;
  for (std::size_t i = 0; i < count; ++i) {
    const float total = sum[i] + x[i];
    values += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    totals += static_cast<double>(total) * static_cast<double>(total);
  }
  return {values, totals};
}

}  // namespace

double measure_norm(const MeasuredTensor& tensor) {
  double squares = 0;
  errors::for_each_piece(tensor, [&](const float* x, std::size_t count) {
    squares = more_squares(x, count, squares);
  });
  return std::isfinite(squares) ? std::sqrt(squares) : errors::kInfinity;
}

LengthPart measure_lengths(const void* values, const float* sum, std::size_t count, DType dtype) {
  LengthPart squares;
  std::size_t first = 0;
  errors::for_each_piece({values, nullptr, count, dtype}, [&](const float* x, std::size_t some) {
    if (sum == nullptr) {
      squares.value_squares = more_squares(x, some, squares.value_squares);
    } else {
      squares = more_squares_of_both(x, sum + first, some, squares);
    }
    first += some;
  });
  return squares;
}

}  // namespace ringpress::compress_kernels
