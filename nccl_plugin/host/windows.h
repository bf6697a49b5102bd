// The windows of one communicator, and the one-sided calls that go to them.
#ifndef NCCL_PLUGIN_HOST_WINDOWS_H_
#define NCCL_PLUGIN_HOST_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ringpress/internal/communicator.h"
#include "ringpress/internal/one_sided.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::host {

/// Thread-safe, but for register_memory().
class Windows {
 public:
  /// A window of a peer.
  struct Target {
    std::uint32_t number = 0;
    std::uint64_t bytes = 0;
  };

  /// Makes windows of what each rank gives: of all, or with an error. The first starts what serves
  /// the one-sided calls. Collective; gives a handle.
  Result<void*> register_memory(Communicator& communicator, Buffer memory,
                                const OneSidedLimits& limits, const Settings& settings);
  /// False if `handle` is not live. Else nobody writes to it any more.
  bool remove(const void* handle);
  /// Null if `handle` is not live.
  void* memory_of(const void* handle) const;
  /// kInvalidArgument if `handle` is not live.
  Result<Target> find(const void* handle, int peer) const;

  /// kInvalidUsage before the first window.
  Result<std::shared_ptr<OneSided>> one_sided() const;
  void abort(const Status& reason);
  /// No call is under way, and none comes.
  void end();

 private:
  struct Window {
    void* memory = nullptr;
    std::uint32_t number = 0;
    std::vector<std::uint64_t> bytes;  // By rank.
  };

  Status start(Communicator& communicator, const OneSidedLimits& limits, const Settings& settings);

  std::uint32_t made_ = 0;    // The same on all ranks.
  mutable std::mutex mutex_;  // Guards what follows.
  std::map<std::uintptr_t, Window> live_;
  std::shared_ptr<OneSided> one_sided_;
  Status ended_;
};

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_WINDOWS_H_
