#include "nccl_plugin/gossip/workers.h"

#include <atomic>
#include <utility>

namespace ringpress::nccl_plugin::gossip {
namespace {

std::atomic<const WorkersMaker*> made{nullptr};

}  // namespace

void set_workers_maker(WorkersMaker maker) {
  made.store(new WorkersMaker(std::move(maker)));  // Lives as long as the process.
}

const WorkersMaker& workers_maker() {
  static const auto& none = *new WorkersMaker;
  const WorkersMaker* const maker = made.load();
  return maker == nullptr ? none : *maker;
}

}  // namespace ringpress::nccl_plugin::gossip
