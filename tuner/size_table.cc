// What the cost model says of whole ranges of sizes.
#include <algorithm>
#include <utility>

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
    return choice.algorithm != Algorithm::kRing || (choice.is_exact() && shape.world > 2);
  });
}

Result<std::vector<Candidate>> find_candidates_by(Algorithm algorithm, const CallShape& shape,
                                                  const Calibration& calibration) {
  return find_wanted(shape, calibration,
                     [algorithm](const Choice& choice) { return choice.algorithm == algorithm; });
}

Result<std::vector<SizeRow>> make_size_table(const Calibration& calibration, CallShape shape,
                                             std::size_t smallest, std::size_t largest) {
  std::vector<SizeRow> rows;
  for (std::size_t bytes = std::max<std::size_t>(smallest, 1);; bytes *= 2) {
    shape.bytes = bytes;
    RINGPRESS_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates,
                               find_candidates(shape, calibration));
    const auto exact = std::find_if(candidates.begin(), candidates.end(),
                                    [](const Candidate& one) { return one.choice.is_exact(); });
    if (exact == candidates.end()) {
      return Status(Code::kInvalidArgument, "there is no choice without a codec");
    }
    rows.push_back({bytes, candidates.front(), exact->seconds});
    if (bytes > largest / 2) return rows;
  }
}

}  // namespace ringpress::tuner
