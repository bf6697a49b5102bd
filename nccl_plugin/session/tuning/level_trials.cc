#include "nccl_plugin/session/tuning/level_trials.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "compress_kernels/factory.h"
#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin::tuning {
double squares_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return sum;
}

namespace {

// Steps that a quantiser is tried for before what it keeps counts, and those that count.
constexpr std::size_t kSettlingSteps = 48;
constexpr std::size_t kCountedSteps = 10;
// Ranks whose sum is tried, if there are as many, and how far the values stand apart that one of
// them has beside another: in another block, whose largest value is another one, and near, as rows
// of a tensor are of a kind.
constexpr std::size_t kTriedRanks = 4;
constexpr std::size_t kDistance = 145;
// Top-k: calls are tried several at a time, of which no more than this share of all values is sent.
constexpr double kLargestShare = 1.0 / 24;
// Settling and counting, over the calls that it takes to send as many values as there are.
constexpr double kSettlingCycles = 2;
constexpr double kCountedCycles = 1;

/// A sign for each value, the same on all ranks.
template <typename Take>
void for_each_sign(std::uint64_t seed, std::size_t count, Take&& take) {
  constexpr std::size_t kBits = 32;  // Of a hash: the upper ones are the better ones.
  for (std::size_t first = 0; first < count; first += kBits) {
    const std::uint64_t bits = combine_hash(combine_hash(seed, first), kBits) >> kBits;
    const std::size_t end = std::min(first + kBits, count);
    for (std::size_t i = first; i < end; ++i) {
      take(i, (bits >> (i - first) & 1) != 0 ? 1.0f : -1.0f);
    }
  }
}

/// Its steps again and again, for top-k with error feedback.
class RepeatedSteps {
 public:
  explicit RepeatedSteps(const SampledPart& part)
      : part_(part), mean_(part.mean()), step_(part.size()) {
    rest_.assign(part.size(), 0);
    for (const std::vector<float>& values : part.steps()) {
      for (std::size_t i = 0; i < rest_.size(); ++i) rest_[i] += values[i] - mean_[i];
    }
  }

  std::size_t period() const { return part_.steps().size(); }
  /// The next step's values.
  const std::vector<float>& next() {
    const std::vector<float>& values = part_.steps()[at_ % period()];
    if (at_ < period() || !part_.has_feedback()) {
      step_ = values;
    } else {
      const std::uint64_t repetition = at_ / period();
      for_each_sign(repetition, step_.size(), [&](std::size_t i, float sign) {
        step_[i] = mean_[i] + sign * (values[i] - mean_[i]);
      });
    }
    ++at_;
    return step_;
  }
  /// values += so many whole periods, of which next() gives none.
  void add_periods(std::size_t periods, std::vector<float>* values) {
    if (periods == 0) return;
    const auto of_mean = static_cast<float>(periods * period());
    const float of_rest = std::sqrt(static_cast<float>(periods));
    for_each_sign(~skipped_++, step_.size(), [&](std::size_t i, float sign) {
      (*values)[i] += of_mean * mean_[i] + sign * of_rest * rest_[i];
    });
  }

 private:
  const SampledPart& part_;
  const std::vector<float> mean_;
  std::vector<float> rest_;  // The sum of all deviations.
  std::vector<float> step_;
  std::size_t at_ = 0;
  std::uint64_t skipped_ = 0;
};

/// Adds up what calls are wrong by.
class Losses {
 public:
  explicit Losses(const SampledPart& part) : part_(part), sum_(part.size()) {}

  void add_call(std::span<const float> values, std::span<const float> sent) {
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      const float lost = values[i] - sent[i];
      of_calls_ += double{lost} * double{lost};
      sum_[i] += lost;
    }
    ++calls_;
  }
  void add_kept(std::span<const float> residual) {
    kept_ += squares_of(residual);
    ++times_kept_;
  }
  TrialLoss get() const {
    const double scale = static_cast<double>(part_.count()) / static_cast<double>(part_.size());
    const auto calls = static_cast<double>(calls_);
    const double of_call = of_calls_ / calls;
    if (part_.has_feedback()) {
      return {scale * of_call, scale * kept_ / static_cast<double>(times_kept_)};
    }
    // The mean of these calls has more of chance than that of many: without, what is always there.
    // Less than a call's loss over the square of the steps cannot be told from chance.
    const double of_these = squares_of(sum_) / (calls * calls);
    const auto different = static_cast<double>(part_.steps().size());
    const double always = different > 1
                              ? std::max(0.0, (different * of_these - of_call) / (different - 1))
                              : of_these;
    return {scale * of_call, scale * (always + of_call / (different * different))};
  }

