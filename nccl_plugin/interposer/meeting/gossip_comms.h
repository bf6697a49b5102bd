// Which communicators of the real NCCL gossip is made on, so that it uses none that has ended. Any
// thread.
#ifndef NCCL_PLUGIN_INTERPOSER_MEETING_GOSSIP_COMMS_H_
#define NCCL_PLUGIN_INTERPOSER_MEETING_GOSSIP_COMMS_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "nccl_plugin/preload/engine.h"

namespace ringpress::nccl_plugin::interposer {

/// Of one communicator.
class GossipComm {
 public:
  /// While this lives the handle is in use, if it is not refused.
  class Use {
   public:
    explicit Use(GossipComm& comm) : comm_(comm) {
      comm_.inside_.fetch_add(1);
      is_refused_ = comm_.has_ended();
    }
    ~Use() { comm_.inside_.fetch_sub(1); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    bool is_refused() const { return is_refused_; }

   private:
    GossipComm& comm_;
    bool is_refused_ = false;
  };

  bool has_ended() const { return has_ended_.load(); }
  /// No later use begins. Waits a little for those that have: what they ask for takes no longer.
  void end();

 private:
  std::atomic<bool> has_ended_{false};
  std::atomic<int> inside_{0};
};

class GossipComms {
 public:
  std::shared_ptr<GossipComm> join(ncclComm_t comm);
  /// The communicator is about to end, if it is one of these.
  void end(ncclComm_t comm);

 private:
  std::mutex mutex_;
  std::map<ncclComm_t, std::shared_ptr<GossipComm>> joined_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_MEETING_GOSSIP_COMMS_H_
