// Door A's engine: what happens at each function of NCCL that the shim hands over. Everything that
// it does not compress goes to the real library as it came.
#ifndef NCCL_PLUGIN_INTERPOSER_ENGINE_H_
#define NCCL_PLUGIN_INTERPOSER_ENGINE_H_

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "nccl_plugin/interposer/comm_table.h"
#include "nccl_plugin/interposer/establish.h"
#include "nccl_plugin/interposer/left_comms.h"
#include "nccl_plugin/interposer/meeting.h"
#include "nccl_plugin/interposer/runner.h"
#include "nccl_plugin/preload/engine.h"
#include "ringpress/settings.h"

namespace ringpress::nccl_plugin::interposer {

class Engine {
 public:
  Engine(const ringpressRealNccl& real, const Settings& settings)
      : real_(real),
        settings_(in_streams(settings)),
        meetings_(settings_),
        left_(real_, settings_) {}

  const ringpressRealNccl& real() const { return real_; }

  /// An all-reduce or reduce-scatter: now, or at the end of this thread's group.
  ncclResult_t reduce(const Call& call) noexcept;

  ncclResult_t group_start() noexcept;
  ncclResult_t group_end() noexcept;
  ncclResult_t group_simulate_end(ncclSimInfo_t* info) noexcept;

  /// Of a communicator whose call failed in here, that error; else what the real library says.
  ncclResult_t async_error(ncclComm_t handle, ncclResult_t* error) noexcept;
  const char* last_error(ncclComm_t handle) noexcept;

  /// The real library has answered ncclGetUniqueId().
  void id_made(ncclUniqueId* id) noexcept;
  /// A rank of this process is about to join the communicator of this id.
  void joining(const ncclUniqueId& id) noexcept;
  /// It will have no such rank after all: ranks that wait for it are told why.
  void not_joined(const ncclUniqueId& id, const std::string& why) noexcept;
  /// A function that makes communicators has returned ncclSuccess. Within a group their handles are
  /// read at its end.
  void made_rank(ncclComm_t* handle, const ncclUniqueId& id) noexcept;
  void made_all(ncclComm_t* handles, int count) noexcept;
  void made_child(ncclComm_t* handle, ncclComm_t parent, int color) noexcept;
  /// One that nobody waits for: it may still be in the making, here and at the end of the group.
  static constexpr const char* kNonblocking = "nonblocking communicators are not compressed";
  void made_nonblocking(ncclComm_t* handle) noexcept;

  /// Forgets a communicator before `forward` ends it, and frees what belonged to it after.
  enum class Ending { kInOrder, kAbort };
  template <typename Forward>
  ncclResult_t end(ncclComm_t handle, Ending ending, Forward&& forward) noexcept {
    left_.end(handle);
    const std::shared_ptr<Comm> comm = table_.remove(handle);
    if (comm != nullptr) {
      comm->retire();
      comm->end_groups(ending == Ending::kAbort);
    }
    return forward();
  }

 private:
  static Settings in_streams(Settings settings);

  struct Pending {
    NewComm made;
    ncclComm_t* handle = nullptr;
    std::string left_because;  // Not empty: it is left to the real library in any case.
  };
  /// What a thread has put off until the end of its group.
  struct Group {
    int depth = 0;
    CallVector<AcceptedCall> calls;
    std::vector<Pending> made;
  };
  Group& group() const;
  void call_off(const std::vector<Pending>& made, const std::string& why);

  ncclResult_t exact(const Call& call) const;
  ncclResult_t run_call(std::shared_ptr<Comm> comm, const Call& call);
  ncclResult_t give_up(Comm& comm, const Status& status) noexcept;
  bool is_worth_a_look(const Call& call) const;
  /// Why this process can compress nothing, found at its first communicator; empty if it can.
  const std::string& problem();
  void leave(ncclComm_t* handle, const std::string& reason);
  void add_made(Pending pending);
  void add_made(std::vector<Pending> made);
  void establish_made(std::vector<Pending> made);

  const ringpressRealNccl real_;
  const Settings settings_;
  Meetings meetings_;
  CommTable table_;
  LeftComms left_;
  std::once_flag looked_for_problem_;
  std::string problem_;
  std::atomic<std::uint64_t> in_process_cliques_{0};
};

/// Null if there is nothing to do; the reason has been logged, if it was not asked for.
Engine* open_engine(const ringpressRealNccl& real);

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_ENGINE_H_
