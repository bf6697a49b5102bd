// What transports whose bytes a reactor moves have in common.
#ifndef RING_TRANSPORT_COMMON_REACTOR_TRANSPORT_H_
#define RING_TRANSPORT_COMMON_REACTOR_TRANSPORT_H_

#include <cstddef>

#include "ring/transport/common/connection.h"
#include "ring/transport/common/reactor.h"
#include "ringpress/internal/transport.h"

namespace ringpress::ring::transport {

class ReactorTransport : public Transport {
 public:
  /// Frames are sent from wherever they are, if the transport does not say otherwise.
  Result<Buffer> allocate(std::size_t) override { return Buffer{}; }
  bool reads_in_place(std::size_t) const override { return false; }
  bool was_told_why() const final { return events_.was_told; }
  void wait(Deadline until) final { reactor_.dispatch_until(until); }
  void wake() final { reactor_.wake(); }
  TransportCounters counters() const final { return events_.counters.now(); }

 protected:
  /// The reactor outlives this.
  explicit ReactorTransport(Reactor& reactor) : reactor_(reactor) {}

  Reactor& reactor_;
  Identity identity_;
  Events events_;
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_REACTOR_TRANSPORT_H_
