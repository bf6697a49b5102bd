// A walk from what the cost model prefers to what measured best:
//   1. each codec that is predicted to come near, and no codec;
//   2. chunks of the best of them, larger and smaller, as long as that helps;
//   3. what comes near the best of them, again: of what was measured once, under whatever else the
//      machine was doing, the quickest counts;
//   4. if no codec comes near the best codec, both again, in turn and for longer.
// Then it settles. Now and then, and less and less often, no codec or the best one, whichever did
// not win, gets another trial: one of them may have been measured at a bad time. When calls go on
// taking something else than they did, the walk begins anew, and is no longer led by the model.
#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "tuner/factory.h"
#include "tuner/measured_choices.h"

namespace ringpress::tuner {
namespace {

// Predicted to take more than so much of the best: not worth a trial.
constexpr double kHopeless = 1.5;
// Calls without a codec that took more than so much of the best, and so long that it cannot be for
// want of warmth (they were the first ones), need no trial of their own.
constexpr double kClearlySlower = 2;
constexpr double kLongSeconds = 20e-3;
// No codec and the best one are compared again if they differ by less. It is much, since what a
// codec leaves does not open a connection's windows as far as calls without one do.
constexpr double kNear = 4;
constexpr std::size_t kSmallestTriedBytes = 64 * 1024;
constexpr std::size_t kLargestTriedBytes = 8 * 1024 * 1024;
constexpr std::size_t kFirstTriedBytes = 512 * 1024;
// Between two looks at what is settled.
constexpr std::uint32_t kFewestSettledCalls = 20;
constexpr std::uint32_t kMostSettledCalls = 1000;
constexpr double kSettledSeconds = 2;
constexpr std::uint32_t kMostPatience = 64;
// What takes less than that is as quick as what takes nothing.
constexpr double kShortest = 1e-9;
// Looks until the one that did not win gets another trial; twice as many each time.
constexpr std::uint32_t kFirstSecondLook = 4;
constexpr std::size_t kMostExactTimes = 16;
// And what took more than kNear times as long when it was tried gets one each so many times.
constexpr std::uint32_t kHopelessLooks = 4;

class WalkingTuner final : public CallTuner {
 public:
  WalkingTuner(std::vector<Candidate> candidates, const CallShape& shape,
               const TuningLimits& limits)
      : candidates_(std::move(candidates)),
        shard_bytes_(shape.bytes / static_cast<std::size_t>(std::max(1, shape.world))),
        limits_(limits),
        measured_(limits.worth_switching) {
    start_over();
    exact_times_.reserve(kMostExactTimes);
  }

  void note_exact(double seconds) override {
    // The first one connects.
    if (is_connected_ && exact_times_.size() < kMostExactTimes) exact_times_.push_back(seconds);
    is_connected_ = true;
  }

  void note(double seconds) override {
    if (skipped_ < warm_up_) {
      ++skipped_;
    } else {
      times_.push_back(seconds);
    }
  }

  Choice quickest_exact() const override {
    const std::optional<Measured> measured = find_exact();
    return measured ? measured->choice : find_exact_candidate().choice;
  }

  Trial next(std::vector<TuningNote>* notes) override {
    notes->clear();
    if (is_settled_) {
      look_at_settled(notes);
    } else if (!times_.empty()) {
      take_note(notes);
    }
    if (is_settled_) return stay();
    if (trials_ < limits_.trials) {
      if (const std::optional<Choice> wanted = find_next()) return try_out(*wanted);
    }
    // Whether anything is gained is not left to the model.
    if (limits_.trials > 0 && !find_exact()) return try_out(find_exact_candidate().choice);
    if (const std::optional<Choice> wanted = find_rematch()) return try_out_long(*wanted);
    settle(notes);
    return stay();
  }

 private:
  void start_over() {
    waiting_.assign(candidates_.begin(), candidates_.end());
    measured_.clear();
    best_.reset();
    trials_ = 0;
    rematches_ = 0;
    is_settled_ = false;
    surprises_ = 0;
  }

  double predicted(const Choice& choice) const {
    const auto found =
        std::find_if(candidates_.begin(), candidates_.end(), [&choice](const Candidate& one) {
          return one.choice.codec == choice.codec && one.choice.algorithm == choice.algorithm;
        });
    return found == candidates_.end() ? 0 : found->seconds;
  }

  /// The prediction, by how far predictions were wrong so far.
  double expected(const Choice& choice) const {
    const double seconds = predicted(choice);
    if (best_ && predicted(best_->choice) > 0) {
      return seconds * best_->seconds / predicted(best_->choice);
    }
    if (exact_times_.empty()) return seconds;
    return seconds * typical_seconds(exact_times_) / predicted(find_exact_candidate().choice);
  }

