#include "nccl_plugin/session/lazy/lazy_calls.h"

#include <cmath>
#include <limits>
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

bool may_be_put_off(const CallSettings& settings, const Planner& planner,
                    const PlanRequest& request) {
  const bool is_fit = request.kind == CollectiveKind::kAllReduce && request.count > 0 &&
                      request.dtype != DType::kFloat16 &&
                      !is_too_small(request, settings.minimum_bytes) &&
                      tuner::why_never_lossy(request).reason == ExactReason::kNone;
  return LazyCalls::is_wanted(settings) && is_fit && !planner.plan(request).is_denied();
}

LazyCalls::LazyCalls(const CallSettings& settings, LazyMemory& memory, int rank, int size,
                     std::shared_ptr<CallSequence> sequence)
    : threshold_(settings.lazy * (1 - kRounding)),
      most_calls_(settings.lazy_calls),
      rank_(rank),
      size_(size),
      memory_(memory),
      sums_(settings, memory, rank, std::move(sequence)) {}

/// False if what came of it on all ranks might be too large for a float.
bool LazyCalls::fits(const Asked& asked) const {
  const double most = kFullShare * double{std::numeric_limits<float>::max()};
  return (asked.sum->length + asked.lengths.values) * size_ <= most;
}

/// Whether a sum is not to wait any longer, with this call's values.
bool LazyCalls::is_due(const Asked& asked) const {
  const SumOfCalls& sum = *asked.sum;
  const std::size_t calls = sum.calls + 1;
  if (sum.is_flushed || calls >= most_calls_) return true;
  const double mean = (sum.norms + asked.lengths.values) / static_cast<double>(calls);
  return mean > 0 && asked.lengths.total / mean >= threshold_;
}

Result<LazyVote> LazyCalls::vote(const TensorCall& call, const void* values) {
  asked_ = {};
  bool is_orphan = false;
  Asked asked;
  {
    const std::lock_guard lock(mutex_);
    asked.sum = sums_.find(call, &is_orphan);
  }
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
  SumOfCalls& sum = *asked_.sum;
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
  SumOfCalls* const sum = std::exchange(asked_, {}).sum;
  if (sum == nullptr || largest == LazyVote::kNotFinite) return Status::ok();
  const std::lock_guard lock(mutex_);
  return sums_.begin_anew(sum);
}

UnsentSums LazyCalls::count_unsent() const {
  const std::lock_guard lock(mutex_);
  return sums_.unsent();
}

void LazyCalls::book_unsent(Statistics* statistics, ReportTime time) const {
  UnsentSums unsent;
  {
    const auto lock = lock_for_report(mutex_, time);
    if (!lock.owns_lock()) return;
    unsent = sums_.unsent();
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

void LazyCalls::flush() {
  sums_.flush();
}

}  // namespace ringpress::nccl_plugin
