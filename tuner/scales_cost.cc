// What coordinate scales (compress_kernels/scales/scales.h) add to a call. A codec is measured
// without them.
#include "tuner/factory.h"

namespace ringpress::tuner {
namespace {

// Of instructions, times those without (perf/results/scales.txt, the largest of q2 to q8).
constexpr double kEncode = 2.2;
constexpr double kDecode = 1.25;
constexpr double kHop = 1.6;
// Learning from each 32nd result and measuring each 64th, over encoding without scales. Nothing
// overlaps with it.
constexpr double kLearn = 0.12;
constexpr double kHardlyLonger = 1.1;

OperationCost times(const OperationCost& cost, double factor) {
  return {cost.start_seconds * factor, cost.seconds_per_byte * factor};
}

CodecSpeed with_scales(CodecSpeed codec) {
  const double look = codec.look.seconds_per_byte + kLearn * codec.encode.seconds_per_byte;
  codec.look = {codec.look.start_seconds, look};
  codec.encode = times(codec.encode, kEncode);
  codec.decode = times(codec.decode, kDecode);
  codec.hop = times(codec.hop, kHop);
  return codec;
}

}  // namespace

Result<bool> are_scales_cheap(const CallShape& shape, const Calibration& calibration,
                              const Choice& choice) {
  const CodecSpeed& codec = calibration.codecs.at(choice.codec);
  const auto quickest = [&](CodecSpeed speed) -> Result<double> {
    Calibration one{calibration.link, {std::move(speed)}, calibration.inside};
    RINGPRESS_ASSIGN_OR_RETURN(const std::vector<Candidate> found,
                               find_candidates_by(choice.algorithm, shape, one));
    return found.at(0).seconds;
  };
  RINGPRESS_ASSIGN_OR_RETURN(const double without, quickest(codec));
  RINGPRESS_ASSIGN_OR_RETURN(const double with, quickest(with_scales(codec)));
  return with <= kHardlyLonger * without;
}

}  // namespace ringpress::tuner