 private:
  const SampledPart& part_;
  double of_calls_ = 0;
  double kept_ = 0;
  std::size_t calls_ = 0;
  std::size_t times_kept_ = 0;
  std::vector<float> sum_;
};

/// A quantiser, call after call.
class CodecTrial {
 public:
  CodecTrial(const SampledPart& part, const Codec& codec)
      : codec_(codec),
        losses_(part),
        wire_(codec.wire_bytes(part.size())),
        residual_(part.has_feedback() ? part.size() : 0),
        sent_(part.size()) {}

  void send(std::span<const float> values, std::uint64_t call, bool counts) {
    EncodeArgs args;
    args.values = values.data();
    args.count = values.size();
    args.residual = residual_.empty() ? nullptr : residual_.data();
    args.wire = wire_.data();
    args.decoded = sent_.data();
    args.random.step = call;
    codec_.encode(args);
    if (!counts) return;
    losses_.add_call(values, sent_);
    losses_.add_kept(residual_);
  }
  std::span<const float> sent() const { return sent_; }
  std::span<const float> kept() const { return residual_; }
  TrialLoss get() const { return losses_.get(); }

 private:
  const Codec& codec_;
  Losses losses_;
  std::vector<std::byte> wire_;
  std::vector<float> residual_;
  std::vector<float> sent_;
};

/// Ranks that encode their values, but one, which adds them up and encodes the sum.
class SumTrial {
 public:
  SumTrial(const SampledPart& part, const Codec& codec, const RanksSum& sum)
      : sum_(sum),
        mean_(part.mean()),
        values_(part.size()),
        summed_(part.size()),
        others_(std::min(sum.ranks, kTriedRanks) - 1, CodecTrial(part, codec)),
        of_sum_(part, codec),
        of_others_(part),
        of_all_(part) {}

  void send(std::span<const float> step, std::uint64_t call, bool counts) {
    make_values(0, step);
    summed_ = values_;
    std::vector<float> sent = values_;
    std::vector<float> kept(of_sum_.kept().size());
    for (std::size_t rank = 1; rank <= others_.size(); ++rank) {
      CodecTrial& other = others_[rank - 1];
      make_values(rank, step);
      other.send(values_, call, false);
      add(values_, &summed_);
      add(other.sent(), &sent);
      add(other.kept(), &kept);
    }
    if (counts) add_losses(step, sent, kept);
    of_sum_.send(sent, call, false);
    add(of_sum_.kept(), &kept);
    if (!counts) return;
    of_all_.add_call(summed_, of_sum_.sent());
    of_all_.add_kept(kept);
  }
  /// A rank's share of what is lost beside the first encodings: as large as the sum is.
  TrialLoss get() const {
    const double scale = tried_squares_ > 0 ? true_squares_ / tried_squares_ : 0;
    const TrialLoss all = of_all_.get(), first = of_others_.get();
    return {scale * (all.of_call - first.of_call), scale * (all.of_mean - first.of_mean)};
  }

 private:
  /// What two ranks have in common, over the squares of either.
  float correlation(double of_sum) const {
    const auto others = static_cast<double>(std::max<std::size_t>(sum_.ranks, 2) - 1);
    return static_cast<float>(std::clamp((of_sum - 1) / others, 0.0, 1.0));
  }
  /// Some that all have, and what stands elsewhere in this rank's values. Weighted sums of both
  /// would have another law.
  void make_values(std::size_t rank, std::span<const float> step) {
    const float common_mean = correlation(sum_.of_mean), common_rest = correlation(sum_.of_rest);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::size_t own = (i + rank * kDistance) % values_.size();
      const auto dice = static_cast<float>(mix_bits(i + 1) >> 40) * 0x1p-24f;
      const std::size_t of_mean = dice < common_mean ? i : own;
      const std::size_t of_rest = dice < common_rest ? i : own;
      values_[i] = mean_[of_mean] + (step[of_rest] - mean_[of_rest]);
    }
  }
  static void add(std::span<const float> values, std::vector<float>* to) {
    for (std::size_t i = 0; i < values.size(); ++i) (*to)[i] += values[i];
  }
  void add_losses(std::span<const float> step, std::span<const float> sent,
                  std::span<const float> kept) {
    of_others_.add_call(summed_, sent);
    of_others_.add_kept(kept);
    double of_mean = 0, of_rest = 0;
    for (std::size_t i = 0; i < step.size(); ++i) {
      of_mean += double{mean_[i]} * double{mean_[i]};
      of_rest += std::pow(double{step[i]} - double{mean_[i]}, 2);
    }
    true_squares_ += sum_.of_mean * of_mean + sum_.of_rest * of_rest;
    tried_squares_ += squares_of(summed_);
  }

  const RanksSum& sum_;
  const std::vector<float> mean_;
  std::vector<float> values_;
  std::vector<float> summed_;
  std::vector<CodecTrial> others_;
  CodecTrial of_sum_;
  Losses of_others_;
  Losses of_all_;
  double true_squares_ = 0;
  double tried_squares_ = 0;
};

