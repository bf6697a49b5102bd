#include "nccl_plugin/lazy_calls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <new>
#include <span>
#include <utility>

#include "compress_kernels/factory.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr double kSendsAtOnce = std::numeric_limits<double>::infinity();
// Gradients that agree come to the threshold but for rounding.
constexpr double kRounding = 1e-5;
// All ranks' sums together stay below this share of what a type can hold: the next gradient may
// double them.
constexpr double kFullShare = 0.5;
constexpr double kLargestFloat16 = 65504;

double largest_of(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return static_cast<double>(largest);
}

}  // namespace

LazyCalls::LazyCalls(const Settings& settings, tuning::Peers& peers)
    : threshold_(settings.lazy * (1 - kRounding)),
      most_calls_(settings.lazy_calls),
      minimum_bytes_(settings.minimum_bytes),
      limit_bytes_(settings.feedback_limit_bytes),
      peers_(peers) {}

bool LazyCalls::takes(std::size_t count, DType dtype, const Reduction& reduction) const {
  const bool is_sum = reduction.op == ReduceOp::kSum || reduction.op == ReduceOp::kAvg;
  return is_sum && !reduction.pre_multiplied && is_compressible(dtype) && peers_.size() > 1 &&
         count > 0 && count * dtype_size(dtype) >= minimum_bytes_;
}

/// Where the call stands. Sums of positions that are no more wait for a call that looks the same.
void LazyCalls::observe(const TensorCall& call) {
  position_ = pattern_.observe(call);
  if (pattern_.breaks() == breaks_) return;
  breaks_ = pattern_.breaks();
  for (auto& [position, sum] : sums_) {
    if (sum.calls > 0) {
      orphans_.push_back(std::move(sum));
    } else {
      bytes_ -= sum.values.size() * sizeof(float);
    }
  }
  sums_.clear();
  repeated_.clear();
}

LazyCalls::Sum* LazyCalls::find_orphan(const TensorCall& call) {
  const auto found = std::find_if(orphans_.begin(), orphans_.end(),
                                  [&call](const Sum& sum) { return sum.call == call; });
  return found == orphans_.end() ? nullptr : &*found;
}

/// True of calls that look the same at several places of the sequence: they may be of several
/// tensors in one buffer, or of one tensor in a long sequence. What there is of them is sent with
/// the next one.
bool LazyCalls::is_repeated(const TensorCall& call) {
  if (std::find(repeated_.begin(), repeated_.end(), call) != repeated_.end()) return true;
  const auto other = std::find_if(sums_.begin(), sums_.end(),
                                  [&call](const auto& entry) { return entry.second.call == call; });
  if (other == sums_.end()) return false;
  repeated_.push_back(call);
  orphans_.push_back(std::move(other->second));
  sums_.erase(other);
  return true;
}

/// Null: the call has no certain place, or there is no memory. Nothing that is kept is given up.
LazyCalls::Sum* LazyCalls::find_sum(const TensorCall& call) {
  if (!position_) return nullptr;
  const auto found = sums_.find(*position_);
  if (found != sums_.end()) return found->second.call == call ? &found->second : nullptr;
  if (is_repeated(call)) return nullptr;
  const std::size_t wanted = call.count * sizeof(float);
  if (limit_bytes_ != 0 && bytes_ + wanted > limit_bytes_) return nullptr;
  try {
    Sum made{call, std::vector<float>(call.count), 0, 0};
    Sum* const sum = &sums_.emplace(*position_, std::move(made)).first->second;
    bytes_ += wanted;
    return sum;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// The vote.
double LazyCalls::add(Sum* sum, const void* values, double norm) const {
  compress_kernels::add_values(values, sum->call.count, sum->call.dtype, sum->values.data());
  ++sum->calls;
  sum->norms += norm;
  if (sum->calls >= most_calls_) return kSendsAtOnce;
  if (sum->call.dtype == DType::kFloat16 &&
      largest_of(sum->values) * peers_.size() > kFullShare * kLargestFloat16) {
    return kSendsAtOnce;
  }
  const double length = compress_kernels::measure_norm(
      {sum->values.data(), nullptr, sum->call.count, DType::kFloat32});
  if (!std::isfinite(length)) return kSendsAtOnce;
  const double mean = sum->norms / static_cast<double>(sum->calls);
  return mean > 0 ? length / mean : 0;
}

void LazyCalls::take_back(Sum* sum, const void* values, double norm) const {
  compress_kernels::subtract_values(values, sum->call.count, sum->call.dtype, sum->values.data());
  --sum->calls;
  sum->norms -= norm;
}

Result<LazyCalls::Decision> LazyCalls::decide(const TensorCall& call, const void* values) {
  sending_ = nullptr;
  observe(call);
  const double norm = compress_kernels::measure_norm({values, nullptr, call.count, call.dtype});
  const bool is_finite = std::isfinite(norm);
  Sum* const orphan = find_orphan(call);
  Sum* const sum = orphan != nullptr ? orphan : find_sum(call);
  const bool has_added = is_finite && sum != nullptr;
  const double own = has_added ? add(sum, values, norm) : kSendsAtOnce;
  std::array<double, 2> votes = {orphan != nullptr ? kSendsAtOnce : own, is_finite ? 0.0 : 1.0};
  RINGPRESS_RETURN_IF_ERROR(peers_.max(votes));
  if (votes[1] > 0) {  // The result is of no use: what has been added up stays.
    if (has_added) take_back(sum, values, norm);
    return Decision{false, nullptr};
  }
  if (votes[0] < threshold_) return Decision{true, nullptr};
  sending_ = sum;
  return Decision{false, sum == nullptr ? nullptr : sum->values.data()};
}

void LazyCalls::sent() {
  Sum* const sum = std::exchange(sending_, nullptr);
  if (sum == nullptr) return;
  const auto orphan = std::find_if(orphans_.begin(), orphans_.end(),
                                   [sum](const Sum& other) { return &other == sum; });
  if (orphan != orphans_.end()) {
    bytes_ -= orphan->values.size() * sizeof(float);
    orphans_.erase(orphan);
    return;
  }
  std::fill(sum->values.begin(), sum->values.end(), 0.0F);
  sum->calls = 0;
  sum->norms = 0;
}

}  // namespace ringpress::nccl_plugin
