#include "nccl_plugin/host/windows.h"

#include <string>
#include <utility>

#include "nccl_plugin/host/registrations.h"

namespace ringpress::nccl_plugin::host {

/// Every rank has the same limits, or nobody starts anything.
Status Windows::start(Communicator& communicator, const OneSidedLimits& limits,
                      const Settings& settings) {
  {
    const std::lock_guard lock(mutex_);
    if (one_sided_ != nullptr) return Status::ok();
  }
  struct Word {
    std::int32_t contexts, signals;
  };
  const Word own{limits.contexts, limits.signals};
  std::vector<Word> words(static_cast<std::size_t>(communicator.size()));
  RINGPRESS_RETURN_IF_ERROR(communicator.all_gather(&own, words.data(), sizeof own, DType::kUint8));
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank].contexts == words[0].contexts && words[rank].signals == words[0].signals) {
      continue;
    }
    return Status(Code::kMismatch, "rank " + std::to_string(rank) +
                                       " has another config.numRmaCtx or config.numRmaSig than "
                                       "rank 0");
  }
  if (limits.contexts == 0) return Status::ok();
  UniqueId id{};
  Status opened;
  if (communicator.rank() == 0) {
    auto made = make_unique_id(settings);
    opened = made.status();
    if (made.is_ok()) id = made.value();
  }
  RINGPRESS_RETURN_IF_ERROR(
      communicator.broadcast(id.data(), id.data(), id.size(), DType::kUint8, 0));
  RINGPRESS_RETURN_IF_ERROR(opened);
  if (id == UniqueId{}) return Status(Code::kSystem, "rank 0 could not open a socket");
  RINGPRESS_ASSIGN_OR_RETURN(
      std::shared_ptr<OneSided> made,
      OneSided::create(id, communicator.rank(), communicator.size(), settings, limits));
  const std::lock_guard lock(mutex_);
  if (!ended_.is_ok()) made->abort(ended_);
  one_sided_ = std::move(made);
  return Status::ok();
}

Result<void*> Windows::register_memory(Communicator& communicator, Buffer memory,
                                       const OneSidedLimits& limits, const Settings& settings) {
  RINGPRESS_RETURN_IF_ERROR(start(communicator, limits, settings));
  Window window;
  window.memory = memory.data;
  window.number = made_++;
  if (limits.contexts > 0) {
    // Before anybody knows that it is there.
    RINGPRESS_ASSIGN_OR_RETURN(const std::shared_ptr<OneSided> calls, one_sided());
    calls->open_window(window.number, memory);
  }
  const std::uint64_t bytes = memory.bytes;
  window.bytes.resize(static_cast<std::size_t>(communicator.size()));
  RINGPRESS_RETURN_IF_ERROR(
      communicator.all_gather(&bytes, window.bytes.data(), 1, DType::kUint64));
  const std::uintptr_t handle = new_handle();
  const std::lock_guard lock(mutex_);
  live_[handle] = std::move(window);
  return reinterpret_cast<void*>(handle);  // NOLINT: a number; nobody follows it.
}

bool Windows::remove(const void* handle) {
  std::shared_ptr<OneSided> calls;
  std::uint32_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == live_.end()) return false;
    number = found->second.number;
    live_.erase(found);
    calls = one_sided_;
  }
  if (calls != nullptr) calls->close_window(number);
  return true;
}

void* Windows::memory_of(const void* handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(reinterpret_cast<std::uintptr_t>(handle));
  return found == live_.end() ? nullptr : found->second.memory;
}

Result<Windows::Target> Windows::find(const void* handle, int peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(reinterpret_cast<std::uintptr_t>(handle));
  if (found == live_.end()) {
    return Status(Code::kInvalidArgument,
                  "peerWin is no window of this communicator, or is deregistered");
  }
  return Target{found->second.number, found->second.bytes[static_cast<std::size_t>(peer)]};
}

Result<std::shared_ptr<OneSided>> Windows::one_sided() const {
  const std::lock_guard lock(mutex_);
  if (one_sided_ != nullptr) return one_sided_;
  return Status(Code::kInvalidUsage,
                "no window was registered on comm: one-sided calls begin with "
                "ncclCommWindowRegister");
}

void Windows::abort(const Status& reason) {
  const std::lock_guard lock(mutex_);
  ended_ = reason;
  if (one_sided_ != nullptr) one_sided_->abort(reason);
}

void Windows::end() {
  std::shared_ptr<OneSided> calls;
  {
    const std::lock_guard lock(mutex_);
    calls = std::exchange(one_sided_, nullptr);
    live_.clear();
  }
}

}  // namespace ringpress::nccl_plugin::host
