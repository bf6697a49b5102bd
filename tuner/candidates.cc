// What the cost model says that calls of a size may be tried with.
#include <algorithm>

#include "tuner/factory.h"

namespace ringpress::tuner {
namespace {

std::size_t position_of(const std::vector<CodecSpeed>& codecs, const std::string& name) {
  const auto found = std::find_if(codecs.begin(), codecs.end(),
                                  [&name](const CodecSpeed& codec) { return codec.codec == name; });
  return static_cast<std::size_t>(found - codecs.begin());
}

template <typename IsWanted>
Result<std::vector<Candidate>> find_wanted(const CallShape& shape, const Calibration& calibration,
                                           IsWanted&& is_wanted) {
  RINGPRESS_ASSIGN_OR_RETURN(
      const std::vector<CallCost> calls,
      rank_calls(shape, {calibration.link, calibration.inside}, calibration.codecs));
  std::vector<Candidate> candidates;
  for (const CallCost& call : calls) {
    Candidate candidate;
    candidate.choice.codec = position_of(calibration.codecs, call.codec);
    candidate.choice.algorithm = call.algorithm;
    candidate.seconds = call.seconds;
    if (is_wanted(candidate.choice)) candidates.push_back(candidate);
  }
  return candidates;
}

}  // namespace

Result<std::vector<Candidate>> find_candidates(const CallShape& shape,
                                               const Calibration& calibration) {
  return find_wanted(shape, calibration, [&shape](const Choice& choice) {
    return !traits_of(choice.algorithm).goes_round || (choice.is_exact() && shape.world > 2);
  });
}

Result<std::vector<Candidate>> find_candidates_by(Algorithm algorithm, const CallShape& shape,
                                                  const Calibration& calibration) {
  return find_wanted(shape, calibration,
                     [algorithm](const Choice& choice) { return choice.algorithm == algorithm; });
}

}  // namespace ringpress::tuner
