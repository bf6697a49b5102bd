#include "nccl_plugin/session/tuning/part_encodings.h"

#include <algorithm>
#include <cmath>

namespace ringpress::nccl_plugin::tuning {
namespace {

bool is_all_finite(std::span<const LevelLoss> costs) {
  return std::all_of(costs.begin(), costs.end(),
                     [](const LevelLoss& cost) { return std::isfinite(cost.of_call()); });
}

void add_squares(std::span<const LevelLoss> costs, std::vector<double>* sums) {
  sums->resize(costs.size());
  for (std::size_t level = 0; level < costs.size(); ++level) {
    (*sums)[level] += costs[level].of_call() * costs[level].of_call();
  }
}

/// What was tried of parts, beside one encoding of them: sums of squares, at one level.
struct TriedSquares {
  double encoded = 0;
  double tried = 0;
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
                    std::span<double> errors) {
  std::vector<TriedSquares> known(levels);
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
    errors[i] *= std::sqrt(larger);
    known[level].encoded += part.squares(level);
    known[level].tried += errors[i] * errors[i];
  }
  for (const std::size_t i : unknown) {
    const TriedSquares& others = known[i % levels];
    const double over_once = others.encoded > 0 ? others.tried / others.encoded : 1;
    errors[i] = std::sqrt(encodings[i / levels].squares(i % levels) * over_once);
  }
}

}  // namespace ringpress::nccl_plugin::tuning
