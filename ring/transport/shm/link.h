// What the channels of one pair of ranks share: both segments and the means to wake each other.
#ifndef RING_TRANSPORT_SHM_LINK_H_
#define RING_TRANSPORT_SHM_LINK_H_

#include <unistd.h>

#include <memory>

#include "ring/transport/shm/segment.h"

namespace ringpress::ring::transport::shm {

/// A peer's segment and the descriptor that wakes it.
struct PeerMemory {
  std::unique_ptr<Segment> segment;
  Fd wake;

  /// Tells the owner that something happened. A system call only if it sleeps.
  void ring() const {
    SegmentHead& head = segment->head();
    head.doorbell.fetch_add(1);
    if (head.sleeping.load() == 0 || head.sleeping.exchange(0) == 0) return;
    const std::uint64_t one = 1;
    const ssize_t written = ::write(wake.get(), &one, sizeof one);
    static_cast<void>(written);  // Full means that a wake-up is on its way already.
  }
};

/// A connection that has been set up: the control socket carries abort and goodbye frames, and its
/// end tells of the peer's.
struct Link {
  std::shared_ptr<PeerMemory> peer;
  Fd control;
  int process = 0;             // The sender's process id, at the receiver.
  bool reads_process = false;  // The receiver may read the sender's memory.
};

}  // namespace ringpress::ring::transport::shm

#endif  // RING_TRANSPORT_SHM_LINK_H_
