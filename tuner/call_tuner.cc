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

/// What the cost model says, how far it has been wrong, and whether it still leads.
class Predictions {
 public:
  explicit Predictions(std::vector<Candidate> candidates) : candidates_(std::move(candidates)) {
    exact_times_.reserve(kMostExactTimes);
  }

  const std::vector<Candidate>& candidates() const { return candidates_; }
  /// The quickest without a codec.
  const Candidate& exact_candidate() const {
    return *std::find_if(candidates_.begin(), candidates_.end(),
                         [](const Candidate& one) { return one.choice.is_exact(); });
  }
  /// 0: it was no candidate.
  double predicted(const Choice& choice) const {
    const auto found =
        std::find_if(candidates_.begin(), candidates_.end(), [&choice](const Candidate& one) {
          return one.choice.codec == choice.codec && one.choice.algorithm == choice.algorithm;
        });
    return found == candidates_.end() ? 0 : found->seconds;
  }
  /// The prediction, by how far predictions were wrong so far.
  double expected(const Choice& choice, const std::optional<Measured>& best) const {
    const double seconds = predicted(choice);
    if (best && predicted(best->choice) > 0) {
      return seconds * best->seconds / predicted(best->choice);
    }
    if (exact_times_.empty()) return seconds;
    return seconds * typical_seconds(exact_times_) / predicted(exact_candidate().choice);
  }

  /// A call without a codec that was made before anything was tried.
  void note_exact(double seconds) {
    // The first one connects.
    if (is_connected_ && exact_times_.size() < kMostExactTimes) exact_times_.push_back(seconds);
    is_connected_ = true;
  }
  /// Calls take something else than they did.
  void give_up() {
    is_wrong_ = true;
    exact_times_.clear();
  }
  bool is_worth_a_trial(const Candidate& candidate, const std::optional<Measured>& best,
                        bool knows_exact) const {
    if (!best || is_wrong_) return true;
    // Whether anything is gained is not left to the model.
    if (candidate.choice.is_exact() && !knows_exact) {
      return candidate.choice == exact_candidate().choice;
    }
    return expected(candidate.choice, best) < kHopeless * best->seconds;
  }
  /// How long calls take without a codec, if that is known well enough: as few as came before were
  /// long because calls are, and not because a rank was late, if the model has it so, too.
  std::optional<Measured> find_exact(const std::optional<Measured>& best) const {
    if (exact_times_.empty() || !best) return std::nullopt;
    const Choice& choice = exact_candidate().choice;
    const double seconds = std::min(typical_seconds(exact_times_), expected(choice, best));
    if (seconds <= kLongSeconds || seconds <= kClearlySlower * best->seconds) return std::nullopt;
    return Measured{choice, seconds};
  }

 private:
  const std::vector<Candidate> candidates_;
  std::vector<double> exact_times_;
  bool is_connected_ = false;
  bool is_wrong_ = false;
};

/// The calls of the trial under way, or of what is settled.
class TimedCalls {
 public:
  /// `warm_up`: so many do not count.
  void begin(const Choice& choice, std::uint32_t calls, std::uint32_t warm_up, bool is_long) {
    choice_ = choice;
    is_long_ = is_long;
    warm_up_ = warm_up;
    skipped_ = 0;
    times_.clear();
    times_.reserve(calls);
  }
  void note(double seconds) {
    if (skipped_ < warm_up_) {
      ++skipped_;
    } else {
      times_.push_back(seconds);
    }
  }
  bool is_empty() const { return times_.empty(); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(times_.size()); }
  Measured measured() const { return {choice_, typical_seconds(times_), is_long_}; }
  void clear() { times_.clear(); }

 private:
  Choice choice_;
  bool is_long_ = false;
  std::uint32_t warm_up_ = 0;
  std::uint32_t skipped_ = 0;
  std::vector<double> times_;
};

/// Looks at what is settled.
class SettledLooks {
 public:
  enum class Finding { kStay, kDrifted, kTryOther };

  /// `is_guess`: nothing was measured of it.
  void begin(bool is_guess) {
    is_guess_ = is_guess;
    surprises_ = 0;
  }
  /// It takes so long now.
  Finding look(double seconds, double drift, Measured* settled) {
    if (std::exchange(is_guess_, false)) settled->seconds = seconds;
    const double change = std::max(seconds, kShortest) / std::max(settled->seconds, kShortest);
    const bool is_surprise = change > drift || change * drift < 1;
    surprises_ = is_surprise ? surprises_ + 1 : 0;
    if (surprises_ >= patience_) {
      patience_ = std::min(2 * patience_, kMostPatience);
      return Finding::kDrifted;
    }
    if (is_surprise || ++looks_ != second_look_) return Finding::kStay;
    second_look_ *= 2;
    return Finding::kTryOther;
  }
  /// What did not win was far behind. True: it is its turn all the same, as links become quicker,
  /// and codecs do not.
  bool takes_hopeless() { return ++hopeless_looks_ % kHopelessLooks == 0; }

