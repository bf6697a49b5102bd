#include "nccl_plugin/session/lazy/lazy_sums.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

std::size_t bytes_of(const SumOfCalls& sum) {
  return sum.call.count * sizeof(float);
}

}  // namespace

void UnsentSums::add(const SumOfCalls& sum) {
  if (sum.calls == 0) return;
  ++tensors;
  elements += sum.call.count;
  norm = std::hypot(norm, sum.length);
}

void LazySums::observe(const TensorCall& call) {
  at_ = steps_.observe(call);
  if (at_.have_places_changed) {
    tensors_.forget_places();
    for (auto& [position, sum] : sums_) sum.place.reset();
    for (SumOfCalls& sum : orphans_) sum.place.reset();
  }
  if (at_.have_positions_changed) orphan_sums();
  if (at_.position) tensors_.see(call, at_);
  if (at_.is_end_of_step) count_missed_step();
}

/// Sums of positions that are no more wait for the next call of their tensor.
void LazySums::orphan_sums() {
  tensors_.end_sequence(!orphans_.empty());
  for (auto& [position, sum] : sums_) {
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
void LazySums::count_missed_step() {
  std::erase_if(orphans_, [this](SumOfCalls& orphan) {
    if (++orphan.steps_missed <= most_steps_) return false;
    if (given_up_.tensors == 0) {
      log_line(LogLevel::kWarn,
               "RINGPRESS_LAZY: rank %d gives up gradients of %zu elements that were put off: "
               "their tensor has not come for %zu steps. RINGPRESS_STATS counts these and further "
               "ones",
               rank_, orphan.call.count, orphan.steps_missed);
    }
    given_up_.add(orphan);
    bytes_ -= bytes_of(orphan);
    return true;
  });
}

/// Once a known tensor has come in its place from elsewhere, a new buffer there may be any's.
bool LazySums::is_of(const TensorCall& call, SumOfCalls* orphan) const {
  if (!orphan->place) return orphan->call == call && !tensors_.has_likeness(call);
  if (orphan->place != at_.place) return false;
  if (tensors_.stood_elsewhere(call, at_.place)) {
    orphan->is_contested = true;
    return false;
  }
  return !orphan->is_contested || orphan->call == call;
}

/// True of calls that look the same at several places of the sequence: they may be of several
/// tensors in one buffer, or of one tensor in a long sequence. What there is of them is sent with
/// the next one.
bool LazySums::is_repeated(const TensorCall& call) {
  if (std::find(repeated_.begin(), repeated_.end(), call) != repeated_.end()) return true;
  const auto other = std::find_if(sums_.begin(), sums_.end(),
                                  [&call](const auto& entry) { return entry.second.call == call; });
  if (other == sums_.end()) return false;
  repeated_.push_back(call);
  orphans_.push_back(std::move(other->second));
  sums_.erase(other);
  return true;
}

SumOfCalls* LazySums::find(const TensorCall& call, bool* is_orphan) {
  observe(call);
  const auto orphan = std::find_if(orphans_.begin(), orphans_.end(),
                                   [&](SumOfCalls& other) { return is_of(call, &other); });
  *is_orphan = orphan != orphans_.end();
  return *is_orphan ? &*orphan : find_known(call);
}

SumOfCalls* LazySums::find_known(const TensorCall& call) {
  if (!at_.position) return nullptr;
  const auto found = sums_.find(*at_.position);
  if (found != sums_.end()) {
    found->second.place = at_.own_place;  // Not before: the sequence may have been a mistake.
    return found->second.call == call ? &found->second : nullptr;
  }
  if (is_repeated(call)) return nullptr;
  const std::size_t wanted = call.count * sizeof(float);
  if (limit_bytes_ != 0 && bytes_ + wanted > limit_bytes_) return nullptr;
  try {
    SumOfCalls made;
    made.call = call;
    made.values = LazySum(memory_.allocate(call.count), FreeSum{&memory_});
    if (made.values == nullptr) return nullptr;
    SumOfCalls* const sum = &sums_.emplace(*at_.position, std::move(made)).first->second;
    bytes_ += wanted;
    return sum;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Status LazySums::begin_anew(SumOfCalls* sum) {
  const auto orphan = std::find_if(orphans_.begin(), orphans_.end(),
                                   [sum](const SumOfCalls& other) { return &other == sum; });
  if (orphan != orphans_.end()) {
    bytes_ -= bytes_of(*orphan);
    orphans_.erase(orphan);
    return Status::ok();
  }
  sum->calls = 0;
  sum->norms = 0;
  sum->length = 0;
  sum->is_flushed = false;
  return memory_.clear(sum->values.get(), sum->call.count);
}

void LazySums::flush() {
  for (auto& [position, sum] : sums_) sum.is_flushed = true;
}

UnsentSums LazySums::unsent() const {
  UnsentSums unsent = given_up_;
  for (const auto& [position, sum] : sums_) unsent.add(sum);
  for (const SumOfCalls& sum : orphans_) unsent.add(sum);
  return unsent;
}

}  // namespace ringpress::nccl_plugin
