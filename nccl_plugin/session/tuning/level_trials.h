// What levels of compression would lose of a part of a tensor, call by call, if they had been used
// all along: tried on a sample of the values of some steps.
//
// One encoding does not say. With error feedback a level adds to each call what it left out before,
// and comes to keep far more than one call's loss: top-k at a density d sends a value each time
// that it has added up to a threshold, which is about the mean magnitude over d. So what is kept is
// proportional to 1 / d, and what a call is wrong by to the square root of that, while what a
// first encoding leaves out is all but the same for any small d.
//
// So each level is tried with error feedback of its own until what it keeps is what it comes to.
// The steps of the sample are repeated for that. Top-k keeps the sum of hundreds of steps. There
// chance would add up as if it were the same each time. So a value's deviation from its mean over
// all steps seen has a sign at random in each repetition: the mean adds up, deviations do so as far
// as they do in the steps.
//
// A quantiser keeps less than a step of its grid of each value, but of values that are far below
// it also no more than has come so far: a block of few large values keeps the others for hundreds
// of steps. What is kept then depends on how many calls there have been. It is tried for as many as
// there were, and as there will be when levels are found again. All but the last ones of these are
// skipped: they leave what adds up over them, but for whole multiples of the block's largest value,
// which have been sent.
//
// A quantiser's bytes are summed on one rank and encoded again, and that loses something of the
// sum, and of what the first encodings have made of it. A few ranks are tried for that, with values
// of this one's law that lie to each other as the ranks' do (RanksSum). It takes several: a block
// of the sum has the large values of all, and what the first encodings have rounded to 0 is no part
// of it.
#ifndef NCCL_PLUGIN_SESSION_TUNING_LEVEL_TRIALS_H_
#define NCCL_PLUGIN_SESSION_TUNING_LEVEL_TRIALS_H_

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "nccl_plugin/session/tuning/sampled_part.h"
#include "ringpress/internal/codec.h"

namespace ringpress::nccl_plugin::tuning {

/// What is lost of calls, and of the mean over all calls so far: with error feedback that is in
/// proportion to what is kept.
enum LossKind { kLossOfCall, kLossOfMean, kLossOfLaterMean, kLossKinds };
using LossKinds = std::array<double, kLossKinds>;

/// Calls of a tensor: until its levels are found, and until they are found again.
struct TrialCalls {
  std::size_t so_far = 0;
  std::size_t later = 0;
};

/// One that is tried, and elements that have one scale.
struct TriedCodec {
  const Codec* codec = nullptr;
  std::size_t block = 0;
};

/// How large the sum over ranks is: its squares, over the sum of the ranks' own.
struct RanksSum {
  double of_mean = 1;  // Of the values' mean over steps.
  double of_rest = 1;  // Of their deviations from that mean.
  std::size_t ranks = 2;
};

/// Squares, by codec, which have a fixed size for float32 values: this rank's share of the loss of
/// all ranks, who lose something of their values, and again of the sum. At least one step.
std::vector<LossKinds> try_codecs(const SampledPart& part, std::span<const TriedCodec> codecs,
                                  const RanksSum& sum, const TrialCalls& calls);
/// With the largest values of each call, for each share of them. What is left out of the sum has
/// the values' own direction: it is as much larger than the ranks' own as the sum of their values.
std::vector<LossKinds> try_densities(const SampledPart& part, std::span<const double> densities,
                                     const RanksSum& sum);

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_LEVEL_TRIALS_H_
