#include "nccl_plugin/session/live/residual_norms.h"

#include <algorithm>
#include <cmath>

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kNormSamples = 1024;

/// The sum of squares of all elements, from some of them.
double estimate_squares(const float* values, std::size_t count) {
  const std::size_t step = std::max<std::size_t>(count / kNormSamples, 1);
  double squares = 0;
  std::size_t looked_at = 0;
  for (std::size_t i = step / 2; i < count; i += step, ++looked_at) {
    squares += static_cast<double>(values[i]) * values[i];
  }
  return looked_at == 0 ? 0 : squares * static_cast<double>(count) / static_cast<double>(looked_at);
}

}  // namespace

void ResidualNorms::note(const float* residual, std::size_t count) {
  const std::uint64_t wanted = wanted_.load(std::memory_order_relaxed);
  if (newest_ != wanted) drop_old(wanted);
  Sample& sample = samples_[residual];
  if (sample.wanted == wanted) return;
  const double others = squares_.load(std::memory_order_relaxed) - sample.squares;
  sample = {wanted, estimate_squares(residual, count)};
  squares_.store(std::max(others, 0.0) + sample.squares, std::memory_order_relaxed);
}

/// Of tensors that have not come since the norm was wanted the time before: they may be there no
/// more.
void ResidualNorms::drop_old(std::uint64_t wanted) {
  std::erase_if(samples_, [wanted](const auto& one) { return one.second.wanted + 1 < wanted; });
  double squares = 0;
  for (const auto& [residual, sample] : samples_) squares += sample.squares;
  squares_.store(squares, std::memory_order_relaxed);
  newest_ = wanted;
}

std::optional<double> ResidualNorms::norm() const {
  const double squares = squares_.load(std::memory_order_relaxed);
  if (squares < 0) return std::nullopt;
  return std::sqrt(squares);
}

}  // namespace ringpress::nccl_plugin
