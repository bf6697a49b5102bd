#include "nccl_plugin/session/tuning/part_encodings.h"

#include <algorithm>
#include <cmath>

namespace ringpress::nccl_plugin::tuning {
namespace {

bool is_all_finite(std::span<const LevelCost> costs) {
  return std::all_of(costs.begin(), costs.end(),
                     [](const LevelCost& cost) { return std::isfinite(cost.error); });
}

void add_squares(std::span<const LevelCost> costs, std::vector<double>* sums) {
  sums->resize(costs.size());
  for (std::size_t level = 0; level < costs.size(); ++level) {
    (*sums)[level] += costs[level].error * costs[level].error;
  }
}

/// What was tried of parts, beside one encoding of them: sums of squares, at one level.
struct TriedSquares {
  double encoded = 0;
  double of_calls = 0;
  double of_means = 0;
};

}  // namespace

void PartEncodings::add(const LevelFamily& family, const MeasuredTensor& part,
                        std::span<const float> sampled) {
  if (sampled.size() == part.count) return;
  const auto of_part = family.measure({part.values, nullptr, part.count, part.dtype}, {});
  if (!is_all_finite(of_part)) return;  // The sample was.
  sampled_share_ = static_cast<double>(sampled.size()) / static_cast<double>(part.count);
  add_squares(of_part, &of_part_);
  add_squares(family.measure({sampled.data(), nullptr, sampled.size(), DType::kFloat32}, {}),
              &of_sample_);
  ++steps_;
}

double PartEncodings::over_sample(std::size_t level) const {
  return of_sample_[level] > 0 ? sampled_share_ * of_part_[level] / of_sample_[level] : 0;
}

void correct_errors(std::span<const PartEncodings> encodings, std::size_t levels,
                    TriedErrors errors) {
  std::vector<TriedSquares> tried(levels);
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < encodings.size() * levels; ++i) {
    const PartEncodings& part = encodings[i / levels];
    if (!part.is_known()) continue;
    const std::size_t level = i % levels;
    const double larger = part.over_sample(level);
    if (larger == 0) {
      unknown.push_back(i);
      continue;
    }
    errors.of_calls[i] *= std::sqrt(larger);
    errors.of_means[i] *= std::sqrt(larger);
    tried[level].encoded += part.squares(level);
    tried[level].of_calls += errors.of_calls[i] * errors.of_calls[i];
    tried[level].of_means += errors.of_means[i] * errors.of_means[i];
  }
  for (const std::size_t i : unknown) {
    const TriedSquares& others = tried[i % levels];
    const double once = encodings[i / levels].squares(i % levels);
    const bool is_known = others.encoded > 0;
    errors.of_calls[i] = std::sqrt(once * (is_known ? others.of_calls / others.encoded : 1));
    errors.of_means[i] = std::sqrt(once * (is_known ? others.of_means / others.encoded : 1));
  }
}

}  // namespace ringpress::nccl_plugin::tuning
