// A communicator of the nodes and the thread that all-reduces in it, one call after the other.
//
// The queue has one writer (NCCL's progress thread) and one reader (the worker). Appending neither
// locks, allocates nor, while the worker is awake, calls the system. To wake a thread costs more
// than all the rest, so workers work in pairs: of two that sleep, the first that is woken wakes the
// other.
#ifndef NCCL_PLUGIN_PLUGIN_COLL_WORKER_H_
#define NCCL_PLUGIN_PLUGIN_COLL_WORKER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "nccl_plugin/plugin/coll_decisions.h"
#include "nccl_plugin/plugin/object.h"
#include "nccl_plugin/session/live/call_watch.h"
#include "ringpress/internal/communicator.h"

namespace ringpress::nccl_plugin::plugin {

class CollComm;

/// A call under way. Belongs to its CollComm.
struct CollRequest : Object {
  enum class State : std::uint8_t { kFree, kWaiting, kDone, kFailed };

  static constexpr ObjectKind kKind = ObjectKind::kCollNetRequest;
  CollRequest() : Object(kKind) {}

  CollComm* owner = nullptr;
  std::atomic<State> state{State::kFree};
  CollCall call;
  CollDecision decision;
};

/// Requests under way: more than 64 channels in groups of 8, 8 steps each.
inline constexpr std::size_t kCollRequests = 256;

class CollWorker {
 public:
  /// `watch`: the communicator's, which follows its calls; null: nobody does.
  explicit CollWorker(std::unique_ptr<Communicator> communicator, CallWatch* watch = nullptr)
      : communicator_(std::move(communicator)), watch_(watch) {}
  ~CollWorker();
  CollWorker(const CollWorker&) = delete;
  CollWorker& operator=(const CollWorker&) = delete;

  /// `companion`: the other of a pair, which is started, too, and stopped before either goes.
  void start(CollWorker* companion);
  /// At most kCollRequests at a time. When done, the request's state says how.
  void append(CollRequest* request);
  /// Gives up what is under way; the other nodes hear it. What nobody has begun is left as it is,
  /// and so is what is still being appended.
  void stop();
  /// Ends what is under way, here and on the other nodes. Any thread.
  void abort() { communicator_->abort(Communicator::End::kAborted); }
  /// Why a request has failed.
  const Status& failure() const { return failure_; }
  const Communicator& communicator() const { return *communicator_; }
  CallWatch* watch() const { return watch_; }

 private:
  // What the worker does. Whoever changes it to something else than kLooking looks after the
  // companion next, so a call that is appended to that one meanwhile is seen.
  enum Activity : std::uint32_t {
    kLooking,  // For the next call, of its own or of its companion's.
    kBusy,     // With a call.
    kAsleep,   // Until it is woken.
  };

  void run();
  CollRequest* next();
  void sleep(std::uint64_t taken);
  Status perform(const CollRequest& request);
  bool is_overslept() const;
  void wake_companion();
  void wake_worker();

  const std::unique_ptr<Communicator> communicator_;
  CallWatch* const watch_;
  std::array<CollRequest*, kCollRequests> queue_{};
  std::atomic<std::uint64_t> appended_{0};
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint32_t> activity_{kLooking};
  CollWorker* companion_ = nullptr;
  std::atomic<bool> closing_{false};
  Status failure_;  // Written once, before the first state of kFailed.
  std::thread worker_;
};

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_COLL_WORKER_H_
