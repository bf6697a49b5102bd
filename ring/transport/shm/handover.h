// After the hellos: both sides pass their segment and wake descriptor over the local socket and map
// what they got. Only when both could is there a connection; else the pair uses TCP.
//
//   connector -> acceptor  Offer, with descriptors
//   acceptor -> connector  Reply, with descriptors
//   connector -> acceptor  one byte: 1
#ifndef RING_TRANSPORT_SHM_HANDOVER_H_
#define RING_TRANSPORT_SHM_HANDOVER_H_

#include <memory>
#include <string>

#include "ring/transport/common/reactor.h"
#include "ring/transport/shm/link.h"

namespace ringpress::ring::transport::shm {

/// What this rank hands to its peers.
struct OwnMemory {
  const Segment* segment = nullptr;
  int wake = -1;
  std::uint32_t world = 1;
  bool reads_process = true;  // As in SharedMemoryOptions.
};

class Handover final : public EventHandler {
 public:
  enum class State { kUnderWay, kReady, kFailed };

  Handover(Reactor& reactor, const OwnMemory& own, Fd socket, bool connector);
  ~Handover() override;
  void on_events(std::uint32_t events) override;

  State state() const { return state_; }
  const std::string& failure() const { return failure_; }
  /// True if it will not become ready, as in HandshakeSocket.
  bool is_over(Deadline now);
  /// Once ready.
  Link take_link();

 private:
  void fail(const std::string& why);
  void send_message(const void* message, std::size_t bytes, bool with_descriptors);
  /// False: not all there yet.
  bool receive_message(void* message, std::size_t bytes, bool with_descriptors);
  void map_peer();
  void step_connector();
  void step_acceptor();

  Reactor& reactor_;
  const OwnMemory own_;
  const bool connector_;
  State state_ = State::kUnderWay;
  std::string failure_;
  Deadline expires_;
  Fd peer_file_;
  Link link_;
  bool exchanged_ = false;  // The acceptor has replied.
};

}  // namespace ringpress::ring::transport::shm

#endif  // RING_TRANSPORT_SHM_HANDOVER_H_