  /// The quickest without a codec.
  const Candidate& find_exact_candidate() const {
    return *std::find_if(candidates_.begin(), candidates_.end(),
                         [](const Candidate& one) { return one.choice.is_exact(); });
  }

  void take_note(std::vector<TuningNote>* notes) {
    const Measured now{trial_, typical_seconds(times_), is_long_};
    notes->push_back({TuningEvent::kTried, now.choice, static_cast<std::uint32_t>(times_.size()),
                      now.seconds, predicted(now.choice)});
    times_.clear();
    const bool is_new = !measured_.has(now.choice);
    const Measured& known = measured_.add(now);
    const bool is_better =
        is_new && (!best_ || now.seconds < limits_.worth_switching * best_->seconds);
    if (is_better || best_->choice == now.choice) best_ = known;
  }

  std::optional<Choice> find_next() {
    if (again_) return std::exchange(again_, std::nullopt);
    while (!waiting_.empty()) {
      const Candidate candidate = waiting_.front();
      waiting_.pop_front();
      if (is_worth_a_trial(candidate)) return candidate.choice;
    }
    if (const std::optional<Choice> neighbour = find_neighbour()) return neighbour;
    return measured_.find_contender();
  }

  /// No codec, or the quickest one, if the two are near each other.
  std::optional<Choice> find_rematch() {
    const std::optional<Measured> exact = measured_.find_quickest(true);
    const std::optional<Measured> lossy = measured_.find_quickest(false);
    if (!exact || !lossy || rematches_ == limits_.rematches) return std::nullopt;
    if (exact->seconds > kNear * lossy->seconds || lossy->seconds > kNear * exact->seconds) {
      return std::nullopt;
    }
    return ++rematches_ % 2 == 1 ? exact->choice : lossy->choice;
  }

  bool is_worth_a_trial(const Candidate& candidate) const {
    if (!best_ || is_model_wrong_) return true;
    const double seconds = expected(candidate.choice);
    if (candidate.choice.is_exact() && !find_exact()) {
      // Whether anything is gained is not left to the model.
      return candidate.choice == find_exact_candidate().choice;
    }
    return seconds < kHopeless * best_->seconds;
  }

  /// How long calls take without a codec, if that is known well enough: as few as came before were
  /// long because calls are, and not because a rank was late, if the model has it so, too.
  std::optional<Measured> find_exact() const {
    std::optional<Measured> found = measured_.find_quickest(true);
    if (found || exact_times_.empty() || !best_) return found;
    const double seconds =
        std::min(typical_seconds(exact_times_), expected(find_exact_candidate().choice));
    if (seconds > kLongSeconds && seconds > kClearlySlower * best_->seconds) {
      found = {find_exact_candidate().choice, seconds};
    }
    return found;
  }

  /// Chunks twice and half as large as those of the best.
  std::optional<Choice> find_neighbour() const {
    const std::size_t own = best_->choice.chunk_bytes;
    const std::size_t sizes[] = {own == 0 ? kFirstTriedBytes : own * 2,
                                 own == 0 ? kFirstTriedBytes / 4 : own / 2};
    for (const std::size_t bytes : sizes) {
      Choice choice = best_->choice;
      choice.chunk_bytes = bytes;
      const bool is_possible =
          bytes >= kSmallestTriedBytes && bytes <= kLargestTriedBytes && bytes < shard_bytes_;
      if (is_possible && !measured_.has(choice)) return choice;
    }
    return std::nullopt;
  }

  Trial try_out(const Choice& choice) {
    ++trials_;
    is_long_ = false;
    return begin_trial(choice, limits_.warm_up_calls, limits_.calls);
  }

  Trial try_out_long(const Choice& choice) {
    is_long_ = true;
    return begin_trial(choice, limits_.rematch_warm_up_calls, limits_.rematch_calls);
  }

  /// Of so many calls at most.
  Trial begin_trial(const Choice& choice, std::uint32_t warm_up_calls,
                    std::uint32_t counted_calls) {
    trial_ = choice;
    times_.clear();
    skipped_ = 0;
    const double seconds = expected(choice);
    const double most = seconds > 0 ? limits_.trial_seconds / seconds : 1e9;
    const std::uint32_t all = std::max(1u, warm_up_calls + counted_calls);
    const auto calls = static_cast<std::uint32_t>(std::clamp<double>(most, std::min(3u, all), all));
    warm_up_ = std::max<std::uint32_t>(1, calls * warm_up_calls / all);
    warm_up_ = std::min(warm_up_, calls - 1);
    times_.reserve(calls);
    return {choice, calls, false};
  }

