#include "ring/transports.h"

#include <iterator>

#include "ring/transport/shm/factory.h"
#include "ring/transport/tcp/factory.h"

namespace ringpress::ring {
namespace {

using MadeTransport = Result<std::unique_ptr<Transport>>;

bool wants_shared_memory(const MeshOptions& options) {
  return options.shared_memory;
}

MadeTransport make_shared_memory(transport::Reactor& reactor, const MeshOptions& options,
                                 const std::string& /*host*/) {
  return transport::shm::make_shm_transport(reactor,
                                            {static_cast<std::uint32_t>(options.size), true});
}

bool is_always_wanted(const MeshOptions& /*options*/) {
  return true;
}

MadeTransport make_tcp(transport::Reactor& reactor, const MeshOptions& options,
                       const std::string& host) {
  return transport::tcp::make_tcp_transport(reactor,
                                            {host, options.sockets_per_peer, options.congestion});
}

constexpr TransportEntry kTransports[] = {
    {TransportKind::kSharedMemory, true, true, wants_shared_memory, make_shared_memory},
    {TransportKind::kTcp, false, false, is_always_wanted, make_tcp},
};

static_assert(std::size(kTransports) == kTransportKinds, "each TransportKind has a row here");

}  // namespace

std::span<const TransportEntry> transports() {
  return kTransports;
}

}  // namespace ringpress::ring
