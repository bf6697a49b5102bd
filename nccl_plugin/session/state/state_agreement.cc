#include "nccl_plugin/session/state/state_agreement.h"

#include <algorithm>
#include <string>

namespace ringpress::nccl_plugin {

StateVerdict make_verdict(StateOutcome outcome, std::uint64_t shared_hash,
                          std::string_view reason) {
  StateVerdict verdict;
  verdict.outcome = outcome;
  verdict.shared_hash = shared_hash;
  const std::size_t length = std::min(reason.size(), verdict.reason.size() - 1);
  std::copy_n(reason.begin(), length, verdict.reason.begin());
  return verdict;
}

StateLoad agree_on_state(std::span<const StateVerdict> verdicts) {
  const auto first = [verdicts](auto&& holds) {
    return std::find_if(verdicts.begin(), verdicts.end(), holds);
  };
  auto found = first([](const StateVerdict& verdict) {  //
    return verdict.outcome == StateOutcome::kOtherSize;
  });
  if (found == verdicts.end()) {
    found =
        first([](const StateVerdict& verdict) { return verdict.outcome != StateOutcome::kLoaded; });
  }
  StateLoad load;
  if (found != verdicts.end()) {
    load.outcome = found->outcome;
    load.reason = found->reason.data();
  } else {
    const std::uint64_t hash = verdicts.front().shared_hash;
    found = first([hash](const StateVerdict& verdict) { return verdict.shared_hash != hash; });
    if (found == verdicts.end()) return load;
    load.outcome = StateOutcome::kOtherStep;
    load.reason = "it is of another run or step than that of rank 0";
  }
  load.rank = static_cast<int>(found - verdicts.begin());
  return load;
}

}  // namespace ringpress::nccl_plugin
