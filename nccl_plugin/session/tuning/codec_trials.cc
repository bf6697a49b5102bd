// Trials of quantisers.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "nccl_plugin/session/tuning/level_trials.h"
#include "nccl_plugin/session/tuning/repeated_steps.h"
#include "nccl_plugin/session/tuning/trial_losses.h"
#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

// Calls that a quantiser is tried for before what it keeps counts, after those that are skipped,
// and those that count, twice.
constexpr std::size_t kSettlingSteps = 10;
constexpr std::size_t kCountedSteps = 10;
// Ranks whose sum is tried, if there are as many, and how far the values stand apart that one of
// them has beside another: in another block, whose largest value is another one, and near, as rows
// of a tensor are of a kind.
constexpr std::size_t kTriedRanks = 4;
constexpr std::size_t kDistance = 145;

void add_values(std::span<const float> values, std::vector<float>* to) {
  for (std::size_t i = 0; i < values.size(); ++i) (*to)[i] += values[i];
}

/// The values of some ranks: those of this one, and such as lie to them as the other ranks' do.
class RanksValues {
 public:
  RanksValues(const SampledPart& part, const RanksSum& sum)
      : sum_(sum), mean_(part.mean()), summed_(part.size()) {
    values_.resize(std::clamp(sum.ranks, std::size_t{2}, kTriedRanks),
                   std::vector<float>(part.size()));
    make_places(correlation(sum.of_mean), &of_mean_);
    make_places(correlation(sum.of_rest), &of_rest_);
  }

  std::size_t ranks() const { return values_.size(); }
  std::span<const float> of(std::size_t rank) const { return values_[rank]; }
  std::span<const float> summed() const { return summed_; }

  /// Makes them those of a step.
  void make(std::span<const float> step) {
    deviations_.assign(step.begin(), step.end());
    for (std::size_t i = 0; i < step.size(); ++i) deviations_[i] -= mean_[i];
    make(1, deviations_);
  }
  /// Makes them so many times the mean, and `deviations`.
  void make(float times, std::span<const float> deviations) {
    std::fill(summed_.begin(), summed_.end(), 0.0f);
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const std::size_t shift = rank * kDistance % summed_.size();
      std::vector<float>& values = values_[rank];
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = times * mean_[place(i, of_mean_[i] ? 0 : shift)] +
                    deviations[place(i, of_rest_[i] ? 0 : shift)];
      }
      add_values(values, &summed_);
    }
  }
  /// Squares of the sum of all ranks, beside those of this rank's values, in the step that make()
  /// has made: as the ranks say, not as it is here.
  double squares_of_sum() const {
    return sum_.of_mean * squares_of(mean_) + sum_.of_rest * squares_of(deviations_);
  }

 private:
  /// What two ranks have in common, over the squares of either.
  float correlation(double of_sum) const {
    const auto others = static_cast<double>(std::max<std::size_t>(sum_.ranks, 2) - 1);
    return static_cast<float>(std::clamp((of_sum - 1) / others, 0.0, 1.0));
  }
  /// Some places have what all ranks have, and others what stands elsewhere in this rank's values.
  /// Weighted sums of both would have another law.
  void make_places(float common, std::vector<bool>* is_common) const {
    is_common->resize(summed_.size());
    for (std::size_t i = 0; i < summed_.size(); ++i) {
      (*is_common)[i] = static_cast<float>(mix_bits(i + 1) >> 40) * 0x1p-24f < common;
    }
  }
  std::size_t place(std::size_t i, std::size_t shift) const {
    const std::size_t shifted = i + shift;
    return shifted < summed_.size() ? shifted : shifted - summed_.size();
  }

  const RanksSum& sum_;
  const std::vector<float> mean_;
  std::vector<bool> of_mean_, of_rest_;  // By place: what all ranks have.
  std::vector<float> deviations_;
  std::vector<std::vector<float>> values_;  // By rank.
  std::vector<float> summed_;
};

