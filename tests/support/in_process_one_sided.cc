// Stands in for one-sided calls over a network in tests of the doors: between threads of one
// process, by memcpy.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "ringpress/internal/one_sided.h"

namespace ringpress {
namespace {

/// What the ranks of one communicator share.
class Board {
 public:
  void open(int rank, std::uint32_t window, Buffer memory) {
    const std::lock_guard lock(mutex_);
    windows_[{rank, window}] = memory;
  }
  void close(int rank, std::uint32_t window) {
    const std::lock_guard lock(mutex_);
    windows_.erase({rank, window});
  }
  Status put(int rank, const Put& put) {
    const std::lock_guard lock(mutex_);
    if (!failure_.is_ok()) return failure_;
    if (put.source.bytes > 0) {
      const auto window = windows_.find({put.peer, put.window});
      if (window == windows_.end()) {
        return fail(Status(Code::kInvalidUsage, "puts into a window that is not registered"));
      }
      std::memcpy(window->second.data + put.offset, put.source.data, put.source.bytes);
    }
    ++signals_[{rank, put.peer, put.signal}];
    changed_.notify_all();
    return Status::ok();
  }
  Status take(int rank, const AwaitedSignals& awaited, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    std::uint64_t& count = signals_[{awaited.peer, rank, awaited.signal}];
    const bool came = changed_.wait_for(
        lock, timeout, [&] { return count >= awaited.count || !failure_.is_ok(); });
    if (!failure_.is_ok()) return failure_;
    if (!came) return Status(Code::kTimeout, "no signal has come");
    count -= awaited.count;
    return Status::ok();
  }
  void abort(const Status& reason) {
    const std::lock_guard lock(mutex_);
    static_cast<void>(fail(reason));
  }

 private:
  Status fail(const Status& reason) {
    if (failure_.is_ok()) failure_ = reason;
    changed_.notify_all();
    return failure_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Status failure_;
  std::map<std::pair<int, std::uint32_t>, Buffer> windows_;
  std::map<std::tuple<int, int, SignalName>, std::uint64_t> signals_;  // From, to, which.
};

std::shared_ptr<Board> board_of(const UniqueId& id) {
  static std::mutex& mutex = *new std::mutex;
  static auto& boards = *new std::map<UniqueId, std::weak_ptr<Board>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Board> board = boards[id].lock();
  if (board == nullptr) {
    board = std::make_shared<Board>();
    boards[id] = board;
  }
  return board;
}

class InProcessOneSided final : public OneSided {
 public:
  InProcessOneSided(const UniqueId& id, int rank, std::chrono::milliseconds timeout)
      : board_(board_of(id)), rank_(rank), timeout_(timeout) {}

  void open_window(std::uint32_t window, Buffer memory) override {
    board_->open(rank_, window, memory);
  }
  void close_window(std::uint32_t window) override { board_->close(rank_, window); }
  Status put(const Put& put) override { return board_->put(rank_, put); }
  Status wait(std::span<const AwaitedSignals> signals) override {
    for (const AwaitedSignals& awaited : signals) {
      const Status status = board_->take(rank_, awaited, timeout_);
      if (!status.is_ok()) return status;
    }
    return Status::ok();
  }
  void abort(const Status& reason) override { board_->abort(reason); }

 private:
  const std::shared_ptr<Board> board_;
  const int rank_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace

Result<std::unique_ptr<OneSided>> OneSided::create(const UniqueId& id, int rank, int,
                                                   const Settings& settings,
                                                   const OneSidedLimits&) {
  return std::unique_ptr<OneSided>(std::make_unique<InProcessOneSided>(id, rank, settings.timeout));
}

}  // namespace ringpress
