// Whether the ranks load their states: all do, or none.
#ifndef NCCL_PLUGIN_SESSION_STATE_STATE_AGREEMENT_H_
#define NCCL_PLUGIN_SESSION_STATE_STATE_AGREEMENT_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "ringpress/internal/communicator.h"

namespace ringpress::nccl_plugin {

/// What a rank tells the others of its file.
struct StateVerdict {
  std::uint64_t shared_hash = 0;  // Of what has to be equal on all ranks, if it can be loaded.
  StateOutcome outcome = StateOutcome::kLoaded;
  std::array<char, 247> reason{};  // As much of it as there is room for, and a zero.
};

StateVerdict make_verdict(StateOutcome outcome, std::uint64_t shared_hash, std::string_view reason);

/// By rank. Where one of them says that the number of ranks is another one, that is the reason:
/// ranks that there were none of have no file.
StateLoad agree_on_state(std::span<const StateVerdict> verdicts);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_STATE_STATE_AGREEMENT_H_
