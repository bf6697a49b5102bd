// Waiting, in the thread of a call, for a word that a stream writes to host memory.
#ifndef NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_WAIT_H_
#define NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_WAIT_H_

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::interposer {

/// The longest of a communicator's waits. One thread at a time notes, any may ask.
class LongestWait {
 public:
  void note(std::chrono::nanoseconds taken) {
    if (taken > value()) longest_.store(taken.count());
  }
  void forget() { longest_.store(0); }
  std::chrono::nanoseconds value() const { return std::chrono::nanoseconds(longest_.load()); }

 private:
  std::atomic<std::chrono::nanoseconds::rep> longest_{0};
};

/// Of a communicator: what ends a wait that what it is for does not end, and who is told.
struct Watch {
  std::function<bool()> is_given_up;
  /// Asked now and then in a long wait: not ok if what was asked for in the stream has failed, or
  /// the real library has met an error. Empty: nobody can tell.
  std::function<Status(Stream)> find_failure = {};
  LongestWait* waits = nullptr;                       // Null: nobody asks.
  std::chrono::milliseconds timeout = kUsualTimeout;  // RINGPRESS_TIMEOUT_MS.

  static constexpr std::chrono::minutes kUsualTimeout{10};
};

inline constexpr std::chrono::milliseconds kBetweenLooks{100};

/// The word that `stream` writes, once is_there(word): what streams wrote before it can be read
/// then, too. kTimeout, for the reason `late`; kAborted; or what the watch finds.
template <typename IsThere>
Result<std::uint64_t> await_word(const volatile std::uint64_t* word, Stream stream,
                                 const Watch& watch, const char* late, IsThere&& is_there) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto until = begin + watch.timeout;
  auto look = begin + kBetweenLooks;
  std::uint64_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  while (!is_there(seen)) {
    if (watch.is_given_up()) return Status(Code::kAborted, "the communicator was given up");
    const auto now = Clock::now();
    if (now > until) return Status(Code::kTimeout, late);
    if (now > look) {
      if (watch.find_failure) RINGPRESS_RETURN_IF_ERROR(watch.find_failure(stream));
      look = now + kBetweenLooks;
    }
    sched_yield();
    seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  }
  if (watch.waits != nullptr) watch.waits->note(Clock::now() - begin);
  return seen;
}

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_WAIT_H_
