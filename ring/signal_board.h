// The windows and the signals of one rank's one-sided calls.
#ifndef RING_SIGNAL_BOARD_H_
#define RING_SIGNAL_BOARD_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "ringpress/internal/one_sided.h"

namespace ringpress::ring {

/// The first frame of a put.
struct PutHeader {
  enum class Kind : std::uint32_t { kPut = 1, kLeaving = 2 };
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t window = 0;
  std::int32_t context = 0;
  std::int32_t signal = 0;
  Kind kind = Kind::kPut;
};
static_assert(sizeof(PutHeader) == 32);

/// What threads of the program and the one that serves share. Thread-safe.
class SignalBoard {
 public:
  explicit SignalBoard(const OneSidedLimits& limits) : limits_(limits) {}

  void open_window(std::uint32_t window, Buffer memory);
  void close_window(std::uint32_t window);
  /// Where a put may write, until end_write().
  Result<std::byte*> begin_write(int peer, const PutHeader& put);
  void end_write(std::uint32_t window);

  Status add_signal(int peer, const SignalName& signal);
  Status wait(std::span<const AwaitedSignals> signals, std::chrono::milliseconds timeout);
  /// Later calls return `status`, and those under way end, but for close_window().
  void fail(const Status& status);
  /// Nobody writes to windows any more, whatever was under way.
  void stop_writes();

 private:
  struct Window {
    Buffer memory;
    int writes = 0;  // Under way.
  };
  using Key = std::pair<int, SignalName>;
  using Counts = std::map<Key, std::uint64_t>;

  const OneSidedLimits limits_;
  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::map<std::uint32_t, Window> windows_;
  bool has_stopped_ = false;
  Counts counts_;
  std::uint64_t signals_ = 0;  // That have come in all.
  Status failure_;
};

}  // namespace ringpress::ring

#endif  // RING_SIGNAL_BOARD_H_
