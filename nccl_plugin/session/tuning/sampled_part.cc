#include "nccl_plugin/session/tuning/sampled_part.h"

#include <cmath>
#include <numeric>

#include "compress_kernels/factory.h"
#include "ringpress/internal/codec.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

// Steps that show how values grow; deviations by which a slope is off by chance, and that are left.
constexpr std::size_t kFewestForGrowth = 10;
constexpr double kClearDeviations = 2;
constexpr double kMostGrowth = 4;

}  // namespace

double squares_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return sum;
}

std::vector<float> sketch_of(std::span<const float> values, std::size_t length) {
  std::vector<float> sketch(length);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t hash = mix_bits(i + 1);
    sketch[(hash >> 1) % length] += (hash & 1) != 0 ? values[i] : -values[i];
  }
  return sketch;
}

SampledPart::SampledPart(std::size_t count, std::size_t wanted)
    : count_(count), runs_((wanted + kTileElements - 1) / kTileElements) {
  if (wanted >= count || runs_ * kTileElements >= count) runs_ = 0;
  size_ = runs_ == 0 ? count : runs_ * kTileElements;
  sums_.assign(size_, 0);
}

std::vector<float> SampledPart::load(const MeasuredTensor& part) const {
  std::vector<float> values(size_);
  const auto* const bytes = static_cast<const std::byte*>(part.values);
  if (runs_ == 0) compress_kernels::add_values(bytes, size_, part.dtype, values.data());
  for (std::size_t run = 0; run < runs_; ++run) {
    // Evenly over all tiles but the last one, which may be shorter.
    const std::size_t first = run * (count_ / kTileElements) / runs_ * kTileElements;
    compress_kernels::add_values(bytes + first * dtype_size(part.dtype), kTileElements, part.dtype,
                                 &values[run * kTileElements]);
  }
  return values;
}

bool SampledPart::add(const MeasuredTensor& part, bool keeps) {
  std::vector<float> values = load(part);
  const double squares = squares_of(values);
  if (!std::isfinite(squares)) return false;
  if (squares > 0) sizes_.push_back(std::log(squares) / 2);
  has_feedback_ |= part.residual != nullptr;
  ++added_;
  for (std::size_t i = 0; i < size_; ++i) sums_[i] += values[i];
  if (keeps) steps_.push_back(std::move(values));
  return true;
}

std::vector<float> SampledPart::mean() const {
  std::vector<float> mean = sums_;
  for (float& value : mean) value /= static_cast<float>(added_);
  double deviations = 0;
  for (const std::vector<float>& values : steps_) {
    for (std::size_t i = 0; i < size_; ++i) {
      deviations += std::pow(double{values[i]} - double{mean[i]}, 2);
    }
  }
  // The mean's squares are those of what is always there, and of chance over the steps.
  const double chance =
      deviations / static_cast<double>(steps_.size()) / static_cast<double>(added_);
  const double squares = squares_of(mean);
  const double real = squares > 0 ? std::max(0.0, 1 - chance / squares) : 0;
  for (float& value : mean) value *= static_cast<float>(std::sqrt(real));
  return mean;
}

double SampledPart::growth(std::size_t steps) const {
  const auto count = static_cast<double>(sizes_.size());
  if (sizes_.size() < kFewestForGrowth) return 1;
  const double middle = (count - 1) / 2;
  const double mean = std::accumulate(sizes_.begin(), sizes_.end(), 0.0) / count;
  double of_times = 0, of_both = 0, of_sizes = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const double time = static_cast<double>(i) - middle, size = sizes_[i] - mean;
    of_times += time * time;
    of_both += time * size;
    of_sizes += size * size;
  }
  const double slope = of_both / of_times;
  const double rest = std::max(0.0, of_sizes - slope * of_both);
  const double deviation = std::sqrt(rest / (count - 2) / of_times);
  const double clear = std::max(0.0, std::abs(slope) - kClearDeviations * deviation);
  const double most = std::log(kMostGrowth);
  return std::exp(std::copysign(std::min(clear * static_cast<double>(steps), most), slope));
}

std::vector<float> SampledPart::mixed_deviations(std::span<const float> mean,
                                                 std::size_t steps) const {
  std::vector<float> mixed(size_);
  for (std::size_t age = 0; age < std::min(steps, steps_.size()); ++age) {
    const std::vector<float>& values = steps_[steps_.size() - 1 - age];
    for_each_sign(age, size_,
                  [&](std::size_t i, float sign) { mixed[i] += sign * (values[i] - mean[i]); });
  }
  return mixed;
}

}  // namespace ringpress::nccl_plugin::tuning
