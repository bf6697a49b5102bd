#include "nccl_plugin/interposer/thread_group.h"

#include "nccl_plugin/errors/firewall.h"
#include "ringpress/internal/per_thread.h"

namespace ringpress::nccl_plugin::interposer {

void ThreadGroup::end_timed() noexcept {
  for (const std::shared_ptr<Comm>& comm : timed) comm->end_exact();
  timed.clear();
}

ThreadGroup& thread_group(const ringpressRealNccl& real) {
  static const auto& groups = *new PerThread<ThreadGroup>;
  return groups.get([&real] {
    auto group = std::make_unique<ThreadGroup>();
    // The engine may have been opened within a group of this thread.
    if (real.GroupDepth != nullptr) group->depth = real.GroupDepth();
    return group;
  });
}

ThreadGroup* find_thread_group(const ringpressRealNccl& real) noexcept {
  ThreadGroup* found = nullptr;
  static_cast<void>(catch_all([&] {
    found = &thread_group(real);
    return Status::ok();
  }));
  return found;
}

}  // namespace ringpress::nccl_plugin::interposer