 private:
  bool is_guess_ = false;
  std::uint32_t looks_ = 0;
  std::uint32_t second_look_ = kFirstSecondLook;
  std::uint32_t hopeless_looks_ = 0;
  std::uint32_t surprises_ = 0;  // Looks in a row.
  std::uint32_t patience_ = 2;   // So many of them begin it anew; more each time.
};

/// Chunks twice and half as large as those of the best.
std::optional<Choice> find_neighbour(const Choice& best, const MeasuredChoices& measured,
                                     std::size_t shard_bytes) {
  const std::size_t own = best.chunk_bytes;
  const std::size_t sizes[] = {own == 0 ? kFirstTriedBytes : own * 2,
                               own == 0 ? kFirstTriedBytes / 4 : own / 2};
  for (const std::size_t bytes : sizes) {
    Choice choice = best;
    choice.chunk_bytes = bytes;
    const bool is_possible =
        bytes >= kSmallestTriedBytes && bytes <= kLargestTriedBytes && bytes < shard_bytes;
    if (is_possible && !measured.has(choice)) return choice;
  }
  return std::nullopt;
}

class WalkingTuner final : public CallTuner {
 public:
  WalkingTuner(std::vector<Candidate> candidates, const CallShape& shape,
               const TuningLimits& limits)
      : predictions_(std::move(candidates)),
        shard_bytes_(shape.bytes / static_cast<std::size_t>(std::max(1, shape.world))),
        limits_(limits),
        measured_(limits.worth_switching) {
    start_over();
  }

  void note_exact(double seconds) override { predictions_.note_exact(seconds); }
  void note(double seconds) override { calls_.note(seconds); }

  Choice quickest_exact() const override {
    const std::optional<Measured> measured = find_exact();
    return measured ? measured->choice : predictions_.exact_candidate().choice;
  }

  void resume(const Choice& settled) override {
    best_ = Measured{settled, predictions_.predicted(settled)};
    walk_.is_settled = true;
    looks_.begin(true);
    static_cast<void>(stay());
  }

  Trial next(std::vector<TuningNote>* notes) override {
    notes->clear();
    if (walk_.is_settled) {
      look_at_settled(notes);
    } else if (!calls_.is_empty()) {
      take_note(notes);
    }
    if (walk_.is_settled) return stay();
    if (walk_.trials < limits_.trials) {
      if (const std::optional<Choice> wanted = find_next()) return try_out(*wanted);
    }
    // Whether anything is gained is not left to the model.
    if (limits_.trials > 0 && !find_exact()) return try_out(predictions_.exact_candidate().choice);
    if (const std::optional<Choice> wanted = find_rematch()) {
      return begin_trial(*wanted, limits_.rematch_warm_up_calls, limits_.rematch_calls, true);
    }
    settle(notes);
    return stay();
  }

 private:
  void start_over() {
    const std::vector<Candidate>& all = predictions_.candidates();
    walk_ = {};
    walk_.waiting.assign(all.begin(), all.end());
    measured_.clear();
    best_.reset();
  }

  void take_note(std::vector<TuningNote>* notes) {
    const Measured now = calls_.measured();
    notes->push_back({TuningEvent::kTried, now.choice, calls_.count(), now.seconds,
                      predictions_.predicted(now.choice)});
    calls_.clear();
    const bool is_new = !measured_.has(now.choice);
    const Measured& known = measured_.add(now);
    const bool is_better =
        is_new && (!best_ || now.seconds < limits_.worth_switching * best_->seconds);
    if (is_better || best_->choice == now.choice) best_ = known;
  }

  std::optional<Choice> find_next() {
    if (walk_.again) return std::exchange(walk_.again, std::nullopt);
    while (!walk_.waiting.empty()) {
      const Candidate candidate = walk_.waiting.front();
      walk_.waiting.pop_front();
      if (predictions_.is_worth_a_trial(candidate, best_, find_exact().has_value())) {
        return candidate.choice;
      }
    }
    const std::optional<Choice> neighbour = find_neighbour(best_->choice, measured_, shard_bytes_);
    if (neighbour) return neighbour;
    return measured_.find_contender();
  }

  /// No codec, or the quickest one, if the two are near each other.
  std::optional<Choice> find_rematch() {
    const std::optional<Measured> exact = measured_.find_quickest(true);
    const std::optional<Measured> lossy = measured_.find_quickest(false);
    if (!exact || !lossy || walk_.rematches == limits_.rematches) return std::nullopt;
    if (exact->seconds > kNear * lossy->seconds || lossy->seconds > kNear * exact->seconds) {
      return std::nullopt;
    }
    return ++walk_.rematches % 2 == 1 ? exact->choice : lossy->choice;
  }

