// The handles of ncclCommRegister(), and of windows. Host memory needs no registration: a handle
// only tells whether it was handed out and not yet returned, and of which memory.
#ifndef NCCL_PLUGIN_HOST_REGISTRATIONS_H_
#define NCCL_PLUGIN_HOST_REGISTRATIONS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace ringpress::nccl_plugin::host {

/// Thread-safe.
class Registrations {
 public:
  void* add(void* memory) {
    // One count for the whole process: a handle of another kind, or communicator, is unknown here.
    static std::atomic<std::uintptr_t> made{0};
    const std::uintptr_t handle = ++made;
    const std::lock_guard lock(mutex_);
    live_[handle] = memory;
    return reinterpret_cast<void*>(handle);  // NOLINT: a number; nobody follows it.
  }
  /// False if `handle` is not live.
  bool remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    return live_.erase(reinterpret_cast<std::uintptr_t>(handle)) == 1;
  }
  /// Null if `handle` is not live.
  void* memory_of(const void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found == live_.end() ? nullptr : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, void*> live_;
};

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_REGISTRATIONS_H_