/// Magnitude of the smallest of the `chosen` largest values, of which there are more.
float threshold_of(std::span<const float> values, std::size_t chosen, std::vector<float>* memory) {
  memory->resize(values.size());
  std::transform(values.begin(), values.end(), memory->begin(),
                 [](float value) { return std::abs(value); });
  const auto last = memory->begin() + static_cast<std::ptrdiff_t>(chosen - 1);
  std::nth_element(memory->begin(), last, memory->end(), std::greater<>());
  return *last;
}

/// Top-k at one density, several calls at a time.
class DensityTrial {
 public:
  DensityTrial(const SampledPart& part, double density)
      : part_(part), steps_(part), kept_(part.size()) {
    const double share = std::max(density, std::min(kLargestShare, 1.0));
    calls_at_a_time_ = part.has_feedback() ? std::max(1.0, std::floor(share / density)) : 1;
    share_ = density * calls_at_a_time_;
  }

  TrialLoss run() {
    const auto settling = static_cast<std::size_t>(std::ceil(kSettlingCycles / share_));
    const auto counted = static_cast<std::size_t>(std::ceil(kCountedCycles / share_));
    if (!part_.has_feedback()) return run_without_feedback();
    for (std::size_t i = 0; i < settling; ++i) send(false);
    for (std::size_t i = 0; i < std::max(counted, kCountedSteps); ++i) send(true);
    const double scale = static_cast<double>(part_.count()) / static_cast<double>(part_.size());
    const auto times = static_cast<double>(times_);
    return {scale * (step_squares_ + sent_squares_ / calls_at_a_time_) / times,
            scale * kept_squares_ / times};
  }

 private:
  std::size_t chosen() {
    owed_ += share_ * static_cast<double>(kept_.size());
    const auto now = std::min(static_cast<std::size_t>(owed_), kept_.size());
    owed_ -= static_cast<double>(now);
    return now;
  }

  TrialLoss run_without_feedback() {
    Losses losses(part_);
    std::vector<float> sent(part_.size());
    for (std::size_t step = 0; step < steps_.period(); ++step) {
      const std::vector<float>& values = steps_.next();
      const std::size_t number = std::max<std::size_t>(1, chosen());
      const float threshold = threshold_of(values, number, &magnitudes_);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        sent[i] = std::abs(values[i]) >= threshold ? values[i] : 0;
      }
      losses.add_call(values, sent);
    }
    return losses.get();
  }

  void send(bool counts) {
    // The last call is one of the steps: of it, it is known what it is wrong by.
    const auto before = static_cast<std::size_t>(calls_at_a_time_) - 1;
    steps_.add_periods(before / steps_.period(), &kept_);
    for (std::size_t i = 0; i < before % steps_.period(); ++i) add(steps_.next());
    const std::vector<float>& last = steps_.next();
    add(last);
    if (const std::size_t number = chosen(); number > 0) {
      const float threshold = threshold_of(kept_, number, &magnitudes_);
      for (std::size_t i = 0; i < kept_.size(); ++i) {
        if (std::abs(kept_[i]) < threshold) continue;
        const double sent = kept_[i];
        if (counts) sent_squares_ += sent * (sent - 2 * double{last[i]});
        kept_[i] = 0;
      }
    }
    if (!counts) return;
    step_squares_ += squares_of(last);
    kept_squares_ += squares_of(kept_);
    ++times_;
  }
  void add(std::span<const float> values) {
    for (std::size_t i = 0; i < kept_.size(); ++i) kept_[i] += values[i];
  }

  const SampledPart& part_;
  RepeatedSteps steps_;
  double calls_at_a_time_ = 1;
  double share_ = 1;  // Of the values, that are sent each time.
  double owed_ = 0;
  std::vector<float> kept_;
  std::vector<float> magnitudes_;
  double step_squares_ = 0;
  double sent_squares_ = 0;
  double kept_squares_ = 0;
  std::size_t times_ = 0;
};

}  // namespace

