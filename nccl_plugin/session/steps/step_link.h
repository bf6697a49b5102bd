// The link behind the calls of a recorded step.
#ifndef NCCL_PLUGIN_SESSION_STEPS_STEP_LINK_H_
#define NCCL_PLUGIN_SESSION_STEPS_STEP_LINK_H_

#include <cstddef>
#include <optional>

#include "nccl_plugin/session/steps/step_recorder.h"
#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// What a rank sends in a call if nothing is compressed.
double exact_bytes(const StepCall& call, std::size_t world);

/// Whether a rank sent clearly less than that.
bool was_compressed(const StepCall& call, std::size_t world);

/// The latency and the rate of links that explain best what calls of a step took: by each the same
/// way from a line through what they sent. Where the line's beginning is no more than chance, calls
/// have no latency. kInvalidUsage: they show no rate.
Result<LinkSpeed> link_of(const RecordedStep& step);

struct StepLink {
  LinkSpeed speed;
  /// False: links that explain the calls nearly as well say of calls of another length that the
  /// step takes clearly longer or shorter. So where a codec hides the link, or all calls have about
  /// one size.
  bool is_sure = true;
  bool is_measured = false;  // The calls alone would leave it in doubt.
};

/// The link with which the cost model says of the step's calls, each as it was made, that they take
/// as long in all as they took. Calls have the latency of link_of(), but for what the model says of
/// the codec's starts. `codec`: that of calls that were compressed; if it has no times, they are
/// part of the link's. `measured`: the link by itself, if that is known. Where the calls leave it
/// in doubt, its rate is taken, and as latency what calls take besides. kInvalidUsage: as
/// link_of().
Result<StepLink> link_behind(const RecordedStep& step, std::size_t world, const CodecSpeed& codec,
                             const std::optional<LinkSpeed>& measured = {});

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STEPS_STEP_LINK_H_
