// One-sided calls over connections of their own: each rank has a thread that takes what comes.
//
// A put is a frame that says what follows and, unless it is a signal alone, one of the data, which
// goes to the window where it belongs. A rank that leaves says so on the connections that it has
// opened, so that nobody waits for more from it.
#ifndef RING_ONE_SIDED_H_
#define RING_ONE_SIDED_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "ring/mesh_connections.h"
#include "ring/mesh_failure.h"
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

class OneSidedMesh final : public OneSided {
 public:
  OneSidedMesh(MeshParts parts, const OneSidedLimits& limits);
  ~OneSidedMesh() override;

  void open_window(std::uint32_t window, Buffer memory) override {
    board_.open_window(window, memory);
  }
  void close_window(std::uint32_t window) override { board_.close_window(window); }
  Status put(const Put& put) override;
  Status wait(std::span<const AwaitedSignals> signals) override {
    return board_.wait(signals, parts_.timeout);
  }
  void abort(const Status& reason) override;

 private:
  /// A put to another rank, from its call to its end.
  struct Outgoing {
    PutHeader header;
    MeshRequest head;
    MeshRequest body;  // Where the header says that it has bytes.
    bool done = false;
    Status status;
  };
  /// What comes from a rank.
  struct Incoming {
    enum class State { kNotConnected, kHead, kBody, kLeft };
    State state = State::kNotConnected;
    PutHeader header;
    MeshRequest request;
    std::uint64_t puts = 0;
  };

  Status put_here(const PutHeader& header, const Put& put);
  void run();
  /// Until this rank leaves, or something is wrong.
  Status serve();
  Status start(Outgoing& outgoing);
  Status await_head(std::size_t peer);
  Status await_body(std::size_t peer);
  /// Takes what has come from a rank. True if anything had.
  Result<bool> take_from(std::size_t peer);
  Result<bool> take_from_all();
  /// Puts that have ended.
  Result<bool> conclude_sent();
  Status check_progress();
  void sleep();
  void leave();
  void tell(Outgoing& outgoing, const Status& status);

  const MeshParts parts_;
  Connections connections_{parts_};
  MeshFailure failure_{connections_};
  SignalBoard board_;
  // Of the thread that serves.
  std::vector<Incoming> incoming_;
  std::vector<std::uint64_t> sent_puts_;  // By peer.
  std::vector<Outgoing*> under_way_;
  std::vector<std::unique_ptr<Outgoing>> words_;  // Of leaving.
  std::uint64_t moved_bytes_ = 0;
  Deadline last_moved_;

  std::mutex mutex_;  // Guards what follows, and Outgoing::done.
  std::condition_variable changed_;
  std::vector<Outgoing*> queue_;
  bool ending_ = false;
  bool ended_ = false;  // Nobody serves any more.
  std::thread thread_;
};

}  // namespace ringpress::ring

#endif  // RING_ONE_SIDED_H_
