#include "nccl_plugin/session/lazy/lazy_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compress_kernels/factory.h"

namespace ringpress::nccl_plugin {
namespace {

double length_of(double squares) {
  return std::isfinite(squares) ? std::sqrt(squares) : std::numeric_limits<double>::infinity();
}

class HostLazyMemory final : public LazyMemory {
 public:
  float* allocate(std::size_t count) override { return host_residual_memory().allocate(count); }
  void free(float* sum) override { host_residual_memory().free(sum); }

  Result<Lengths> measure(const GradientSpan& gradient, const float* sum) override {
    return lengths_of(
        compress_kernels::measure_lengths(gradient.values, sum, gradient.count, gradient.dtype));
  }
  Status add(const GradientSpan& gradient, float* sum) override {
    compress_kernels::add_values(gradient.values, gradient.count, gradient.dtype, sum);
    return Status::ok();
  }
  Status write_total(const GradientSpan& gradient, const float* sum, void* to) override {
    compress_kernels::write_total(gradient.values, sum, gradient.count, gradient.dtype, to);
    return Status::ok();
  }
  Status clear(float* sum, std::size_t count) override {
    std::fill_n(sum, count, 0.0F);
    return Status::ok();
  }
};

}  // namespace

Lengths lengths_of(const LengthPart& squares) {
  return {length_of(squares.value_squares), length_of(squares.total_squares)};
}

LazyMemory& host_lazy_memory() {
  static HostLazyMemory host;
  return host;
}

}  // namespace ringpress::nccl_plugin
