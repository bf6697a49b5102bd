#include "nccl_plugin/session/calls/value_sample.h"

#include <algorithm>
#include <cmath>

#include "compress_kernels/factory.h"

namespace ringpress::nccl_plugin {
namespace {

// Fewer values other than zero say nothing of how they change, and of their sign.
constexpr int kLeastToCompare = 8, kLeastOfOneSign = 10;
// The cosine between two samples from which on the values have hardly changed.
constexpr double kUnchanged = 0.9;

/// NaN and Inf count as zero: an overflow is no evidence.
double finite(float value) {
  return std::isfinite(value) ? static_cast<double>(value) : 0.0;
}

bool is_one_signed(const ValueSample& sample) {
  const auto count = [&sample](auto&& test) {
    return std::count_if(sample.begin(), sample.end(), test);
  };
  const auto above = count([](float value) { return finite(value) > 0; });
  const auto below = count([](float value) { return finite(value) < 0; });
  return above + below >= kLeastOfOneSign && (above == 0 || below == 0);
}

enum class Change { kUntold, kSmall, kLarge };

Change change_of(const ValueSample& before, const ValueSample& now) {
  double both = 0, of_before = 0, of_now = 0;
  int values = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double a = finite(before[i]), b = finite(now[i]);
    both += a * b;
    of_before += a * a;
    of_now += b * b;
    values += a != 0 && b != 0 ? 1 : 0;
  }
  if (values < kLeastToCompare) return Change::kUntold;
  return both > kUnchanged * std::sqrt(of_before * of_now) ? Change::kSmall : Change::kLarge;
}

}  // namespace

ValueSample sample_values(const void* values, std::size_t count, DType dtype) {
  ValueSample sample{};
  if (!is_compressible(dtype)) return sample;
  const auto* const bytes = static_cast<const std::byte*>(values);
  const std::size_t step = std::max<std::size_t>(count / sample.size(), 1);
  for (std::size_t i = 0; i < sample.size() && i * step < count; ++i) {
    compress_kernels::add_values(bytes + i * step * dtype_size(dtype), 1, dtype, &sample[i]);
  }
  return sample;
}

/// Where values of one sign come once they may come always. That values hardly change must be so of
/// most, as layers may be frozen.
bool ValueEvidence::speak_against_gradients(
    std::size_t period, const std::function<bool(std::size_t)>& is_of_them) const {
  std::size_t small = 0, large = 0;
  for (std::size_t i = period; i < samples_.size(); ++i) {
    if (!is_of_them(i)) continue;
    if (is_one_signed(samples_[i - period]) && is_one_signed(samples_[i])) return true;
    switch (change_of(samples_[i - period], samples_[i])) {
      case Change::kUntold:
        break;
      case Change::kSmall:
        ++small;
        break;
      case Change::kLarge:
        ++large;
        break;
    }
  }
  return small > large;
}

}  // namespace ringpress::nccl_plugin