SampledPart::SampledPart(std::size_t count, std::size_t wanted)
    : count_(count), runs_((wanted + kTileElements - 1) / kTileElements) {
  if (wanted >= count || runs_ * kTileElements >= count) runs_ = 0;
  size_ = runs_ == 0 ? count : runs_ * kTileElements;
  sums_.assign(size_, 0);
}

std::vector<float> SampledPart::load(const MeasuredTensor& part) const {
  std::vector<float> values(size_);
  const auto* const bytes = static_cast<const std::byte*>(part.values);
  if (runs_ == 0) compress_kernels::add_values(bytes, size_, part.dtype, values.data());
  for (std::size_t run = 0; run < runs_; ++run) {
    // Evenly over all tiles but the last one, which may be shorter.
    const std::size_t first = run * (count_ / kTileElements) / runs_ * kTileElements;
    compress_kernels::add_values(bytes + first * dtype_size(part.dtype), kTileElements, part.dtype,
                                 &values[run * kTileElements]);
  }
  return values;
}

bool SampledPart::add(const MeasuredTensor& part, bool keeps) {
  std::vector<float> values = load(part);
  if (!std::isfinite(squares_of(values))) return false;
  has_feedback_ |= part.residual != nullptr;
  ++added_;
  for (std::size_t i = 0; i < size_; ++i) sums_[i] += values[i];
  if (keeps) steps_.push_back(std::move(values));
  return true;
}

std::vector<float> SampledPart::mean() const {
  std::vector<float> mean = sums_;
  for (float& value : mean) value /= static_cast<float>(added_);
  double deviations = 0;
  for (const std::vector<float>& values : steps_) {
    for (std::size_t i = 0; i < size_; ++i) {
      deviations += std::pow(double{values[i]} - double{mean[i]}, 2);
    }
  }
  // The mean's squares are those of what is always there, and of chance over the steps.
  const double chance =
      deviations / static_cast<double>(steps_.size()) / static_cast<double>(added_);
  const double squares = squares_of(mean);
  const double real = squares > 0 ? std::max(0.0, 1 - chance / squares) : 0;
  for (float& value : mean) value *= static_cast<float>(std::sqrt(real));
  return mean;
}

std::vector<float> SampledPart::mixed_deviations(std::span<const float> mean,
                                                 std::size_t steps) const {
  std::vector<float> mixed(size_);
  for (std::size_t age = 0; age < std::min(steps, steps_.size()); ++age) {
    const std::vector<float>& values = steps_[steps_.size() - 1 - age];
    for_each_sign(age, size_,
                  [&](std::size_t i, float sign) { mixed[i] += sign * (values[i] - mean[i]); });
  }
  return mixed;
}

TrialLoss try_codec(const SampledPart& part, const Codec& codec, const RanksSum& sum) {
  const std::size_t settling = part.has_feedback() ? kSettlingSteps : 0;
  const std::size_t period = part.steps().size();
  // Whole repetitions.
  const std::size_t counted = (kCountedSteps + period - 1) / period * period;
  SumTrial of_sum(part, codec, sum);
  CodecTrial own(part, codec);
  for (std::size_t call = 0; call < settling + counted; ++call) {
    const bool counts = call >= settling;
    const std::vector<float>& values = part.steps()[call % period];
    own.send(values, call, counts);
    of_sum.send(values, call, counts);
  }
  const TrialLoss first = own.get(), second = of_sum.get();
  // All ranks but the one that adds them up lose something.
  const double encoding = 1 - 1 / static_cast<double>(sum.ranks);
  return {std::max(0.0, encoding * first.of_call + second.of_call),
          std::max(0.0, encoding * first.of_mean + second.of_mean)};
}

std::vector<TrialLoss> try_densities(const SampledPart& part, std::span<const double> densities,
                                     const RanksSum& sum) {
  const std::vector<float> mean = part.mean();
  const double of_mean = squares_of(mean) * static_cast<double>(part.steps().size());
  double of_values = 0;
  for (const std::vector<float>& values : part.steps()) of_values += squares_of(values);
  const double of_rest = std::max(0.0, of_values - of_mean);
  const double all = of_mean + of_rest;
  const double larger = all > 0 ? (of_mean * sum.of_mean + of_rest * sum.of_rest) / all : 1;
  std::vector<TrialLoss> losses;
  for (const double density : densities) {
    TrialLoss loss = DensityTrial(part, density).run();
    loss.of_call *= larger;
    loss.of_mean *= sum.of_mean;
    losses.push_back(loss);
  }
  return losses;
}

}  // namespace ringpress::nccl_plugin::tuning
