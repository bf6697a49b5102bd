// Makes the shared-memory transport for ranks of one host and one network namespace.
#ifndef RING_TRANSPORT_SHM_FACTORY_H_
#define RING_TRANSPORT_SHM_FACTORY_H_

#include <memory>

#include "ring/transport/common/reactor.h"
#include "ringpress/internal/transport.h"

namespace ringpress::ring::transport::shm {

/// Payloads up to here are copied when they are sent, wherever they lie: a copy costs less than
/// waiting until the peer has read them.
inline constexpr std::size_t kEagerBytes = 16 * 1024;

struct SharedMemoryOptions {
  std::uint32_t world = 1;
  bool reads_process =
      true;  // Receivers may read the memory of senders, where the kernel allows it.
};

/// The reactor must outlive the transport. An error says why this host has no shared memory for us;
/// it is no failure, TCP does the same.
Result<std::unique_ptr<Transport>> make_shm_transport(Reactor& reactor,
                                                      const SharedMemoryOptions& options);

}  // namespace ringpress::ring::transport::shm

#endif  // RING_TRANSPORT_SHM_FACTORY_H_
