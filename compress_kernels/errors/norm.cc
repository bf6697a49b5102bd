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

}  // namespace ringpress::compress_kernels