  /// How long calls take without a codec, if that is known well enough.
  std::optional<Measured> find_exact() const {
    const std::optional<Measured> found = measured_.find_quickest(true);
    return found ? found : predictions_.find_exact(best_);
  }

  Trial try_out(const Choice& choice) {
    ++walk_.trials;
    return begin_trial(choice, limits_.warm_up_calls, limits_.calls, false);
  }

  /// Of so many calls at most.
  Trial begin_trial(const Choice& choice, std::uint32_t warm_up_calls, std::uint32_t counted_calls,
                    bool is_long) {
    const double seconds = predictions_.expected(choice, best_);
    const double most = seconds > 0 ? limits_.trial_seconds / seconds : 1e9;
    const std::uint32_t all = std::max(1u, warm_up_calls + counted_calls);
    const auto calls = static_cast<std::uint32_t>(std::clamp<double>(most, std::min(3u, all), all));
    const std::uint32_t warm_up = std::max<std::uint32_t>(1, calls * warm_up_calls / all);
    calls_.begin(choice, calls, std::min(warm_up, calls - 1), is_long);
    return {choice, calls, false};
  }

  void settle(std::vector<TuningNote>* notes) {
    const std::optional<Measured> exact = find_exact();
    const std::optional<Measured> lossy = measured_.find_quickest_long();
    bool is_guess = false;
    if (exact && lossy) {
      const bool gains = lossy->seconds < limits_.worth_switching * exact->seconds;
      best_ = gains ? lossy : exact;
    } else if (lossy) {
      best_ = lossy;
    } else if (!best_) {
      // Nothing was tried: the model decides.
      const Candidate& first = predictions_.candidates().front();
      best_ = Measured{first.choice, first.seconds};
      is_guess = true;
    }
    walk_.is_settled = true;
    looks_.begin(is_guess);
    notes->push_back({TuningEvent::kSettled, best_->choice, 0, best_->seconds,
                      predictions_.predicted(best_->choice)});
  }

  /// The settled choice, until the next look at it.
  Trial stay() {
    const double wanted = kSettledSeconds / std::max(best_->seconds, kShortest);
    const auto calls = static_cast<std::uint32_t>(
        std::clamp<double>(wanted, kFewestSettledCalls, kMostSettledCalls));
    calls_.begin(best_->choice, calls, 0, false);
    return {best_->choice, calls, true};
  }

  void look_at_settled(std::vector<TuningNote>* notes) {
    if (calls_.is_empty()) return;
    const double seconds = calls_.measured().seconds;
    switch (looks_.look(seconds, limits_.drift, &*best_)) {
      case SettledLooks::Finding::kStay:
        return;
      case SettledLooks::Finding::kDrifted:
        return begin_anew(seconds, notes);
      case SettledLooks::Finding::kTryOther:
        return look_again(seconds);
    }
  }

  void begin_anew(double seconds, std::vector<TuningNote>* notes) {
    notes->push_back(
        {TuningEvent::kDrifted, best_->choice, calls_.count(), seconds, best_->seconds});
    predictions_.give_up();
    calls_.clear();
    start_over();
  }

  /// What is settled, which now takes so long, and the one that did not win.
  void look_again(double seconds) {
    const bool was_exact = best_->choice.is_exact();
    const std::optional<Measured> other = was_exact ? measured_.find_quickest(false) : find_exact();
    const std::vector<Candidate>& all = predictions_.candidates();
    const auto candidate = std::find_if(all.begin(), all.end(), [was_exact](const Candidate& one) {
      return one.choice.is_exact() != was_exact;
    });
    if (!other && candidate == all.end()) return;
    if (other && measured_.has(other->choice) && other->seconds > kNear * seconds) {
      if (!looks_.takes_hopeless()) return;  // That was no bad time.
    }
    const Choice choice = other ? other->choice : candidate->choice;
    best_->seconds = seconds;
    best_->was_long = true;
    measured_.clear();
    measured_.add(*best_);
    walk_ = {};
    walk_.again = choice;
    calls_.clear();
  }

  struct Walk {
    std::deque<Candidate> waiting;
    std::uint32_t trials = 0;
    std::uint32_t rematches = 0;
    std::optional<Choice> again;  // To be tried whatever is expected of it.
    bool is_settled = false;
  };

  Predictions predictions_;
  const std::size_t shard_bytes_;
  const TuningLimits limits_;
  MeasuredChoices measured_;
  std::optional<Measured> best_;
  TimedCalls calls_;
  Walk walk_;
  SettledLooks looks_;
};

}  // namespace

std::unique_ptr<CallTuner> make_call_tuner(std::vector<Candidate> candidates,
                                           const CallShape& shape, const TuningLimits& limits) {
  return std::make_unique<WalkingTuner>(std::move(candidates), shape, limits);
}

}  // namespace ringpress::tuner
