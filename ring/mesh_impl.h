// The mesh: picks a transport for each pair of ranks, opens connections at first use, and turns
// every failure into one Status on every connected rank.
//
// Who may touch the transports: the owner (ownership.h). A call of the user is it for its whole
// length, sleeping included, and does not wait for it as a rule. The progress thread is it only
// between calls, and only while large transfers are under way; abort() only if nobody is, and
// otherwise leaves the work to the call that is. No mutex is held while the system is called.
#ifndef RING_MESH_IMPL_H_
#define RING_MESH_IMPL_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ring/ownership.h"
#include "ring/transport/common/operation.h"
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
};

class MeshImpl final : public Mesh {
 public:
  explicit MeshImpl(MeshParts parts);
  ~MeshImpl() override;

  int rank() const override { return parts_.rank; }
  int size() const override { return static_cast<int>(parts_.endpoints.size()); }
  bool is_local(int peer) const override;
  int ranks_per_host() const override { return parts_.ranks_per_host; }
  std::uint32_t root_word() const override { return parts_.root_word; }

  void set_timeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  Result<Request*> isend(int peer, ConstBuffer payload, const FrameLabel& label) override;
  Result<Request*> irecv(int peer, Buffer into, const FrameLabel& label) override;
  Result<Request*> irecv_view(int peer, FrameLength length, const FrameLabel& label) override;
  Result<ConstBuffer> wait(Request* request) override;
  Result<bool> poll(Request* request) override;
  void release(Request* request) override;
  Result<Buffer> staging(std::size_t slot, std::size_t bytes) override;
  bool reads_staging(int peer, std::size_t bytes) const override;

  void abort(const Status& reason) override;
  Status check() override;
  Status failure() const override;
  MeshCounters counters() const override;
  Result<UniqueId> survivors_id(std::span<const int> survivors) override;

 private:
  enum class Direction { kSend, kReceive, kReceiveView };
  struct MeshRequest final : Request {
    Direction direction = Direction::kSend;
    std::size_t peer = 0;
    ConstBuffer source;
    Buffer into;            // Without data for kReceiveView.
    bool is_limit = false;  // into.bytes is: kReceiveView only.
    FrameLabel label;
    Request* inner = nullptr;  // The channel's request, once there is a channel.
    bool done = false;
    ConstBuffer view;
  };
  struct Peer {
    std::unique_ptr<SendChannel> send;
    std::unique_ptr<RecvChannel> receive;
    // What frames to it go through, if that can be set up: of MeshParts::transports. Only ever
    // grows; read without the lock.
    std::atomic<std::size_t> transport = 0;
    std::deque<MeshRequest*> unsent;  // Requests that wait for a channel, in order.
    std::deque<MeshRequest*> unreceived;
  };
  class Turn;
  class Patience;

  Result<Request*> start(MeshRequest* request);
  Status issue(MeshRequest& request);
  Status issue_all(std::deque<MeshRequest*>& requests);
  Status finish_if_done(MeshRequest& request);
  Status sleep_until_done(MeshRequest& request);
  Status advance();
  Status connect_peers();
  Status connect_peer(std::size_t index);
  Status accept_peers();
  bool is_shaking_hands() const;
  /// All transports sleep on one reactor, so that it is no matter which of them waits.
  Transport& any_transport() const { return *parts_.transports.back(); }
  Status notice_gone_peers() const;
  bool request_outstanding(const MeshRequest& request) const;
  void return_inner(MeshRequest& request);
  std::uint64_t moved_bytes() const;
  Status timed_out(const MeshRequest& request) const;

  Status fail(const Status& reason);
  void latch_failure(const Status& reason);
  bool was_told_why() const;
  Status cause_of(const Status& reason);
  void spread_failure();
  void close_channels(const Status& reason);
  void finish_connecting(const Status& reason);
  void spread_failure_if_free();
  void say_goodbye();
  void flush_channels(Patience patience);
  template <typename Function>
  void for_each_channel(Function function);

  void run_progress_thread();
  void arm_progress_thread();

  MeshParts parts_;
  std::atomic<std::chrono::milliseconds> timeout_{parts_.timeout};
  std::vector<Peer> peers_;
  transport::Pool<MeshRequest> requests_;
  std::vector<Buffer> staging_;  // By slot.
  std::vector<std::unique_ptr<transport::ViewMemory>> private_staging_;
  std::size_t unconnected_ = 0;        // Requests that wait for a channel.
  std::size_t large_outstanding_ = 0;  // Requests worth a progress thread.

  Ownership owner_;
  mutable std::mutex failure_mutex_;
  Status failure_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> spread_{false};  // The peers know of the failure.
  std::atomic<unsigned> survivors_ids_{0};

  std::thread thread_;
  std::mutex thread_mutex_;
  std::condition_variable thread_wake_;
  bool thread_armed_ = false;
  bool thread_stop_ = false;
};

}  // namespace ringpress::ring

#endif  // RING_MESH_IMPL_H_
