#include "nccl_plugin/host/worker.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace ringpress::nccl_plugin::host {

struct Worker::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool closed = false;
};

Worker::~Worker() {
  if (thread_.get_id() == std::this_thread::get_id()) {
    abandon();
  } else {
    stop();
  }
}

void Worker::submit(std::function<void()> job) {
  if (!thread_.joinable()) {
    queue_ = std::make_shared<Queue>();
    thread_ = std::thread(&Worker::work, queue_);
  }
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->jobs.push_back(std::move(job));
  }
  queue_->changed.notify_one();
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  close();
  thread_.join();
}

void Worker::abandon() {
  if (!thread_.joinable()) return;
  close();
  thread_.detach();
}

void Worker::close() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->closed = true;
  }
  queue_->changed.notify_one();
}

void Worker::work(const std::shared_ptr<Queue>& queue) {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(queue->mutex);
      queue->changed.wait(lock, [&] { return queue->closed || !queue->jobs.empty(); });
      if (queue->jobs.empty()) return;
      job = std::move(queue->jobs.front());
      queue->jobs.pop_front();
    }
    job();
  }
}

}  // namespace ringpress::nccl_plugin::host
