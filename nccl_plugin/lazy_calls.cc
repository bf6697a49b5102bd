#include "nccl_plugin/lazy_calls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "compress_kernels/factory.h"
#include "ringpress/log.h"

namespace ringpress::nccl_plugin {
namespace {

// Gradients that agree come to the threshold but for rounding.
constexpr double kRounding = 1e-5;
// Of the largest float: all ranks' sums together stay below that, whatever they are rounded to.
constexpr double kFullShare = 0.5;
// Elements that a sum is written out in at a time.
constexpr std::size_t kBlock = 1024;

}  // namespace

LazyCalls::LazyCalls(const Settings& settings, Mesh& mesh, std::uint64_t& sequence)
    : threshold_(settings.lazy * (1 - kRounding)),
      most_calls_(settings.lazy_calls),
      minimum_bytes_(settings.minimum_bytes),
      limit_bytes_(settings.feedback_limit_bytes),
      rank_(mesh.rank()),
      size_(mesh.size()),
      votes_(mesh, sequence) {}

bool LazyCalls::takes(std::size_t count, DType dtype, const Reduction& reduction) const {
  const bool is_sum = reduction.op == ReduceOp::kSum || reduction.op == ReduceOp::kAvg;
  const bool is_taken = is_compressible(dtype) && dtype != DType::kFloat16;
  return is_sum && !reduction.pre_multiplied && is_taken && size_ > 1 && count > 0 &&
         count * dtype_size(dtype) >= minimum_bytes_;
}

/// Where the call stands, with its address and without.
void LazyCalls::observe(const TensorCall& call) {
  TensorCall shape = call;
  shape.address = nullptr;
  const std::uint64_t shape_breaks = shapes_.breaks();
  place_ = shapes_.observe(shape);
  if (shapes_.breaks() != shape_breaks) forget_places();
  const std::uint64_t breaks = pattern_.breaks();
  position_ = pattern_.observe(call);
  if (pattern_.breaks() != breaks) orphan_sums();
  // Two tensors that differ in their addresses alone have one place.
  const bool is_certain = position_ && shapes_.period() == pattern_.period();
  place_of_sum_ = is_certain ? place_ : std::nullopt;
  if (position_ && *position_ + 1 == pattern_.period()) end_step();
}

void LazyCalls::forget_places() {
  for (Former& former : formers_) former.place.reset();
  for (auto& [position, sum] : sums_) sum.place.reset();
  for (Sum& sum : orphans_) sum.place.reset();
}

/// Sums of positions that are no more wait for the next call of their tensor.
void LazyCalls::orphan_sums() {
  if (orphans_.empty()) formers_.clear();
  for (auto& [position, sum] : sums_) {
    remember(sum);
    if (sum.calls > 0) {
      orphans_.push_back(std::move(sum));
    } else {
      bytes_ -= bytes_of(sum);
    }
  }
  sums_.clear();
  repeated_.clear();
}

/// Orphans whose tensor does not come any more are given up.
void LazyCalls::end_step() {
  for (auto sum = orphans_.begin(); sum != orphans_.end();) {
    const auto next = std::next(sum);
    if (++sum->steps_missed > most_calls_) give_up(sum);
    sum = next;
  }
}

void LazyCalls::give_up(std::list<Sum>::iterator orphan) {
  if (given_up_.tensors == 0) {
    log_line(LogLevel::kWarn,
             "RINGPRESS_LAZY: rank %d gives up gradients of %zu elements that were put off: their "
             "tensor has not come for %zu steps. RINGPRESS_STATS counts these and further ones",
             rank_, orphan->call.count, orphan->steps_missed);
  }
  count_unsent(*orphan, &given_up_);
  bytes_ -= bytes_of(*orphan);
  orphans_.erase(orphan);
}

void LazyCalls::remember(const Sum& sum) {
  const auto known = std::find_if(formers_.begin(), formers_.end(),
                                  [&sum](const Former& former) { return former.call == sum.call; });
  if (known == formers_.end()) {
    formers_.push_back({sum.call, sum.place});
  } else {
    known->place = sum.place;
  }
}

/// Of the same shape as what stands there now: its turn has come at another time, or its memory is
/// another tensor's now.
bool LazyCalls::stood_elsewhere(const TensorCall& call) const {
  return std::any_of(formers_.begin(), formers_.end(), [&](const Former& former) {
    return former.call == call && former.place != place_;
  });
}

/// Another tensor was of its shape: it may have the memory now.
bool LazyCalls::has_likeness(const TensorCall& call) const {
  return std::any_of(formers_.begin(), formers_.end(), [&call](const Former& former) {
    TensorCall moved = former.call;
    moved.address = call.address;
    return moved == call && former.call.address != call.address;
  });
}

LazyCalls::Sum* LazyCalls::find_orphan(const TensorCall& call) {
  if (orphans_.empty()) return nullptr;
  const auto found = std::find_if(orphans_.begin(), orphans_.end(), [&](const Sum& sum) {
    if (sum.place) return sum.place == place_ && !stood_elsewhere(call);
    return sum.call == call && !has_likeness(call);
  });
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
  if (found != sums_.end()) {
    found->second.place = place_of_sum_;  // Not before: the sequence may have been a mistake.
    return found->second.call == call ? &found->second : nullptr;
  }
  if (is_repeated(call)) return nullptr;
  const std::size_t wanted = call.count * sizeof(float);
  if (limit_bytes_ != 0 && bytes_ + wanted > limit_bytes_) return nullptr;
  try {
    Sum made;
    made.call = call;
    made.values.resize(call.count);
    Sum* const sum = &sums_.emplace(*position_, std::move(made)).first->second;
    bytes_ += wanted;
    return sum;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

double LazyCalls::length_of(const Sum& sum) {
  return compress_kernels::measure_norm(
      {sum.values.data(), nullptr, sum.call.count, DType::kFloat32});
}

/// Whether a sum is not to wait any longer.
bool LazyCalls::is_due(const Sum& sum) const {
  if (sum.is_flushed || sum.calls >= most_calls_) return true;
  const double mean = sum.norms / static_cast<double>(sum.calls);
  return mean > 0 && sum.most_length / mean >= threshold_;
}

/// False, and nothing is changed, if what came of it might be too large for a float.
bool LazyCalls::add(Sum* sum, const void* values, double norm) const {
  const double most = kFullShare * double{std::numeric_limits<float>::max()};
  if ((sum->most_length + norm) * size_ > most) return false;
  compress_kernels::add_values(values, sum->call.count, sum->call.dtype, sum->values.data());
  ++sum->calls;
  sum->norms += norm;
  sum->most_length = length_of(*sum);
  return true;
}

Result<LazyCalls::Decision> LazyCalls::decide(const TensorCall& call, const void* values) {
  sending_ = {};
  observe(call);
  const double norm = compress_kernels::measure_norm({values, nullptr, call.count, call.dtype});
  Sum* const orphan = find_orphan(call);
  Sum* const sum = orphan != nullptr ? orphan : find_sum(call);
  const bool is_finite = std::isfinite(norm);
  const bool has_added = is_finite && sum != nullptr && add(sum, values, norm);
  LazyVote own = is_finite ? LazyVote::kSend : LazyVote::kNotFinite;
  if (has_added && orphan == nullptr && !is_due(*sum)) own = LazyVote::kPutOff;
  RINGPRESS_ASSIGN_OR_RETURN(const LazyVote largest, votes_.cast(call, own));
  if (largest == LazyVote::kPutOff) return Decision{true, false};
  if (!has_added) return Decision{false, false};
  if (largest == LazyVote::kNotFinite) {  // What has been added up stays.
    take_back(sum, values, norm);
    return Decision{false, false};
  }
  sending_ = {sum, norm};
  return Decision{false, true};
}

void LazyCalls::take_back(Sum* sum, const void* values, double norm) const {
  compress_kernels::subtract_values(values, sum->call.count, sum->call.dtype, sum->values.data());
  --sum->calls;
  sum->norms -= norm;
  sum->most_length += norm;
}

void LazyCalls::take_sum(const void* values, void* to) {
  RINGPRESS_EXPECTS(sending_.sum != nullptr, "a sum that is not to be sent");
  Sum& sum = *sending_.sum;
  const std::size_t element_bytes = dtype_size(sum.call.dtype);
  std::array<std::byte, kBlock * sizeof(double)> own;  // `to` may be `values`.
  for (std::size_t first = 0; first < sum.call.count; first += kBlock) {
    const std::size_t count = std::min(kBlock, sum.call.count - first);
    float* const part = sum.values.data() + first;
    std::memcpy(own.data(), static_cast<const std::byte*>(values) + first * element_bytes,
                count * element_bytes);
    compress_kernels::narrow_values(part, count, sum.call.dtype,
                                    static_cast<std::byte*>(to) + first * element_bytes);
    compress_kernels::subtract_values(own.data(), count, sum.call.dtype, part);
  }
  --sum.calls;
  sum.norms -= sending_.norm;
  sum.most_length += sending_.norm;
}

Status LazyCalls::conclude() {
  RINGPRESS_ASSIGN_OR_RETURN(const LazyVote largest, votes_.conclude());
  Sum* const sum = std::exchange(sending_, {}).sum;
  if (sum != nullptr && largest != LazyVote::kNotFinite) begin_anew(sum);
  return Status::ok();
}

LazyCalls::Unsent LazyCalls::measure_unsent() const {
  Unsent unsent = given_up_;
  for (const auto& [position, sum] : sums_) count_unsent(sum, &unsent);
  for (const Sum& sum : orphans_) count_unsent(sum, &unsent);
  return unsent;
}

void LazyCalls::count_unsent(const Sum& sum, Unsent* unsent) {
  if (sum.calls == 0) return;
  ++unsent->tensors;
  unsent->elements += sum.call.count;
  unsent->norm = std::hypot(unsent->norm, length_of(sum));
}

void LazyCalls::begin_anew(Sum* sum) {
  const auto orphan = std::find_if(orphans_.begin(), orphans_.end(),
                                   [sum](const Sum& other) { return &other == sum; });
  if (orphan != orphans_.end()) {
    bytes_ -= bytes_of(*orphan);
    orphans_.erase(orphan);
    return;
  }
  std::fill(sum->values.begin(), sum->values.end(), 0.0F);
  sum->calls = 0;
  sum->norms = 0;
  sum->most_length = 0;
  sum->is_flushed = false;
}

void LazyCalls::flush() {
  for (auto& [position, sum] : sums_) sum.is_flushed = true;  // Orphans are sent in any case.
}

}  // namespace ringpress::nccl_plugin
