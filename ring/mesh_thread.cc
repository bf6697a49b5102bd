#include "ring/mesh_thread.h"

#include <pthread.h>

#include <utility>

namespace ringpress::ring {

MeshThread::MeshThread(transport::Reactor& reactor, std::function<bool()> move_bytes)
    : reactor_(reactor), move_bytes_(std::move(move_bytes)) {}

MeshThread::~MeshThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  reactor_.wake();
  thread_.join();
}

void MeshThread::arm() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (armed_) return;
    armed_ = true;
  }
  wake_.notify_one();
}

void MeshThread::run() {
  pthread_setname_np(pthread_self(), "rp-progress");
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (!armed_) {
      wake_.wait(lock);
      continue;
    }
    lock.unlock();
    const bool useful = move_bytes_();
    lock.lock();
    if (!useful) armed_ = false;
  }
}

}  // namespace ringpress::ring
