// The handles of ncclCommRegister() and ncclCommWindowRegister(). Host memory needs no
// registration: a handle only tells whether it was handed out and not yet returned.
#ifndef NCCL_PLUGIN_HOST_REGISTRATIONS_H_
#define NCCL_PLUGIN_HOST_REGISTRATIONS_H_

#include <cstdint>
#include <mutex>
#include <unordered_set>

namespace ringpress::nccl_plugin::host {

/// Thread-safe.
class Registrations {
 public:
  void* add() {
    const std::lock_guard lock(mutex_);
    live_.insert(++last_);
    return reinterpret_cast<void*>(last_);  // NOLINT: a number; nobody follows it.
  }
  /// False if `handle` is not live.
  bool remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    return live_.erase(reinterpret_cast<std::uintptr_t>(handle)) == 1;
  }

 private:
  std::mutex mutex_;
  std::uintptr_t last_ = 0;
  std::unordered_set<std::uintptr_t> live_;
};

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_REGISTRATIONS_H_
