// A thread that does what it is handed, one after the other.
#ifndef NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_WORKER_H_
#define NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_WORKER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace ringpress_torch {

/// Its thread keeps what it uses, so that a Worker may end in a job of its own.
class Worker {
 public:
  Worker() : queue_(std::make_shared<Queue>()), thread_([queue = queue_] { run(*queue); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Waits until all jobs are done, but for the one that calls it.
  ~Worker() {
    {
      const std::lock_guard<std::mutex> lock(queue_->mutex);
      queue_->ending = true;
    }
    queue_->changed.notify_all();
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  /// `job` throws nothing.
  void add(std::function<void()> job) {
    {
      const std::lock_guard<std::mutex> lock(queue_->mutex);
      queue_->jobs.push_back(std::move(job));
    }
    queue_->changed.notify_all();
  }

  /// Nothing waits, and nothing is being done.
  bool is_idle() const {
    const std::lock_guard<std::mutex> lock(queue_->mutex);
    return queue_->jobs.empty() && !queue_->busy;
  }

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> jobs;
    bool busy = false;
    bool ending = false;
  };

  static void run(Queue& queue) {
    std::unique_lock<std::mutex> lock(queue.mutex);
    for (;;) {
      queue.changed.wait(lock, [&queue] { return queue.ending || !queue.jobs.empty(); });
      if (queue.jobs.empty()) return;
      queue.busy = true;
      std::function<void()> job = std::move(queue.jobs.front());
      queue.jobs.pop_front();
      lock.unlock();
      job();
      job = nullptr;  // What it holds is given up without the lock.
      lock.lock();
      queue.busy = false;
    }
  }

  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace ringpress_torch

#endif  // NCCL_PLUGIN_PYTHON_RINGPRESS_TORCH_WORKER_H_
