// The connections of a mesh: opened at first use, by the preferred transport that works, and closed
// with a word to each peer on why. For the owner (ownership.h) alone, where nothing else is said.
#ifndef RING_MESH_CONNECTIONS_H_
#define RING_MESH_CONNECTIONS_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ring/transport/common/reactor.h"
#include "ringpress/internal/mesh.h"

namespace ringpress::ring {

/// How one peer can be reached.
struct PeerEndpoint {
  std::vector<std::string> addresses;  // By MeshParts::transports; empty: not by that one.
  bool local = false;                  // On this host.
};

/// The first transport from `first` on that reaches it; the number of transports: none does.
std::size_t preferred_transport(const PeerEndpoint& endpoint, std::size_t first);

struct MeshParts {
  int rank = 0;
  std::vector<PeerEndpoint> endpoints;  // By rank, this one included.
  Secret secret{};                      // Of this mesh.
  std::chrono::milliseconds timeout{0};
  std::unique_ptr<transport::Reactor> reactor;
  // The preferred ones first. The last one joins all ranks.
  std::vector<std::unique_ptr<Transport>> transports;
  int ranks_per_host = 1;  // 0: hosts are not alike.
  std::uint32_t root_word = 0;
  bool cores_to_spare = false;  // Each rank of this machine has a core of its own.
  bool progress_thread = false;

  /// All transports sleep on one reactor, so that it is no matter which of them waits.
  Transport& any_transport() const { return *transports.back(); }
  /// Sum of all transports' counters. Any thread.
  TransportCounters counters() const;
};

/// A transfer, whether its connection is there yet or not.
struct MeshRequest final : Request {
  enum class Direction { kSend, kReceive, kReceiveView };
  Direction direction = Direction::kSend;
  std::size_t peer = 0;
  ConstBuffer source;
  Buffer into;            // Without data for kReceiveView.
  bool is_limit = false;  // into.bytes is: kReceiveView only.
  FrameLabel label;
  // The connection to the peer is opened, by which its end is noticed before it has opened its own.
  bool watches_peer = false;
  Request* inner = nullptr;  // The channel's request, once there is a channel.
  bool done = false;
  ConstBuffer view;
};

class Connections {
 public:
  explicit Connections(const MeshParts& parts);

  /// Starts the transfer, now or once its connection is there.
  Status start(MeshRequest& request);
  /// Sets `done` and `view` when it has ended.
  Status test(MeshRequest& request);
  void release(MeshRequest& request);
  /// Moves what can be moved, opens connections and lets peers in.
  Status advance();
  /// A connection may have to be made, or let in.
  bool is_connecting() const;
  /// Whether `peer` reads staging memory where it lies. Any thread.
  bool read_in_place(std::size_t peer, std::size_t bytes) const;

  /// `peer` has connected: frames of it may be waited for.
  bool has_let_in(std::size_t peer) const { return peers_[peer].receive != nullptr; }

  /// How long a peer may let this rank wait. Any thread.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  /// Frames that were started are sent first.
  void say_goodbye();
  /// Tells all connected peers the reason, and then those whose connections are being made. Frames
  /// that are half sent end first, so that the peer can read the reason behind them. Peers that
  /// connect later are refused: they must not wait for a rank that has given up.
  void spread(const Status& reason);
  /// A peer that is gone may have failed for a reason that others have heard or will say in a
  /// moment. Waits a little for it, not when `failed`; gives `reason` itself if nobody knows
  /// better. What a peer said is taken at once: it has waited, and around a ring every further
  /// wait would add up.
  Status cause_of(const Status& reason, const std::atomic<bool>& failed);

 private:
  struct Peer {
    std::unique_ptr<SendChannel> send;
    std::unique_ptr<RecvChannel> receive;
    // What frames to it go through, if that can be set up: of MeshParts::transports. Only ever
    // grows; read without the lock.
    std::atomic<std::size_t> transport = 0;
    bool is_watched = false;          // By a request.
    std::deque<MeshRequest*> unsent;  // Requests that wait for a channel, in order.
    std::deque<MeshRequest*> unreceived;

    Status issue(MeshRequest& request);
  };

  Status issue_all(Peer& peer, std::deque<MeshRequest*>& requests);
  Status connect_peers();
  Status connect_peer(std::size_t index);
  Status accept_peers();
  Status notice_gone_peers() const;
  void close_channels(const Status& reason);
  void finish_connecting(const Status& reason);
  void flush_channels(std::chrono::milliseconds patience);
  template <typename Function>
  void for_each_channel(Function function);

  const MeshParts& parts_;
  std::atomic<std::chrono::milliseconds> timeout_{parts_.timeout};
  std::vector<Peer> peers_;
  std::size_t unconnected_ = 0;  // Requests that wait for a channel.
};

}  // namespace ringpress::ring

#endif  // RING_MESH_CONNECTIONS_H_
