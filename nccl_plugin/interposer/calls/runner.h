// Runs compressed calls: the calls of one group, or one call.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_RUNNER_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_RUNNER_H_

#include <memory>
#include <span>

#include "nccl_plugin/interposer/comm/comm.h"

namespace ringpress::nccl_plugin::interposer {

struct AcceptedCall {
  std::shared_ptr<Comm> comm;
  PlannedCall planned;
};

/// Calls of one communicator run in their order. Communicators of one clique are ranks of each
/// other in one thread: they take every step together, in one group of the real NCCL, or they would
/// wait for each other. Cliques run one after the other. Returns the first error; what comes after
/// it is not run, and its communicators are given up, for other ranks wait for them. Not within a
/// group of the real NCCL.
ncclResult_t run_calls(const ringpressRealNccl& real, std::span<const AcceptedCall> calls) noexcept;

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_RUNNER_H_
