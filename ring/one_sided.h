// One-sided calls over connections of their own: each rank has a thread that takes what comes.
//
// A put (one_sided_puts.h) goes to the window where it belongs. A rank that leaves says so on the
// connections that it has opened, so that nobody waits for more from it.
#ifndef RING_ONE_SIDED_H_
#define RING_ONE_SIDED_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "ring/mesh_connections.h"
#include "ring/mesh_failure.h"
#include "ring/one_sided_puts.h"
#include "ring/signal_board.h"
#include "ringpress/internal/one_sided.h"

namespace ringpress::ring {

class OneSidedMesh final : public OneSided {
 public:
  OneSidedMesh(MeshParts parts, const OneSidedLimits& limits);
  ~OneSidedMesh() override;

  void open_window(std::uint32_t window, Buffer memory) override {
    board_.open_window(window, memory);
  }
  void close_window(std::uint32_t window) override { board_.close_window(window); }
  Status put(const Put& put) override;
  Status wait(std::span<const AwaitedSignals> signals) override;
  void abort(const Status& reason) override;

 private:
  /// What calls have asked for, and the thread that serves has not taken.
  struct Asked {
    std::vector<OutgoingPut*> puts;
    std::vector<std::size_t> awaited;  // Peers whose signals are waited for.
  };
  struct LastMove {
    std::uint64_t bytes = 0;  // That had moved by then.
    Deadline when = Clock::now();
  };

  void run();
  /// Until this rank leaves, or something is wrong.
  Status serve();
  /// Takes the puts that calls have made, and starts them. Peers that calls wait for are listened
  /// to. False: no more will be made.
  Result<bool> start_queued();
  /// Tells calls whose puts have been sent. True if any had.
  Result<bool> conclude_sent();
  Status check_progress();
  void sleep();
  void leave();

  const MeshParts parts_;
  Connections connections_{parts_};
  MeshFailure failure_{connections_};
  SignalBoard board_;
  // Of the thread that serves.
  OutgoingPuts outgoing_{connections_, parts_.endpoints.size()};
  IncomingPuts incoming_{connections_, board_, parts_.endpoints.size()};
  LastMove last_move_;

  std::mutex mutex_;  // Guards what follows, and OutgoingPut::done.
  std::condition_variable changed_;
  Asked asked_;
  bool ending_ = false;
  bool ended_ = false;  // Nobody serves any more.
  std::thread thread_;
};

}  // namespace ringpress::ring

#endif  // RING_ONE_SIDED_H_
