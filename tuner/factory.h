// The only header of tuner/ that other folders include.
#ifndef TUNER_FACTORY_H_
#define TUNER_FACTORY_H_

#include <memory>
#include <span>
#include <vector>

#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/call_tuner.h"
#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/levels.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/tuning.h"
#include "ringpress/internal/whole_exchange.h"

namespace ringpress::tuner {

/// Why such a call can never be lossy, whatever the settings; kNone if it can. The only place that
/// knows.
WhyExact why_never_lossy(const PlanRequest& request);

/// A planner that follows the rules and the settings. Never null.
std::unique_ptr<Planner> make_planner(const CallSettings& settings);

/// What a call takes in so many chunks (1 to 64; others are limited to that). A single rank takes
/// nothing. kInvalidArgument: no rank, ranks that are not so many to a host, or a link's speed that
/// is no number; kUnsupported: another collective than the three, or what the algorithm does not.
Result<CallCost> predict_call(const CallShape& shape, const Links& links, const CodecSpeed& codec,
                              Algorithm algorithm, std::size_t chunks);
/// The same of an algorithm that need not be in the table.
Result<CallCost> predict_call(const CallShape& shape, const Links& links, const CodecSpeed& codec,
                              const AlgorithmTraits& algorithm, std::size_t chunks);

/// How often one rank waits for another in an uncompressed all-reduce by sra of `bytes` bytes: of a
/// few bytes, that shows a link's latency. `world` is a multiple of `ranks_per_host`.
ExchangeSteps exact_call_steps(std::size_t bytes, int world, int ranks_per_host);

/// Bytes that such a call waits for on a host's link, where there are several hosts: what shows the
/// link's rate.
double leaving_bytes(std::size_t bytes, int world, int ranks_per_host);

/// Every codec by every algorithm that there is for such a call, each in the number of chunks that
/// suits it best, the quickest first; of equal ones that of the earlier codec.
Result<std::vector<CallCost>> rank_calls(const CallShape& shape, const Links& links,
                                         const std::vector<CodecSpeed>& codecs);

/// What is predicted of each codec, the quickest first. The collective chooses its chunks. By a
/// ring only without a codec, and among more than two ranks: there it would requantise at every
/// hop, and lose more than a budget of one encoding allows; here it is what sra is. Errors as of
/// predict_call().
Result<std::vector<Candidate>> find_candidates(const CallShape& shape,
                                               const Calibration& calibration);
/// The same by one algorithm alone, whatever it loses.
Result<std::vector<Candidate>> find_candidates_by(Algorithm algorithm, const CallShape& shape,
                                                  const Calibration& calibration);

/// Whether calls with coordinate scales, which take more of the codec's work, are predicted to take
/// hardly longer than the same calls without. Errors as of predict_call().
Result<bool> are_scales_cheap(const CallShape& shape, const Calibration& calibration,
                              const Choice& choice);

/// For calls of which find_candidates() says so much: not empty, and one of them exact. Never null.
std::unique_ptr<CallTuner> make_call_tuner(std::vector<Candidate> candidates,
                                           const CallShape& shape, const TuningLimits& limits);

/// The levels of all layers that send the fewest bytes with an error of at most alpha times that of
/// their default levels; the defaults where nothing is better; the least error that there is where
/// nothing fits, as may be with an alpha below 1. The same for equal arguments on every machine.
/// Takes layers x levels x steps additions, and as many bytes as layers x steps. kInvalidArgument
/// names the layer and level of a cost that is no number from 0 on.
Result<LevelChoice> allocate_levels(std::span<const LayerLevels> layers, const LevelBudget& budget);

}  // namespace ringpress::tuner

#endif  // TUNER_FACTORY_H_
