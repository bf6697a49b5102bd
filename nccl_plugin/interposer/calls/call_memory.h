// Host memory for what lasts as long as a call.
#ifndef NCCL_PLUGIN_INTERPOSER_CALLS_CALL_MEMORY_H_
#define NCCL_PLUGIN_INTERPOSER_CALLS_CALL_MEMORY_H_

#include <memory_resource>
#include <vector>

namespace ringpress::nccl_plugin::interposer {

/// The calling thread's own. What one call has given back the next ones take, so that after a few
/// calls the program's allocator is not asked any more. All of it is freed when the thread ends.
std::pmr::memory_resource* call_memory();

/// A vector in it: of no other thread, and of no longer life.
template <typename T>
struct CallVector : std::pmr::vector<T> {
  CallVector() : std::pmr::vector<T>(call_memory()) {}
  CallVector(const CallVector&) = delete;  // A copy would be elsewhere.
  CallVector& operator=(const CallVector&) = delete;
  CallVector(CallVector&&) = default;
  CallVector& operator=(CallVector&&) = default;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_CALLS_CALL_MEMORY_H_
