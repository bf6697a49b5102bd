// Waiting, in the thread of a call, for a word that a stream writes to host memory.
#ifndef NCCL_PLUGIN_INTERPOSER_STREAM_WAIT_H_
#define NCCL_PLUGIN_INTERPOSER_STREAM_WAIT_H_

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "ringpress/status.h"

namespace ringpress::nccl_plugin::interposer {

/// What ends a wait.
struct Patience {
  int timeout_ms = 0;  // RINGPRESS_TIMEOUT_MS.
  const std::function<bool()>& is_given_up;
};

/// The word, once is_there(word): what streams wrote before it can be read then, too. kTimeout, for
/// the reason `late`; kAborted.
template <typename IsThere>
Result<std::uint64_t> await_word(const volatile std::uint64_t* word, const Patience& patience,
                                 const char* late, IsThere&& is_there) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::milliseconds(patience.timeout_ms);
  std::uint64_t seen = *word;
  while (!is_there(seen)) {
    if (patience.is_given_up()) return Status(Code::kAborted, "the communicator was given up");
    if (Clock::now() > until) return Status(Code::kTimeout, late);
    sched_yield();
    seen = *word;
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return seen;
}

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_STREAM_WAIT_H_
