#include "compress_kernels/errors/errors.h"
#include "compress_kernels/factory.h"

namespace ringpress::compress_kernels {

double measure_norm(const MeasuredTensor& tensor) {
  double squares = 0;
  errors::for_each_piece(tensor, [&](const float* x, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
  });
  return std::isfinite(squares) ? std::sqrt(squares) : errors::kInfinity;
}

LengthPart measure_lengths(const void* values, const float* sum, std::size_t count, DType dtype) {
  LengthPart squares;
  std::size_t first = 0;
  errors::for_each_piece({values, nullptr, count, dtype}, [&](const float* x, std::size_t some) {
    for (std::size_t i = 0; i < some; ++i) {
      squares.value_squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      if (sum == nullptr) continue;
      const float total = sum[first + i] + x[i];
      squares.total_squares += static_cast<double>(total) * static_cast<double>(total);
    }
    first += some;
  });
  return squares;
}

}  // namespace ringpress::compress_kernels
