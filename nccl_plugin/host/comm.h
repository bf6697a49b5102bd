// What an ncclComm_t of the host backend points to: a Communicator, and what NCCL's API adds to it:
// when calls are allowed, one call at a time (comm_life.h), nonblocking mode, abort, user-made
// operators.
#ifndef NCCL_PLUGIN_HOST_COMM_H_
#define NCCL_PLUGIN_HOST_COMM_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "nccl_plugin/host/comm_life.h"
#include "nccl_plugin/host/configuration.h"
#include "nccl_plugin/host/grow_id.h"
#include "nccl_plugin/host/operators.h"
#include "nccl_plugin/host/registrations.h"
#include "nccl_plugin/host/windows.h"
#include "nccl_plugin/host/worker.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/status.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {

struct CommTraits {
  Configuration configuration = {};
  int device = 0;

  bool blocking() const { return configuration.blocking; }
  /// What the program calls it; empty: nothing.
  const std::string& name() const { return configuration.name; }
};

/// The text of the last error. Any thread.
class LastError {
 public:
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  void set(const std::string& text) {
    const std::lock_guard lock(mutex_);
    text_ = text;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// What NCCL's API keeps beside a communicator: what the program has made of it, its last error.
struct CommObjects {
  UserOperators operators;
  Registrations registrations;
  Windows windows;
  GrowId grow_id;
  LastError error;
};

}  // namespace ringpress::nccl_plugin::host

/// Thread-safe. Always owned by shared_ptr.
struct ncclComm : std::enable_shared_from_this<ncclComm> {
 public:
  explicit ncclComm(ringpress::nccl_plugin::host::CommTraits traits) : traits_(std::move(traits)) {}

  const ringpress::nccl_plugin::host::CommTraits& traits() const { return traits_; }
  ringpress::nccl_plugin::host::CommLife& life() { return life_; }

  /// Ends the setup well. If the communicator was aborted meanwhile, `communicator` is dropped.
  /// `id` is where its ranks met.
  ringpress::Status attach(std::unique_ptr<ringpress::Communicator> communicator,
                           const ringpress::UniqueId& id);
  // Once it is known (CommLife::check_known()).
  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  /// A number that all ranks have, and no other communicator.
  std::uint64_t hash() const { return hash_; }

  /// Calls `call` with the Communicator, alone: other threads wait.
  template <typename Call>
  ringpress::Status run(Call&& call) {
    RINGPRESS_RETURN_IF_ERROR(life_.enter());
    const Leave leave{life_};
    return std::forward<Call>(call)(*communicator_);
  }

  /// The same of one that may have been revoked: once its calls have left it. False: they have not
  /// for seconds, and it was not called.
  bool run_after_calls(const std::function<void(ringpress::Communicator&)>& call);
  /// Runs `job` in this communicator's own thread and returns at once; async_status() tells how it
  /// went. For nonblocking communicators.
  void submit(std::function<ringpress::Status()> job);
  /// Runs `job`, which must not throw, in this communicator's own thread and returns at once. The
  /// caller keeps this object alive until the job is done.
  void run_aside(std::function<void()> job);

  ringpress::Status finalize();
  /// Waits for calls under way, says goodbye to the peers and ends the thread. Last call.
  void destroy();
  /// Ends calls under way in other threads, and waits until they have left. Last call.
  void abort();
  /// As abort(), but queries, shrinks, destroy() and abort() are still allowed. A nonblocking one
  /// does not wait: kInProgress, and async_status() tells when the calls have left.
  ringpress::Status revoke();
  /// The id of a communicator of the given ranks, once this one is revoked.
  ringpress::Result<ringpress::UniqueId> survivors_id(std::span<const int> ranks) {
    return communicator_->survivors_id(ranks);
  }

  /// kInProgress, or how the communicator is doing.
  ringpress::Status async_status() const;
  ringpress::Statistics statistics() const { return communicator_->statistics(); }

  ringpress::nccl_plugin::host::CommObjects& objects() { return objects_; }

 private:
  using State = ringpress::nccl_plugin::host::CommLife::State;
  struct Leave {
    ringpress::nccl_plugin::host::CommLife& life;
    ~Leave() { life.leave(); }
  };

  bool stop_calls(State state, std::chrono::milliseconds patience);

  const ringpress::nccl_plugin::host::CommTraits traits_;
  ringpress::nccl_plugin::host::CommLife life_;
  ringpress::nccl_plugin::host::Worker worker_;  // Used within CommLife::submit().
  // Written once, when the setup has ended well; later reads need no lock.
  std::unique_ptr<ringpress::Communicator> communicator_;
  std::uint64_t hash_ = 0;
  ringpress::nccl_plugin::host::CommObjects objects_;
};

#endif  // NCCL_PLUGIN_HOST_COMM_H_