/// A quantiser, call after call.
class Encoder {
 public:
  Encoder(const SampledPart& part, const TriedCodec& tried)
      : tried_(tried),
        wire_(tried.codec->wire_bytes(part.size())),
        residual_(part.has_feedback() ? part.size() : 0),
        largest_(part.has_feedback() ? part.size() / tried.block + 1 : 0),
        sent_(part.size()) {}

  void send(std::span<const float> values, std::uint64_t call) {
    EncodeArgs args;
    args.values = values.data();
    args.count = values.size();
    args.residual = residual_.empty() ? nullptr : residual_.data();
    args.wire = wire_.data();
    args.decoded = sent_.data();
    args.random.step = call;
    tried_.codec->encode(args);
  }
  /// What the largest values of blocks may be.
  void see(std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      float& largest = largest_[i / tried_.block];
      largest = std::max(largest, std::abs(values[i]));
    }
  }
  /// As if calls whose values add up to `sum` had been sent.
  void skip(std::span<const float> sum) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const double all = double{residual_[i]} + double{sum[i]};
      const double largest = largest_[i / tried_.block];
      const double times = all / largest;
      const bool is_kept = std::abs(times) < kMostMultiples;
      const auto whole = is_kept ? static_cast<std::int64_t>(times + std::copysign(0.5, times)) : 0;
      residual_[i] =
          is_kept ? static_cast<float>(all - largest * static_cast<double>(whole)) : 0.0f;
    }
  }
  std::span<const float> sent() const { return sent_; }
  std::span<const float> kept() const { return residual_; }

 private:
  static constexpr double kMostMultiples = 0x1p40;

  const TriedCodec& tried_;
  std::vector<std::byte> wire_;
  std::vector<float> residual_;
  std::vector<float> largest_;  // Of blocks.
  std::vector<float> sent_;
};

/// One codec on ranks that encode their values, but one, which adds them up and encodes the sum.
class CodecTrial {
 public:
  CodecTrial(const SampledPart& part, const TriedCodec& tried, std::size_t ranks)
      : others_(ranks - 1, Encoder(part, tried)),
        of_sum_(part, tried),
        of_first_(part),
        of_others_(part),
        of_all_(part) {}

  void see(const RanksValues& values) {
    for_each_encoder(values, [](Encoder& encoder, auto of_rank) { encoder.see(of_rank); });
  }
  void skip(const RanksValues& values) {
    for_each_encoder(values, [](Encoder& encoder, auto of_rank) { encoder.skip(of_rank); });
  }
  void send(const RanksValues& values, std::size_t call) {
    sent_.assign(values.of(0).begin(), values.of(0).end());
    for (std::size_t rank = 1; rank < values.ranks(); ++rank) {
      others_[rank - 1].send(values.of(rank), call);
      add_values(others_[rank - 1].sent(), &sent_);
    }
    of_sum_.send(sent_, call);
  }
  /// The call that was sent last counts.
  void count(const RanksValues& values, bool is_late) {
    of_first_.add_call(values.of(1), others_[0].sent());
    of_others_.add_call(values.summed(), sent_);
    of_all_.add_call(values.summed(), of_sum_.sent());
    kept_.assign(of_sum_.kept().size(), 0);
    for (const Encoder& other : others_) add_values(other.kept(), &kept_);
    of_first_.add_kept(squares_of(others_[0].kept()), is_late);
    of_others_.add_kept(squares_of(kept_), is_late);
    add_values(of_sum_.kept(), &kept_);
    of_all_.add_kept(squares_of(kept_), is_late);
  }
  /// All `ranks` but the one that adds them up lose something. Of what is lost beside that a rank
  /// has a share that is as large as the sum is.
  LossKinds get(std::size_t ranks, double share) const {
    const double encoding = 1 - 1 / static_cast<double>(ranks);
    const LossKinds first = of_first_.get(), others = of_others_.get(), all = of_all_.get();
    LossKinds losses;
    for (std::size_t kind = 0; kind < kLossKinds; ++kind) {
      losses[kind] = std::max(0.0, encoding * first[kind] + share * (all[kind] - others[kind]));
    }
    return losses;
  }

