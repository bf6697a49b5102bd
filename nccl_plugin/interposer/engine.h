// Door A's engine: what happens at each function of NCCL that the shim hands over. Everything that
// it does not compress goes to the real library as it came.
#ifndef NCCL_PLUGIN_INTERPOSER_ENGINE_H_
#define NCCL_PLUGIN_INTERPOSER_ENGINE_H_

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/interposer/calls/call_memory.h"
#include "nccl_plugin/interposer/calls/runner.h"
#include "nccl_plugin/interposer/comm/comm_table.h"
#include "nccl_plugin/interposer/left_comms.h"
#include "nccl_plugin/interposer/meeting/establish.h"
#include "nccl_plugin/interposer/meeting/gossip_workers.h"
#include "nccl_plugin/interposer/meeting/meeting.h"
#include "nccl_plugin/preload/engine.h"
#include "nccl_plugin/session/usable_settings.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

class Engine {
 public:
  /// Throws std::system_error where the process has no keys left for what its threads keep.
  Engine(const ringpressRealNccl& real, const Settings& settings)
      : real_(real),
        settings_(in_streams(settings)),
        meetings_(settings_),
        left_(real_, settings_) {
    static_cast<void>(group());
    static_cast<void>(call_memory());
  }

  const ringpressRealNccl& real() const { return real_; }

  /// An all-reduce or reduce-scatter: now, or at the end of this thread's group.
  ncclResult_t reduce(const Call& call) noexcept;

  ncclResult_t group_start() noexcept;
  ncclResult_t group_end() noexcept;
  ncclResult_t group_simulate_end(ncclSimInfo_t* info) noexcept;

  /// Of a communicator whose call failed in here, that error; else what the real library says.
  ncclResult_t async_error(ncclComm_t handle, ncclResult_t* error) noexcept;
  const char* last_error(ncclComm_t handle) noexcept;

  /// Before the real library makes an id, at whose meeting place this process would listen:
  /// ncclInvalidArgument where the interface that RINGPRESS_SOCKET_IFNAME asks for is not there.
  ncclResult_t may_make_id() noexcept;
  /// The real library has answered ncclGetUniqueId().
  void id_made(ncclUniqueId* id) noexcept;
  /// A rank of this process is about to join the communicator of this id.
  void joining(const ncclUniqueId& id) noexcept;
  /// It will have no such rank after all: ranks that wait for it are told why, and, but for
  /// ncclSuccess, what the real library has answered.
  void not_joined(const ncclUniqueId& id, const char* why, ncclResult_t answer) noexcept;
  /// A function that makes communicators has returned ncclSuccess. Within a group their handles are
  /// read at its end. ncclInvalidArgument: a rank refuses the communicator, and so do all, with the
  /// reason as last error; it has been aborted, and the handle is null.
  ncclResult_t made_rank(ncclComm_t* handle, const ncclUniqueId& id,
                         const char* name = nullptr) noexcept;
  ncclResult_t made_all(ncclComm_t* handles, int count) noexcept;
  /// Before the real library makes a child: room to note it, as its other ranks will wait for it.
  ncclResult_t expect_child() noexcept;
  void made_child(ncclComm_t* handle, ncclComm_t parent, int color,
                  const char* name = nullptr) noexcept;
  /// One that nobody waits for: it may still be in the making, here and at the end of the group.
  void made_nonblocking(ncclComm_t* handle) noexcept;

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
  using Finish = ncclResult_t (*)(ncclComm_t);
  ncclResult_t end_in_order(ncclComm_t handle, Finish finish) noexcept;

  /// ringpressLazyFlush() of a communicator of the real library.
  Status flush_lazy(ncclComm_t handle);
  /// Gossip on a communicator of the real library.
  Result<std::unique_ptr<gossip::Workers>> gossip_workers(ncclComm_t handle);

 private:
  struct Pending {
    NewComm made;
    ncclComm_t* handle = nullptr;
    WhyLeft left_because;  // That it is left to the real library, in any case.
    LeftComms::State state = LeftComms::State::kReady;
  };
  struct PendingEnd {
    ncclComm_t handle = nullptr;
    Finish finish = nullptr;
  };
  /// What a thread has put off until the end of its group.
  struct Group {
    int depth = 0;
    std::vector<AcceptedCall> calls;
    std::vector<Pending> made;
    std::vector<PendingEnd> ends;
    std::vector<std::shared_ptr<Comm>> ended;  // To be freed.
    std::vector<std::shared_ptr<Comm>> timed;  // That wait for Comm::end_exact().
  };
  /// This thread's. Throws std::bad_alloc at the first use.
  Group& group() const;
  /// The same; null if there is no memory for one.
  Group* find_group() const noexcept;
  std::shared_ptr<Comm> forget(ncclComm_t handle, Ending ending) noexcept;
  void keep_in_group(std::shared_ptr<Comm> ended) noexcept;
  ncclResult_t run_group(Group& mine, ncclResult_t real_ended) noexcept;
  void end_pending(std::vector<PendingEnd> ends) noexcept;
  void call_off(const std::vector<Pending>& made, const char* why, ncclResult_t answer) noexcept;

  ncclResult_t exact(const Call& call) const;
  ncclResult_t run_call(std::shared_ptr<Comm> comm, const PlannedCall& planned);
  static void end_timed(Group& mine) noexcept;
  ncclResult_t exact_of(const std::shared_ptr<Comm>& comm, const Call& call) noexcept;
  ncclResult_t give_up(Comm& comm, const Status& status) noexcept;
  bool is_worth_a_look(const Call& call) const;
  /// Why this process can compress nothing, found at its first communicator; ok if it can.
  const Status& problem();
  /// Why this process makes no communicator at all; ok if it does.
  const Status& refusal();
  void leave(ncclComm_t* handle, WhyLeft why, LeftComms::State state = LeftComms::State::kReady);
  void leave_in_progress(std::vector<Pending>& made) noexcept;
  ncclResult_t add_made(Pending pending);
  ncclResult_t establish_made(std::vector<Pending> made) noexcept;
  ncclResult_t establish_or_leave(std::vector<Pending>& made);

  const ringpressRealNccl real_;
  const Settings settings_;
  Meetings meetings_;
  CommTable table_;
  LeftComms left_;
  GossipComms gossip_comms_;
  std::once_flag looked_for_problem_;
  Status problem_;
  std::once_flag looked_for_refusal_;
  Status refusal_;
  std::atomic<std::uint64_t> in_process_cliques_{0};
};

/// Null if there is nothing to do; the reason has been logged, if it was not asked for.
Engine* open_engine(const ringpressRealNccl& real);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_ENGINE_H_
