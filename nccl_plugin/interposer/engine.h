// Door A's engine: what happens at each function of NCCL that the shim hands over. Everything that
// it does not compress goes to the real library as it came.
#ifndef NCCL_PLUGIN_INTERPOSER_ENGINE_H_
#define NCCL_PLUGIN_INTERPOSER_ENGINE_H_

#include <memory>
#include <vector>

#include "nccl_plugin/interposer/calls/call_memory.h"
#include "nccl_plugin/interposer/comm/comm_table.h"
#include "nccl_plugin/interposer/comm_making.h"
#include "nccl_plugin/interposer/left_comms.h"
#include "nccl_plugin/interposer/meeting/gossip_workers.h"
#include "nccl_plugin/interposer/thread_group.h"
#include "nccl_plugin/preload/engine.h"
#include "nccl_plugin/session/usable_settings.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

class Engine {
 public:
  /// Throws std::system_error where the process has no keys left for what its threads keep.
  Engine(const ringpressRealNccl& real, const Settings& settings)
      : real_(real), settings_(in_streams(settings)) {
    static_cast<void>(thread_group(real_));
    static_cast<void>(call_memory());
  }

  const ringpressRealNccl& real() const { return real_; }

  /// An all-reduce, reduce-scatter or all-gather: now, or at the end of this thread's group.
  ncclResult_t reduce(const Call& call) noexcept;
  /// The same of one that has a configuration of its own, or null. Options of ours that are wrong
  /// are refused; the real library says what else is.
  ncclResult_t reduce_as_asked(const Call& call, const ncclCollConfig_t* config) noexcept;

  ncclResult_t group_start() noexcept;
  ncclResult_t group_end() noexcept;
  ncclResult_t group_simulate_end(ncclSimInfo_t* info) noexcept;

  /// Of a communicator whose call failed in here, that error; else what the real library says.
  ncclResult_t async_error(ncclComm_t handle, ncclResult_t* error) noexcept;
  const char* last_error(ncclComm_t handle) noexcept;

  CommMaking& making() { return making_; }
  /// From now on its calls are the real library's, which refuses them; or no longer.
  void set_left_alone(ncclComm_t handle, bool is_left_alone) noexcept;
  /// Before the real library revokes it: nothing of it goes on here. It is still there, as others
  /// may be made of its ranks.
  void revoking(ncclComm_t handle) noexcept;

  /// Forgets a communicator before `forward` ends it, and frees what belonged to it after; within a
  /// group after that, as the real library ends communicators there.
  enum class Ending { kInOrder, kAbort };
  template <typename Forward>
  ncclResult_t end(ncclComm_t handle, Ending ending, Forward&& forward) noexcept {
    // Freeing waits for what is under way on the device, which an abort may have to end first: that
    // of this communicator, or of another one of the group.
    std::shared_ptr<Comm> ended = forget(handle, ending);
    const ncclResult_t result = forward();
    keep_in_group(std::move(ended));
    return result;
  }
  /// The same, in order, by one of the real library's functions; after the calls of the
  /// communicator that wait for the end of this thread's group.
  ncclResult_t end_in_order(ncclComm_t handle, EndingComm::Finish finish) noexcept;

  /// ringpressLazyFlush() of a communicator of the real library.
  Status flush_lazy(ncclComm_t handle);
  /// Gossip on a communicator of the real library.
  Result<std::unique_ptr<gossip::Workers>> gossip_workers(ncclComm_t handle);

 private:
  std::shared_ptr<Comm> forget(ncclComm_t handle, Ending ending) noexcept;
  void keep_in_group(std::shared_ptr<Comm> ended) noexcept;
  ncclResult_t run_group(ThreadGroup& mine, ncclResult_t real_ended) noexcept;
  void end_pending(std::vector<EndingComm> ends) noexcept;

  const ringpressRealNccl real_;
  const Settings settings_;
  CommTable table_;
  LeftComms left_{real_, settings_};
  CommMaking making_{real_, settings_, {table_, left_}};
  GossipComms gossip_comms_;
};

/// Null if there is nothing to do; the reason has been logged, if it was not asked for.
Engine* open_engine(const ringpressRealNccl& real);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_ENGINE_H_
