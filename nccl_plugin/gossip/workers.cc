#include "nccl_plugin/gossip/workers.h"

#include <mutex>
#include <utility>

namespace ringpress::nccl_plugin::gossip {
namespace {

struct Known {
  std::mutex mutex;
  WorkersMaker maker;
};

/// Lives for ever: threads may outlive main().
Known& known() {
  static auto* const one = new Known;
  return *one;
}

}  // namespace

void set_workers_maker(WorkersMaker maker) {
  const std::lock_guard lock(known().mutex);
  known().maker = std::move(maker);
}

WorkersMaker workers_maker() {
  const std::lock_guard lock(known().mutex);
  return known().maker;
}

}  // namespace ringpress::nccl_plugin::gossip
