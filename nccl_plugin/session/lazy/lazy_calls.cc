#include "nccl_plugin/session/lazy/lazy_calls.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "ringpress/internal/log.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin {
namespace {

// Gradients that agree come to the threshold but for rounding.
constexpr double kRounding = 1e-5;
// Of the largest float: all ranks' sums together stay below that, whatever they are rounded to.
constexpr double kFullShare = 0.5;

}  // namespace

LazyCalls::LazyCalls(const CallSettings& settings, LazyMemory& memory, int rank, int size,
                     std::shared_ptr<CallSequence> sequence)
    : threshold_(settings.lazy * (1 - kRounding)),
      most_calls_(settings.lazy_calls),
      minimum_bytes_(settings.minimum_bytes),
      limit_bytes_(settings.feedback_limit_bytes),
      rank_(rank),
      size_(size),
      memory_(memory),
      sequence_(std::move(sequence)) {}

bool LazyCalls::takes(const PlanRequest& request, std::size_t minimum_bytes) {
  return !is_too_small(request, minimum_bytes) && request.dtype != DType::kFloat16 &&
         request.count > 0 && tuner::why_never_lossy(request).reason == ExactReason::kNone;
}

/// Where the call stands, with its address and without.
void LazyCalls::observe(const TensorCall& call) {
  const CallPlaces places = sequence_->ask(CallUser::kLazy, call);
  place_ = places.by_shape;
  position_ = places.by_buffer;
  const std::size_t period = places.buffers.period();
  if (has_changed(&shape_breaks_, places.shapes.breaks())) forget_places();
  if (has_changed(&breaks_, places.buffers.breaks())) orphan_sums();
  // Two tensors that differ in their addresses alone have one place.
  const bool is_certain = position_ && places.shapes.period() == period;
  place_of_sum_ = is_certain ? place_ : std::nullopt;
  if (position_) see(call);
  ++calls_of_step_;
  // While the sequence is not known, steps are taken to be as long as before.
  if (position_ ? *position_ + 1 == period : calls_of_step_ >= step_calls_) end_step(period);
}

/// Its place is not believed at once: the sequence may have been a mistake.
void LazyCalls::see(const TensorCall& call) {
  const auto [seen, is_new] = seen_.try_emplace(*position_, Seen{call, std::nullopt});
  if (!is_new) seen->second.place = place_of_sum_;
}

void LazyCalls::forget_places() {
  for (Seen& former : formers_) former.place.reset();
  for (auto& [position, seen] : seen_) seen.place.reset();
  for (auto& [position, sum] : sums_) sum.place.reset();
  for (Sum& sum : orphans_) sum.place.reset();
}

