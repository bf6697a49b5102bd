#include "ring/signal_board.h"

#include <cstring>
#include <string>

namespace ringpress::ring {

void SignalBoard::open_window(std::uint32_t window, Buffer memory) {
  const std::lock_guard lock(mutex_);
  windows_[window] = {memory, 0};
}

void SignalBoard::close_window(std::uint32_t window) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    const auto found = windows_.find(window);
    return found == windows_.end() || found->second.writes == 0 || has_stopped_;
  });
  windows_.erase(window);
}

Result<std::byte*> SignalBoard::begin_write(int peer, const PutHeader& put) {
  const std::lock_guard lock(mutex_);
  const auto found = windows_.find(put.window);
  const std::string from = "rank " + std::to_string(peer) + " puts ";
  if (found == windows_.end()) {
    return Status(Code::kInvalidUsage, from + "into a window that is not registered any more");
  }
  Window& window = found->second;
  if (put.offset > window.memory.bytes || put.bytes > window.memory.bytes - put.offset) {
    return Status(Code::kInvalidUsage, from + std::to_string(put.bytes) + " bytes at " +
                                           std::to_string(put.offset) + " into a window of " +
                                           std::to_string(window.memory.bytes));
  }
  ++window.writes;
  return window.memory.data + put.offset;
}

void SignalBoard::end_write(std::uint32_t window) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = windows_.find(window);
    if (found != windows_.end()) --found->second.writes;
  }
  changed_.notify_all();
}

Status SignalBoard::add_signal(int peer, const SignalName& signal) {
  if (signal.context < 0 || signal.context >= limits_.contexts || signal.index < 0 ||
      signal.index >= limits_.signals) {
    return Status(Code::kInvalidUsage, "rank " + std::to_string(peer) + " signals " +
                                           std::to_string(signal.index) + " of context " +
                                           std::to_string(signal.context) +
                                           ", which this rank does not have");
  }
  {
    const std::lock_guard lock(mutex_);
    ++counts_[{peer, signal}];
    ++signals_;
  }
  changed_.notify_all();
  return Status::ok();
}

Status SignalBoard::wait(std::span<const AwaitedSignals> signals,
                         std::chrono::milliseconds timeout) {
  Counts wanted;
  for (const AwaitedSignals& awaited : signals) {
    wanted[{awaited.peer, awaited.signal}] += awaited.count;
  }
  std::unique_lock lock(mutex_);
  const auto first_missing = [&] {
    auto want = wanted.begin();
    for (; want != wanted.end(); ++want) {
      const auto have = counts_.find(want->first);
      if (have == counts_.end() || have->second < want->second) break;
    }
    return want;
  };
  for (;;) {
    const auto missing = first_missing();
    if (missing == wanted.end()) break;  // They came before whatever went wrong.
    if (!failure_.is_ok()) return failure_;
    const std::uint64_t seen = signals_;
    if (!changed_.wait_for(lock, timeout, [&] { return signals_ != seen || !failure_.is_ok(); })) {
      return Status(Code::kTimeout, "no signal has come for " + std::to_string(timeout.count()) +
                                        " ms: of rank " + std::to_string(missing->first.first) +
                                        " there are " + std::to_string(counts_[missing->first]) +
                                        ", and " + std::to_string(missing->second) +
                                        " are waited for");
    }
  }
  for (const auto& [key, count] : wanted) counts_[key] -= count;
  return Status::ok();
}

void SignalBoard::stop_writes() {
  {
    const std::lock_guard lock(mutex_);
    has_stopped_ = true;
  }
  changed_.notify_all();
}

void SignalBoard::fail(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.is_ok()) failure_ = status;
  }
  changed_.notify_all();
}

}  // namespace ringpress::ring