 private:
  template <typename Do>
  void for_each_encoder(const RanksValues& values, Do&& call) {
    for (std::size_t i = 0; i < others_.size(); ++i) call(others_[i], values.of(i + 1));
    call(of_sum_, values.summed());
  }

  std::vector<Encoder> others_;
  Encoder of_sum_;
  std::vector<float> sent_;
  std::vector<float> kept_;
  TrialLosses of_first_;   // Of one rank's encoding.
  TrialLosses of_others_;  // Of those that are added up.
  TrialLosses of_all_;     // Of the encoding of the sum.
};

/// All codecs on the same values.
class CodecTrials {
 public:
  CodecTrials(const SampledPart& part, std::span<const TriedCodec> codecs, const RanksSum& sum)
      : part_(part), ranks_(sum.ranks), steps_(part), values_(part, sum) {
    for (const TriedCodec& codec : codecs) trials_.emplace_back(part, codec, values_.ranks());
  }

  std::vector<LossKinds> run(const TrialCalls& calls) {
    if (part_.has_feedback()) {
      see_steps();
      settle(calls.so_far);
      count(false);
      settle(calls.later);
    }
    count(true);
    const double share = tried_squares_ > 0 ? true_squares_ / tried_squares_ : 0;
    std::vector<LossKinds> losses;
    for (const CodecTrial& trial : trials_) losses.push_back(trial.get(ranks_, share));
    return losses;
  }

 private:
  void see_steps() {
    for (const std::vector<float>& step : part_.steps()) {
      values_.make(step);
      for (CodecTrial& trial : trials_) trial.see(values_);
    }
  }
  /// Calls up to those that count, so that half of these come before `calls` and half after them.
  void settle(std::size_t calls) {
    const std::size_t first = at_ + counted() / 2;
    const std::size_t before = calls > first ? calls - first : 0;
    const std::size_t settling = std::min(before, kSettlingSteps);
    skip((before - settling) / steps_.period());
    for (std::size_t i = 0; i < settling; ++i) send();
  }
  void skip(std::size_t periods) {
    if (periods == 0) return;
    values_.make(static_cast<float>(periods * steps_.period()), steps_.skip(periods));
    for (CodecTrial& trial : trials_) trial.skip(values_);
    at_ += periods * steps_.period();
  }
  void send() {
    values_.make(part_.steps()[at_ % steps_.period()]);
    for (CodecTrial& trial : trials_) trial.send(values_, at_);
    ++at_;
  }
  /// Whole repetitions.
  std::size_t counted() const {
    const std::size_t period = steps_.period();
    return (kCountedSteps + period - 1) / period * period;
  }
  void count(bool is_late) {
    for (std::size_t i = 0; i < counted(); ++i) {
      send();
      for (CodecTrial& trial : trials_) trial.count(values_, is_late);
      true_squares_ += values_.squares_of_sum();
      tried_squares_ += squares_of(values_.summed());
    }
  }

  const SampledPart& part_;
  const std::size_t ranks_;
  RepeatedSteps steps_;
  RanksValues values_;
  std::vector<CodecTrial> trials_;
  std::size_t at_ = 0;  // Calls so far.
  double true_squares_ = 0;
  double tried_squares_ = 0;
};

}  // namespace

std::vector<LossKinds> try_codecs(const SampledPart& part, std::span<const TriedCodec> codecs,
                                  const RanksSum& sum, const TrialCalls& calls) {
  return CodecTrials(part, codecs, sum).run(calls);
}

}  // namespace ringpress::nccl_plugin::tuning