/// Sums of positions that are no more wait for the next call of their tensor.
void LazyCalls::orphan_sums() {
  if (orphans_.empty()) formers_.clear();
  for (const auto& [position, seen] : seen_) remember(seen);
  seen_.clear();
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
void LazyCalls::end_step(std::size_t period) {
  if (position_) step_calls_ = period;
  calls_of_step_ = 0;
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
  add_unsent(*orphan, &given_up_);
  bytes_ -= bytes_of(*orphan);
  orphans_.erase(orphan);
}

/// At each place that it had.
void LazyCalls::remember(const Seen& seen) {
  const auto is_this = [&seen](const Seen& former) {
    return former.call == seen.call && former.place == seen.place;
  };
  if (std::any_of(formers_.begin(), formers_.end(), is_this)) return;
  formers_.push_back(seen);
}

/// Of the same shape as what stands there now: its turn has come at another time, or its memory is
/// another tensor's now.
bool LazyCalls::stood_elsewhere(const TensorCall& call) const {
  return std::any_of(formers_.begin(), formers_.end(), [&](const Seen& former) {
    return former.call == call && former.place != place_;
  });
}

/// Another tensor was of its shape: it may have the memory now.
bool LazyCalls::has_likeness(const TensorCall& call) const {
  return std::any_of(formers_.begin(), formers_.end(), [&call](const Seen& former) {
    TensorCall moved = former.call;
    moved.address = call.address;
    return moved == call && former.call.address != call.address;
  });
}

/// Once a known tensor has come in its place from elsewhere, a new buffer there may be any's.
bool LazyCalls::is_of(const TensorCall& call, Sum* orphan) const {
  if (!orphan->place) return orphan->call == call && !has_likeness(call);
  if (orphan->place != place_) return false;
  if (stood_elsewhere(call)) {
    orphan->is_contested = true;
    return false;
  }
  return !orphan->is_contested || orphan->call == call;
}

LazyCalls::Sum* LazyCalls::find_orphan(const TensorCall& call) {
  const auto found = std::find_if(orphans_.begin(), orphans_.end(),
                                  [&](Sum& orphan) { return is_of(call, &orphan); });
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
    made.values = LazySum(memory_.allocate(call.count), FreeSum{&memory_});
    if (made.values == nullptr) return nullptr;
    Sum* const sum = &sums_.emplace(*position_, std::move(made)).first->second;
    bytes_ += wanted;
    return sum;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// False if what came of it on all ranks might be too large for a float.
bool LazyCalls::fits(const Asked& asked) const {
  const double most = kFullShare * double{std::numeric_limits<float>::max()};
  return (asked.sum->length + asked.lengths.values) * size_ <= most;
}

/// Whether a sum is not to wait any longer, with this call's values.
bool LazyCalls::is_due(const Asked& asked) const {
  const Sum& sum = *asked.sum;
  const std::size_t calls = sum.calls + 1;
  if (sum.is_flushed || calls >= most_calls_) return true;
  const double mean = (sum.norms + asked.lengths.values) / static_cast<double>(calls);
  return mean > 0 && asked.lengths.total / mean >= threshold_;
}

/// The sum that a call's values may be added to, or null.
LazyCalls::Sum* LazyCalls::ask_for_sum(const TensorCall& call, bool* is_orphan) {
  const std::lock_guard lock(mutex_);
  observe(call);
  Sum* const orphan = find_orphan(call);
  *is_orphan = orphan != nullptr;
  return orphan != nullptr ? orphan : find_sum(call);
}

Result<LazyVote> LazyCalls::vote(const TensorCall& call, const void* values) {
  asked_ = {};
  bool is_orphan = false;
  Asked asked;
  asked.sum = ask_for_sum(call, &is_orphan);
  asked.gradient = {values, call.count, call.dtype};
  const float* const sum = asked.sum == nullptr ? nullptr : asked.sum->values.get();
  RINGPRESS_ASSIGN_OR_RETURN(asked.lengths, memory_.measure(asked.gradient, sum));
  if (!std::isfinite(asked.lengths.values)) return LazyVote::kNotFinite;
  if (asked.sum == nullptr || !fits(asked)) return LazyVote::kSend;
  asked_ = asked;
  return is_orphan || is_due(asked) ? LazyVote::kSend : LazyVote::kPutOff;
}

Result<LazyCalls::Decision> LazyCalls::follow(LazyVote largest) {
  switch (largest) {
    case LazyVote::kPutOff:
      break;
    case LazyVote::kSend:
      return Decision{false, asked_.sum != nullptr};
    case LazyVote::kNotFinite:  // What has been added up stays.
      asked_.sum = nullptr;
      return Decision{false, false};
  }
  RINGPRESS_EXPECTS(asked_.sum != nullptr, "a call is put off that this rank wanted sent");
  Sum& sum = *asked_.sum;
  RINGPRESS_RETURN_IF_ERROR(memory_.add(asked_.gradient, sum.values.get()));
  const std::lock_guard lock(mutex_);
  ++sum.calls;
  sum.norms += asked_.lengths.values;
  sum.length = asked_.lengths.total;
  return Decision{true, false};
}

Status LazyCalls::write_sum(void* to) {
  RINGPRESS_EXPECTS(asked_.sum != nullptr, "a sum that is not to be sent");
  return memory_.write_total(asked_.gradient, asked_.sum->values.get(), to);
}

Status LazyCalls::conclude(LazyVote largest) {
  Sum* const sum = std::exchange(asked_, {}).sum;
  if (sum == nullptr || largest == LazyVote::kNotFinite) return Status::ok();
  const std::lock_guard lock(mutex_);
  return begin_anew(sum);
}

LazyCalls::Unsent LazyCalls::count_unsent() const {
  const std::lock_guard lock(mutex_);
  return unsent();
}

/// With mutex_ held.
LazyCalls::Unsent LazyCalls::unsent() const {
  Unsent unsent = given_up_;
  for (const auto& [position, sum] : sums_) add_unsent(sum, &unsent);
  for (const Sum& sum : orphans_) add_unsent(sum, &unsent);
  return unsent;
}

void LazyCalls::book_unsent(Statistics* statistics, ReportTime time) const {
  Unsent unsent;
  {
    const auto lock = lock_for_report(mutex_, time);
    if (!lock.owns_lock()) return;
    unsent = this->unsent();
  }
  if (unsent.tensors == 0) return;
  log_line(LogLevel::kWarn,
           "RINGPRESS_LAZY: rank %d ends with gradients of %zu tensors put off (%zu elements, norm "
           "%.4g) that no call has sent",
           rank_, unsent.tensors, unsent.elements, unsent.norm);
  statistics->unsent_tensors = unsent.tensors;
  statistics->unsent_elements = unsent.elements;
  statistics->unsent_norm = unsent.norm;
}

void LazyCalls::add_unsent(const Sum& sum, Unsent* unsent) {
  if (sum.calls == 0) return;
  ++unsent->tensors;
  unsent->elements += sum.call.count;
  unsent->norm = std::hypot(unsent->norm, sum.length);
}

Status LazyCalls::begin_anew(Sum* sum) {
  const auto orphan = std::find_if(orphans_.begin(), orphans_.end(),
                                   [sum](const Sum& other) { return &other == sum; });
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

void LazyCalls::flush() {
  for (auto& [position, sum] : sums_) sum.is_flushed = true;  // Orphans are sent in any case.
}

}  // namespace ringpress::nccl_plugin
