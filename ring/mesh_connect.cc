// How a mesh opens connections: at first use, by shared memory where that works, else by TCP.
#include "ring/mesh_impl.h"
#include "ringpress/log.h"

namespace ringpress::ring {

Status MeshImpl::connect_peers() {
  if (unconnected_ == 0) return Status::ok();
  for (std::size_t index = 0; index < peers_.size(); ++index) {
    if (!peers_[index].unsent.empty()) RINGPRESS_RETURN_IF_ERROR(connect_peer(index));
  }
  return Status::ok();
}

Status MeshImpl::connect_peer(std::size_t index) {
  Peer& peer = peers_[index];
  const PeerPlace& place = parts_.places[index];
  const auto number = static_cast<std::uint32_t>(index);
  if (peer.by_shm) {
    Result<std::unique_ptr<SendChannel>> channel = parts_.shm->connect(number, place.shm);
    if (channel.is_ok()) {
      peer.send = std::move(channel).value();
    } else {
      log_line(LogLevel::kInfo, "rank %d reaches rank %zu by TCP: %s", parts_.rank, index,
               channel.status().message().c_str());
      peer.by_shm = false;
    }
  }
  if (!peer.by_shm) {
    RINGPRESS_ASSIGN_OR_RETURN(peer.send, parts_.tcp->connect(number, place.tcp));
  }
  return peer.send == nullptr ? Status::ok() : issue_all(peer.unsent);
}

Status MeshImpl::accept_peers() {
  for (Transport* transport : {parts_.tcp.get(), parts_.shm.get()}) {
    while (transport != nullptr) {
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
  return parts_.tcp->is_shaking_hands() ||
         (parts_.shm != nullptr && parts_.shm->is_shaking_hands());
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
