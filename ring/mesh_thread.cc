// The progress thread of a mesh: moves the bytes of large transfers while the caller computes.
#include <pthread.h>

#include "ring/mesh_impl.h"

namespace ringpress::ring {

void MeshImpl::arm_progress_thread() {
  {
    const std::lock_guard<std::mutex> lock(thread_mutex_);
    if (thread_armed_) return;
    thread_armed_ = true;
  }
  thread_wake_.notify_one();
}

void MeshImpl::run_progress_thread() {
  pthread_setname_np(pthread_self(), "rp-progress");
  std::unique_lock<std::mutex> lock(thread_mutex_);
  while (!thread_stop_) {
    if (!thread_armed_) {
      thread_wake_.wait(lock);
      continue;
    }
    lock.unlock();
    bool useful = false;
    // When a call of the user is under way it moves the bytes itself.
    if (owner_.try_take()) {
      useful = large_outstanding_ > 0 && !failed_.load();
      const Status moved = useful ? advance() : Status::ok();
      if (!moved.is_ok()) static_cast<void>(fail(moved));
      owner_.give();
      if (useful) parts_.reactor->await_ready(Clock::now() + std::chrono::milliseconds(20));
    }
    lock.lock();
    if (!useful) thread_armed_ = false;
  }
}

}  // namespace ringpress::ring
