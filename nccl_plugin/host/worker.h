// A thread that runs jobs one after the other.
#ifndef NCCL_PLUGIN_HOST_WORKER_H_
#define NCCL_PLUGIN_HOST_WORKER_H_

#include <functional>
#include <memory>
#include <thread>

namespace ringpress::nccl_plugin::host {

/// Starts its thread with the first job. One thread at a time may use it.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// stop(), or abandon() if the last job itself gets here.
  ~Worker();

  /// `job` must not throw.
  void submit(std::function<void()> job);
  /// Waits for all jobs and ends the thread.
  void stop();
  /// Leaves the thread to finish its jobs alone.
  void abandon();

 private:
  struct Queue;
  static void work(const std::shared_ptr<Queue>& queue);
  void close();

  std::shared_ptr<Queue> queue_;  // Shared with the thread, which may outlive this object.
  std::thread thread_;
};

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_WORKER_H_
