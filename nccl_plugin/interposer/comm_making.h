// Communicators that the real library makes: their ranks meet, and agree on whether they are
// compressed. Within a group that waits for its end.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_MAKING_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_MAKING_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "nccl_plugin/interposer/thread_group.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::interposer {

/// What keeps this process from compressing, or from making communicators. Looked for once.
class ProcessTrouble {
 public:
  explicit ProcessTrouble(const Settings& settings) : settings_(settings) {}

  /// Why this process can compress nothing, found at its first communicator; ok if it can.
  const Status& problem();
  /// Why this process makes no communicator at all; ok if it does.
  const Status& refusal();

 private:
  const Settings& settings_;
  std::once_flag looked_for_problem_;
  Status problem_;
  std::once_flag looked_for_refusal_;
  Status refusal_;
};

class CommMaking {
 public:
  CommMaking(const ringpressRealNccl& real, const Settings& settings, KnownComms known)
      : real_(real), settings_(settings), known_(known), meetings_(settings), trouble_(settings) {}

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
  /// The same of one that goes on with the ranks of `parent`, which was shrunk.
  void made_shrunk(ncclComm_t* handle, ncclComm_t parent, const char* name = nullptr) noexcept;
  /// The real library has made an id by which ranks join those of `parent`.
  void grow_id_made(ncclComm_t parent, ncclUniqueId* id) noexcept;
  /// Before the real library grows `parent`, on a rank of it: the id, where this rank has one. A
  /// program may keep it back (`given` is null) even where it was made. As joining().
  std::optional<ncclUniqueId> growing(ncclComm_t parent, const ncclUniqueId* given) noexcept;
  /// As made_rank(), on a rank of `parent`, the communicator that has grown. `id`: what growing()
  /// gave; null: another rank has it.
  ncclResult_t made_grown(ncclComm_t* handle, ncclComm_t parent, const ncclUniqueId* id,
                          const char* name) noexcept;
  /// One that nobody waits for: it may still be in the making, here and at the end of the group.
  void made_nonblocking(ncclComm_t* handle) noexcept;

  /// The group has ended well: its communicators are established.
  ncclResult_t establish_made(std::vector<MadeComm> made) noexcept;
  /// The same of one that ended in progress: these are left.
  void leave_in_progress(std::vector<MadeComm>& made) noexcept;
  /// They will not be there after all, as not_joined() says.
  void call_off(const std::vector<MadeComm>& made, const char* why, ncclResult_t answer) noexcept;

 private:
  void add_child(ncclComm_t* handle, ncclComm_t parent, const char* name, bool is_heir) noexcept;
  void leave(ncclComm_t* handle, WhyLeft why, LeftComms::State state = LeftComms::State::kReady);
  ncclResult_t add_made(MadeComm made);

  const ringpressRealNccl& real_;
  const Settings& settings_;
  const KnownComms known_;
  Meetings meetings_;
  ProcessTrouble trouble_;
  std::atomic<std::uint64_t> in_process_cliques_{0};
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_MAKING_H_
