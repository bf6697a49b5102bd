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

/// Of a communicator: why what it waits for may never come.
struct Watch {
  std::function<bool()> is_given_up;
  /// Asked now and then in a long wait: not ok if what was asked for in the stream has failed, or
  /// the real library has met an error. Empty: nobody can tell.
  std::function<Status(Stream)> find_failure = {};
};

/// What ends a wait.
struct Patience {
  std::chrono::milliseconds timeout{};  // RINGPRESS_TIMEOUT_MS.
  const Watch& watch;
};

inline constexpr std::chrono::milliseconds kBetweenLooks{100};

/// The word that `stream` writes, once is_there(word): what streams wrote before it can be read
/// then, too. kTimeout, for the reason `late`; kAborted; or what the watch finds.
template <typename IsThere>
Result<std::uint64_t> await_word(const volatile std::uint64_t* word, Stream stream,
                                 const Patience& patience, const char* late, IsThere&& is_there) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto until = begin + patience.timeout;
  auto look = begin + kBetweenLooks;
  std::uint64_t seen = *word;
  while (!is_there(seen)) {
    const Watch& watch = patience.watch;
    if (watch.is_given_up()) return Status(Code::kAborted, "the communicator was given up");
    const auto now = Clock::now();
    if (now > until) return Status(Code::kTimeout, late);
    if (now > look) {
      if (watch.find_failure) RINGPRESS_RETURN_IF_ERROR(watch.find_failure(stream));
      look = now + kBetweenLooks;
    }
    sched_yield();
    seen = *word;
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return seen;
}

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_STREAM_WAIT_H_
