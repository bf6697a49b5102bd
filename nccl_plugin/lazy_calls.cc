#include "nccl_plugin/lazy_calls.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "compress_kernels/factory.h"

namespace ringpress::nccl_plugin {
namespace {

/// Kept beside a sum: the calls in it, and the sum of their norms.
constexpr std::size_t kStateFloats = 2;
constexpr double kSendsAtOnce = std::numeric_limits<double>::infinity();

}  // namespace

LazyCalls::LazyCalls(const Settings& settings, tuning::Peers& peers)
    : threshold_(settings.lazy),
      most_calls_(settings.lazy_calls),
      minimum_bytes_(settings.minimum_bytes),
      peers_(peers),
      sums_(settings.feedback_limit_bytes) {}

bool LazyCalls::takes(std::size_t count, DType dtype, const Reduction& reduction) const {
  const bool is_sum = reduction.op == ReduceOp::kSum || reduction.op == ReduceOp::kAvg;
  return is_sum && !reduction.pre_multiplied && is_compressible(dtype) && peers_.size() > 1 &&
         count > 0 && count * dtype_size(dtype) >= minimum_bytes_;
}

/// The vote.
double LazyCalls::add(const Kept& kept, const TensorCall& call, const void* values) const {
  const double own = compress_kernels::measure_norm({values, nullptr, call.count, call.dtype});
  compress_kernels::add_values(values, call.count, call.dtype, kept.residual);
  kept.memory[0] += 1;
  kept.memory[1] += static_cast<float>(own);
  const double sum =
      compress_kernels::measure_norm({kept.residual, nullptr, call.count, DType::kFloat32});
  const auto calls = static_cast<double>(kept.memory[0]);
  if (!std::isfinite(own) || !std::isfinite(sum)) return kSendsAtOnce;
  if (calls >= static_cast<double>(most_calls_)) return kSendsAtOnce;
  const double mean = static_cast<double>(kept.memory[1]) / calls;
  return mean > 0 ? sum / mean : 0;
}

Result<LazyCalls::Decision> LazyCalls::decide(const TensorCall& call, const void* values) {
  const Kept kept = sums_.find(call, {true, 0, kStateFloats});
  const bool is_known = kept.residual != nullptr && kept.memory != nullptr;
  double vote = is_known ? add(kept, call, values) : kSendsAtOnce;
  RINGPRESS_RETURN_IF_ERROR(peers_.max(std::span(&vote, 1)));
  Decision decision;
  decision.is_put_off = vote < threshold_;
  if (is_known && !decision.is_put_off) {
    decision.sum = kept.residual;
    std::fill_n(kept.memory, kStateFloats, 0.0F);
  }
  return decision;
}

void LazyCalls::sent(const TensorCall& call, float* sum) const {
  std::fill_n(sum, call.count, 0.0F);
}

}  // namespace ringpress::nccl_plugin
