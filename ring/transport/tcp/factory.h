// Makes the TCP transport: several sockets a connection, whole frames by scatter and gather, CRC32C
// on every header and payload; and links over the same frames.
#ifndef RING_TRANSPORT_TCP_FACTORY_H_
#define RING_TRANSPORT_TCP_FACTORY_H_

#include <memory>
#include <string>

#include "ring/transport/common/reactor.h"
#include "ringpress/internal/link.h"
#include "ringpress/internal/transport.h"

namespace ringpress::ring::transport::tcp {

struct TcpOptions {
  std::string host;             // Numeric address to listen on, "192.0.2.7" or "[fd00::7]".
  int sockets_per_peer = 2;     // Equal on all ranks, 1..16.
  std::string congestion = {};  // As in MeshOptions.
};

/// The reactor must outlive the transport.
std::unique_ptr<Transport> make_tcp_transport(Reactor& reactor, const TcpOptions& options);

/// LinkOptions::address is ignored: `host` is the numeric address to listen on.
Result<std::unique_ptr<LinkListener>> make_link_listener(const std::string& host,
                                                         const LinkOptions& options);
Result<std::unique_ptr<LinkConnector>> make_link_connector(const LinkHandle& handle,
                                                           const LinkOptions& options);

}  // namespace ringpress::ring::transport::tcp

#endif  // RING_TRANSPORT_TCP_FACTORY_H_
