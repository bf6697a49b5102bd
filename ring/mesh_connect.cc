// How a mesh opens connections: at first use, by the preferred transport that works.
#include <algorithm>

#include "ring/mesh_impl.h"
#include "ringpress/internal/log.h"

namespace ringpress::ring {

std::size_t preferred_transport(const PeerEndpoint& endpoint, std::size_t first) {
  std::size_t way = first;
  while (way < endpoint.addresses.size() && endpoint.addresses[way].empty()) ++way;
  return way;
}

Status MeshImpl::connect_peers() {
  if (unconnected_ == 0) return Status::ok();
  for (std::size_t index = 0; index < peers_.size(); ++index) {
    if (!peers_[index].unsent.empty()) RINGPRESS_RETURN_IF_ERROR(connect_peer(index));
  }
  return Status::ok();
}

Status MeshImpl::connect_peer(std::size_t index) {
  Peer& peer = peers_[index];
  const PeerEndpoint& endpoint = parts_.endpoints[index];
  const auto number = static_cast<std::uint32_t>(index);
  for (;;) {
    const std::size_t way = peer.transport;
    Transport& transport = *parts_.transports[way];
    Result<std::unique_ptr<SendChannel>> channel =
        transport.connect(number, endpoint.addresses[way]);
    if (channel.is_ok()) {
      peer.send = std::move(channel).value();
      break;
    }
    const std::size_t next = preferred_transport(endpoint, way + 1);
    if (next == parts_.transports.size()) return channel.status();
    log_line(LogLevel::kInfo, "rank %d does not reach rank %zu by %s: %s", parts_.rank, index,
             transport_name(transport.kind()), channel.status().message().c_str());
    peer.transport = next;
  }
  return peer.send == nullptr ? Status::ok() : issue_all(peer.unsent);
}

Status MeshImpl::accept_peers() {
  for (const auto& transport : parts_.transports) {
    for (;;) {
      RINGPRESS_ASSIGN_OR_RETURN(Transport::Accepted accepted, transport->accept());
      if (accepted.channel == nullptr) break;
      Peer& peer = peers_[accepted.peer];
      if (peer.receive != nullptr) continue;  // One connection a pair; a second is dropped.
      peer.receive = std::move(accepted.channel);
      RINGPRESS_RETURN_IF_ERROR(issue_all(peer.unreceived));
    }
  }
  return Status::ok();
}

bool MeshImpl::is_shaking_hands() const {
  return std::any_of(parts_.transports.begin(), parts_.transports.end(),
                     [](const auto& transport) { return transport->is_shaking_hands(); });
}

/// Who has gone, as the connection to it shows, will not open the one from it. If it has opened one
/// and sent all that is due, the handshake is at least under way here: a connector sends nothing
/// before its last hello.
Status MeshImpl::notice_gone_peers() const {
  if (unconnected_ == 0 || is_shaking_hands()) return Status::ok();
  for (const Peer& peer : peers_) {
    if (peer.unreceived.empty() || peer.send == nullptr) continue;
    RINGPRESS_RETURN_IF_ERROR(peer.send->ending());
  }
  return Status::ok();
}

}  // namespace ringpress::ring
