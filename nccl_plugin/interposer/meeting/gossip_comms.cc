#include "nccl_plugin/interposer/meeting/gossip_comms.h"

#include <chrono>
#include <thread>

namespace ringpress::nccl_plugin::interposer {
namespace {

/// A call of the real library may be waiting for what its caller is about to abort.
constexpr std::chrono::seconds kPatience{1};

}  // namespace

void GossipComm::end() {
  has_ended_.store(true);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (inside_.load() > 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::shared_ptr<GossipComm> GossipComms::join(ncclComm_t comm) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<GossipComm>& joined = joined_[comm];
  if (joined == nullptr) joined = std::make_shared<GossipComm>();
  return joined;
}

void GossipComms::end(ncclComm_t comm) {
  std::shared_ptr<GossipComm> ended;
  {
    const std::lock_guard lock(mutex_);
    const auto found = joined_.find(comm);
    if (found == joined_.end()) return;
    ended = std::move(found->second);
    joined_.erase(found);  // The next one may have this handle again.
  }
  ended->end();
}

}  // namespace ringpress::nccl_plugin::interposer
