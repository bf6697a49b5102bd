// The puts of a rank: those that it sends, and those that come. For the thread that serves alone.
//
// A put is a frame that says what follows and, unless it is a signal alone, one of the data. Both
// sides of a connection count the puts that cross it.
#ifndef RING_ONE_SIDED_PUTS_H_
#define RING_ONE_SIDED_PUTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ring/mesh_connections.h"
#include "ring/signal_board.h"

namespace ringpress::ring {

/// A put to another rank, from its call to its end.
struct OutgoingPut {
  OutgoingPut(std::size_t peer, const PutHeader& what, ConstBuffer source);
  OutgoingPut(const OutgoingPut&) = delete;  // Its requests point into it.
  OutgoingPut& operator=(const OutgoingPut&) = delete;

  PutHeader header;
  MeshRequest head;
  MeshRequest body;  // Where the header says that it has bytes.
  bool done = false;
  Status status;
};

class OutgoingPuts {
 public:
  OutgoingPuts(Connections& connections, std::size_t ranks)
      : connections_(connections), counts_(ranks) {}

  /// All of them are under way until take_sent() returns them, also after an error.
  Status start(std::span<OutgoingPut* const> puts);
  /// Those that have been sent since the last call.
  Result<std::vector<OutgoingPut*>> take_sent();
  const std::vector<OutgoingPut*>& under_way() const { return under_way_; }

  /// Tells all ranks that this one has sent puts to that no more will come.
  void start_leaving();
  /// They have been told, or cannot be.
  bool has_left();

 private:
  Status send(OutgoingPut& put);

  Connections& connections_;
  std::vector<std::uint64_t> counts_;  // By peer.
  std::vector<OutgoingPut*> under_way_;
  std::vector<std::unique_ptr<OutgoingPut>> goodbyes_;
};

class IncomingPuts {
 public:
  IncomingPuts(Connections& connections, SignalBoard& board, std::size_t ranks)
      : connections_(connections), board_(board), peers_(ranks) {}

  /// Writes what has come to the windows, and its signals. False: nothing had.
  Result<bool> take();
  /// Puts of this peer are waited for: that it ends is noticed, whether it has connected or not.
  Status expect(std::size_t peer);

 private:
  struct Peer {
    enum class State { kNotConnected, kHead, kBody, kLeft };
    State state = State::kNotConnected;
    PutHeader header;
    MeshRequest request;
    std::uint64_t puts = 0;
  };

  Result<bool> take_from(std::size_t peer);
  Status await_head(std::size_t peer);
  Status await_body(std::size_t peer);

  Connections& connections_;
  SignalBoard& board_;
  std::vector<Peer> peers_;
};

}  // namespace ringpress::ring

#endif  // RING_ONE_SIDED_PUTS_H_
