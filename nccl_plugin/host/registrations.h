// The handles of ncclCommRegister(). Host memory needs no registration: a handle only tells whether
// it was handed out and not yet returned.
#ifndef NCCL_PLUGIN_HOST_REGISTRATIONS_H_
#define NCCL_PLUGIN_HOST_REGISTRATIONS_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_set>

namespace ringpress::nccl_plugin::host {

/// One count for the whole process: a handle of another kind, or communicator, is unknown.
inline std::uintptr_t new_handle() {
  static std::atomic<std::uintptr_t> made{0};
  return ++made;
}

/// Thread-safe.
class Registrations {
 public:
  void* add() {
    const std::uintptr_t handle = new_handle();
    const std::lock_guard lock(mutex_);
    live_.insert(handle);
    return reinterpret_cast<void*>(handle);  // NOLINT: a number; nobody follows it.
  }
  /// False if `handle` is not live.
  bool remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    return live_.erase(reinterpret_cast<std::uintptr_t>(handle)) == 1;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::uintptr_t> live_;
};

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_REGISTRATIONS_H_
