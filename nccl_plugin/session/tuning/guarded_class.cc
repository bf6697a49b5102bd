#include "nccl_plugin/session/tuning/guarded_class.h"

#include <algorithm>
#include <array>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

struct Turn {
  bool is_exact = false;
  std::size_t calls = 0;
};
constexpr std::array<Turn, 4> kTurns = {{{false, 4}, {true, 3}, {false, 4}, {true, 3}}};
constexpr std::uint32_t kTrialCalls = 14;
constexpr std::uint32_t kLeadCalls = 4;

// So many times of each are enough.
constexpr std::size_t kEnoughTimes = 3;
// Further apart than this, both ways need no more turns.
constexpr double kClear = 1.25;
constexpr std::uint32_t kMostRounds = 4;
// A program may be so far ahead of its device that no time is there yet.
constexpr std::uint32_t kMostVainRounds = 16;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The call of this number among those of the turns.
GuardedStep turn_call(std::uint32_t number) {
  std::size_t first = 0, slot = 0;
  for (const Turn& turn : kTurns) {
    if (number < first + turn.calls) {
      GuardedStep step{turn.is_exact, true, std::nullopt, false};
      if (number > first) step.slot = slot + (number - first - 1);
      return step;
    }
    first += turn.calls;
    slot += turn.calls - 1;
  }
  return {false, true, std::nullopt, number == kTrialCalls};
}

}  // namespace

void GuardedClass::save(StateWriter& to) const {
  to.put(settled_verdict() == Verdict::kExact);
  to.put(period_);
  to.put(made_);
}

void GuardedClass::load(StateReader& from) {
  verdict_ = from.get<bool>() ? Verdict::kExact : Verdict::kCompress;
  period_ = from.get<std::uint32_t>();
  made_ = from.get<std::uint32_t>();
  from.require(period_ <= kLastPeriod && is_settled());
}

bool is_exact_slot(std::size_t slot) {
  std::size_t first = 0;
  for (const Turn& turn : kTurns) {
    first += turn.calls - 1;
    if (slot < first) return turn.is_exact;
  }
  RINGPRESS_EXPECTS(false, "there are fewer slots");
  return false;
}

bool GuardedClass::awaits_verdict() const {
  return !verdict_.has_value() && made_ == kTrialCalls + 1 + kLeadCalls;
}

void GuardedClass::apply(Verdict verdict) {
  made_ = 0;
  if (verdict == Verdict::kAgain) return;
  verdict_ = verdict;
  period_ = std::min(2 * period_, kLastPeriod);
}

GuardedStep GuardedClass::next() {
  if (verdict_.has_value() && made_ == period_) {
    verdict_.reset();
    made_ = 0;
  }
  const std::uint32_t number = made_++;
  if (verdict_.has_value()) return {*verdict_ == Verdict::kExact, false, std::nullopt, false};
  return turn_call(number);
}

void GuardJudge::note(bool is_exact, double seconds_per_byte) {
  times_[is_exact ? 1 : 0].push_back(seconds_per_byte);
}

Verdict GuardJudge::judge() {
  ++rounds_;
  const bool has_enough = times_[0].size() >= kEnoughTimes && times_[1].size() >= kEnoughTimes;
  if (!has_enough && rounds_ < kMostVainRounds) return Verdict::kAgain;
  compressed_ = times_[0].empty() ? 0 : median(times_[0]);
  exact_ = times_[1].empty() ? 0 : median(times_[1]);
  const bool is_clear = compressed_ > kClear * exact_ || exact_ > kClear * compressed_;
  if (has_enough && !is_clear && rounds_ < kMostRounds) return Verdict::kAgain;
  rounds_ = 0;
  for (std::vector<double>& times : times_) times.clear();
  // What is not known stays as the user asked for it.
  if (!has_enough) return Verdict::kCompress;
  return compressed_ < worth_switching_ * exact_ ? Verdict::kCompress : Verdict::kExact;
}

}  // namespace ringpress::nccl_plugin::tuning
