// What a thread has put off until the end of its group of NCCL calls.
#ifndef NCCL_PLUGIN_INTERPOSER_THREAD_GROUP_H_
#define NCCL_PLUGIN_INTERPOSER_THREAD_GROUP_H_

#include <memory>
#include <vector>

#include "nccl_plugin/interposer/calls/runner.h"
#include "nccl_plugin/interposer/left_comms.h"
#include "nccl_plugin/interposer/meeting/establish.h"
#include "nccl_plugin/preload/engine.h"

namespace ringpress::nccl_plugin::interposer {

/// A communicator that the real library makes or has made.
struct MadeComm {
  NewComm made;
  ncclComm_t* handle = nullptr;
  WhyLeft left_because;  // That it is left to the real library, in any case.
  LeftComms::State state = LeftComms::State::kReady;
};

/// One that the real library is to end.
struct EndingComm {
  using Finish = ncclResult_t (*)(ncclComm_t);
  ncclComm_t handle = nullptr;
  Finish finish = nullptr;
};

struct ThreadGroup {
  int depth = 0;
  std::vector<AcceptedCall> calls;
  std::vector<MadeComm> made;
  std::vector<EndingComm> ends;
  std::vector<std::shared_ptr<Comm>> ended;  // To be freed.
  std::vector<std::shared_ptr<Comm>> timed;  // That wait for Comm::end_exact().

  void end_timed() noexcept;
};

/// This thread's. Throws std::bad_alloc at the first use.
ThreadGroup& thread_group(const ringpressRealNccl& real);
/// The same; null if there is no memory for one.
ThreadGroup* find_thread_group(const ringpressRealNccl& real) noexcept;

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_THREAD_GROUP_H_
