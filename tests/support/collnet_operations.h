// What NCCL keeps of operations in its progress thread, and that thread, for the stand-in for its
// proxy.
#ifndef TESTS_SUPPORT_COLLNET_OPERATIONS_H_
#define TESTS_SUPPORT_COLLNET_OPERATIONS_H_

#include <time.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "ringpress/nccl.h"

namespace ringpress::testing {

inline constexpr std::size_t kProxySteps = 8;
inline constexpr std::size_t kProxyGroupChannels = 8;

/// One all-reduce of a tensor.
struct ProxyOperation {
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  std::size_t channels = 2;
  std::size_t chunk_bytes = 32 * 1024;
  bool is_replayed = false;        // By a graph: its sequence number stands still.
  bool is_direct = false;          // CollNetDirect instead of the chain.
  std::size_t member = 0;          // What a split gave; 0: the communicator itself.
  std::size_t steps_too_many = 0;  // That the profiler is told of, and that never come.
  std::uint64_t tag = 0;           // What the program calls the tensor.
};

/// One channel of an operation: the places for its requests and for its event's handle are beside
/// each other, and channels are about as large as NCCL's.
struct ProxySub {
  std::array<std::byte, 200> before{};
  std::array<void*, kProxySteps> requests{};
  std::array<std::byte, 32> between{};
  void* event = nullptr;
  std::array<std::byte, 240> behind{};
};

/// An operation in one direction.
struct ProxyArgs {
  std::array<ProxySub, 64> subs;
};

/// What is given back is used again first, whatever was in it.
class ProxyArgsPool {
 public:
  ProxyArgs* take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<ProxyArgs>());
      free_.push_back(all_.back().get());
    }
    ProxyArgs* const args = free_.back();
    free_.pop_back();
    return args;
  }
  void give_back(ProxyArgs* args) { free_.push_back(args); }

 private:
  std::vector<std::unique_ptr<ProxyArgs>> all_;
  std::vector<ProxyArgs*> free_;
};

/// CPU time of this thread: on a busy machine, wall-clock time is that of other threads.
inline std::uint64_t thread_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// Some: a chain of multiplications that calls nobody.
inline void compute_for_a_microsecond() {
  std::uint64_t state = 1;
  for (int i = 0; i < 500; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(state));
  }
}

/// A thread that lives as long as this and does one piece of work after the other.
class ProxyThread {
 public:
  ProxyThread() : thread_([this] { run(); }) {}
  ~ProxyThread() {
    start({});
    thread_.join();
  }
  ProxyThread(const ProxyThread&) = delete;
  ProxyThread& operator=(const ProxyThread&) = delete;

  void start(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
    has_work_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !has_work_; });
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return has_work_; });
      const std::function<void()> work = work_;
      lock.unlock();
      if (work) work();
      lock.lock();
      has_work_ = false;
      changed_.notify_all();
      if (!work) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool has_work_ = false;
  std::thread thread_;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_COLLNET_OPERATIONS_H_