  void settle(std::vector<TuningNote>* notes) {
    const std::optional<Measured> exact = find_exact();
    const std::optional<Measured> lossy = measured_.find_quickest_long();
    if (exact && lossy) {
      const bool gains = lossy->seconds < limits_.worth_switching * exact->seconds;
      best_ = gains ? lossy : exact;
    } else if (lossy) {
      best_ = lossy;
    } else if (!best_) {
      // Nothing was tried: the model decides.
      best_ = Measured{candidates_.front().choice, candidates_.front().seconds};
      is_guess_ = true;
    }
    is_settled_ = true;
    surprises_ = 0;
    notes->push_back(
        {TuningEvent::kSettled, best_->choice, 0, best_->seconds, predicted(best_->choice)});
  }

  /// The settled choice, until the next look at it.
  Trial stay() {
    times_.clear();
    skipped_ = 0;
    warm_up_ = 0;
    trial_ = best_->choice;
    const double wanted = kSettledSeconds / std::max(best_->seconds, kShortest);
    const auto calls = static_cast<std::uint32_t>(
        std::clamp<double>(wanted, kFewestSettledCalls, kMostSettledCalls));
    times_.reserve(calls);
    return {best_->choice, calls, true};
  }

  void look_at_settled(std::vector<TuningNote>* notes) {
    if (times_.empty()) return;
    const double seconds = typical_seconds(times_);
    if (std::exchange(is_guess_, false)) best_->seconds = seconds;
    const double change = std::max(seconds, kShortest) / std::max(best_->seconds, kShortest);
    const bool is_surprise = change > limits_.drift || change * limits_.drift < 1;
    surprises_ = is_surprise ? surprises_ + 1 : 0;
    if (surprises_ >= patience_) {
      begin_anew(seconds, notes);
    } else if (!is_surprise && ++looks_ == second_look_) {
      second_look_ *= 2;
      look_again(seconds);
    }
  }

  void begin_anew(double seconds, std::vector<TuningNote>* notes) {
    notes->push_back({TuningEvent::kDrifted, best_->choice,
                      static_cast<std::uint32_t>(times_.size()), seconds, best_->seconds});
    patience_ = std::min(2 * patience_, kMostPatience);
    is_model_wrong_ = true;
    exact_times_.clear();
    times_.clear();
    start_over();
  }

  /// What is settled, which now takes so long, and the one that did not win.
  void look_again(double seconds) {
    const bool was_exact = best_->choice.is_exact();
    const std::optional<Measured> other = was_exact ? measured_.find_quickest(false) : find_exact();
    const auto candidate = std::find_if(
        candidates_.begin(), candidates_.end(),
        [was_exact](const Candidate& one) { return one.choice.is_exact() != was_exact; });
    if (!other && candidate == candidates_.end()) return;
    if (other && measured_.has(other->choice) && other->seconds > kNear * seconds) {
      // That was no bad time. All the same: links become quicker, and codecs do not.
      if (++hopeless_looks_ % kHopelessLooks != 0) return;
    }
    const Choice choice = other ? other->choice : candidate->choice;
    best_->seconds = seconds;
    best_->was_long = true;
    measured_.clear();
    measured_.add(*best_);
    waiting_.clear();
    again_ = choice;
    is_settled_ = false;
    trials_ = 0;
    rematches_ = 0;
    times_.clear();
  }

  const std::vector<Candidate> candidates_;
  const std::size_t shard_bytes_;
  const TuningLimits limits_;
  std::deque<Candidate> waiting_;
  MeasuredChoices measured_;
  std::optional<Measured> best_;
  std::vector<double> exact_times_;
  bool is_connected_ = false;
  Choice trial_;
  bool is_long_ = false;
  std::vector<double> times_;  // Of the trial under way.
  std::uint32_t warm_up_ = 0;
  std::uint32_t skipped_ = 0;
  std::uint32_t trials_ = 0;
  std::uint32_t rematches_ = 0;
  std::optional<Choice> again_;  // To be tried whatever is expected of it.
  bool is_model_wrong_ = false;
  bool is_settled_ = false;
  std::uint32_t looks_ = 0;  // At what is settled.
  std::uint32_t second_look_ = kFirstSecondLook;
  std::uint32_t hopeless_looks_ = 0;
  bool is_guess_ = false;        // What is settled: nothing was measured.
  std::uint32_t surprises_ = 0;  // Looks in a row.
  std::uint32_t patience_ = 2;   // So many of them begin it anew; more each time.
};

}  // namespace

std::unique_ptr<CallTuner> make_call_tuner(std::vector<Candidate> candidates,
                                           const CallShape& shape, const TuningLimits& limits) {
  return std::make_unique<WalkingTuner>(std::move(candidates), shape, limits);
}

}  // namespace ringpress::tuner
