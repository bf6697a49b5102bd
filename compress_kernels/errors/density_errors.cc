// What is left out if only the largest values are kept: from one histogram of the squares, by the
// upper half of a magnitude's bits. Of the values of one bin, which differ by less than a
// hundredth, those that are kept count as so many equal ones.
#include <string>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/errors/errors.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/topk/topk.h"

namespace ringpress::compress_kernels {
namespace {

constexpr unsigned kBinShift = 16;
constexpr std::size_t kBins = core::kInfinityBits >> kBinShift;  // Of finite values.

struct Bin {
  std::size_t count = 0;
  double squares = 0;
};

struct Histogram {
  std::vector<Bin> bins{kBins};
  bool is_finite = true;

  void add(const float* x, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t number = core::magnitude_bits(x[i]) >> kBinShift;
      if (number >= kBins) {
        is_finite = false;
        return;
      }
      ++bins[number].count;
      bins[number].squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
  }

  /// The squares of all but the `kept` largest values.
  double squares_below(std::size_t kept) const {
    std::size_t number = kBins;
    while (number > 0 && bins[number - 1].count <= kept) kept -= bins[--number].count;
    double sum = 0;
    for (std::size_t i = 0; i < number; ++i) sum += bins[i].squares;
    if (number == 0) return 0;
    const Bin& shared = bins[number - 1];
    const double share = static_cast<double>(kept) / static_cast<double>(shared.count);
    return std::max(0.0, sum - shared.squares * share);
  }
};

}  // namespace

Result<std::vector<double>> measure_density_errors(const MeasuredTensor& tensor,
                                                   std::span<const double> densities) {
  for (const double density : densities) {
    if (density > 0 && density <= 1) continue;
    return Status(Code::kInvalidArgument,
                  "a density of " + std::to_string(density) + "; allowed: above 0, at most 1");
  }
  Histogram histogram;
  errors::for_each_piece(tensor,
                         [&](const float* x, std::size_t count) { histogram.add(x, count); });
  std::vector<double> errors;
  for (const double density : densities) {
    const std::size_t kept = topk::selected_count(density, tensor.count);
    errors.push_back(histogram.is_finite ? std::sqrt(histogram.squares_below(kept))
                                         : errors::kInfinity);
  }
  return errors;
}

}  // namespace ringpress::compress_kernels
