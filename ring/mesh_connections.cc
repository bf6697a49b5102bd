#include "ring/mesh_connections.h"

#include <algorithm>

#include "ringpress/internal/log.h"

namespace ringpress::ring {
namespace {

using std::chrono::milliseconds;

// An abort is to end calls within a second.
constexpr milliseconds kSpreadPatience{700};
constexpr milliseconds kGoodbyePatience{2000};
constexpr milliseconds kCausePatience{1000};
constexpr milliseconds kSlice{20};

/// How long to wait for peers, counted in slices: a process that did not run for a second (stopped,
/// starved, its machine moved) has used one slice of it, not all.
class Patience {
 public:
  explicit Patience(milliseconds total) : left_(total), seen_(Clock::now()) {}

  bool lasts() const { return left_.count() > 0; }
  /// Sleeps until the transport may have something to do, for a slice at most.
  void wait(Transport& transport) {
    transport.wait(seen_ + kSlice);
    const Deadline now = Clock::now();
    left_ -= std::min<Clock::duration>(now - seen_, kSlice);
    seen_ = now;
  }

 private:
  Clock::duration left_;
  Deadline seen_;
};

bool any_of(const MeshParts& parts, bool (Transport::*holds)() const) {
  return std::any_of(parts.transports.begin(), parts.transports.end(),
                     [holds](const auto& transport) { return (*transport.*holds)(); });
}

}  // namespace

std::size_t preferred_transport(const PeerEndpoint& endpoint, std::size_t first) {
  std::size_t way = first;
  while (way < endpoint.addresses.size() && endpoint.addresses[way].empty()) ++way;
  return way;
}

TransportCounters MeshParts::counters() const {
  TransportCounters total;
  for (const auto& transport : transports) {
    const TransportCounters counters = transport->counters();
    total.sent_bytes += counters.sent_bytes;
    total.received_bytes += counters.received_bytes;
  }
  return total;
}

Connections::Connections(const MeshParts& parts) : parts_(parts), peers_(parts.endpoints.size()) {
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    peers_[peer].transport = preferred_transport(parts_.endpoints[peer], 0);
  }
}

// --- transfers ---

Status Connections::start(MeshRequest& request) {
  Peer& peer = peers_[request.peer];
  const bool sends = request.direction == MeshRequest::Direction::kSend;
  if (sends ? peer.send != nullptr : peer.receive != nullptr) return peer.issue(request);
  (sends ? peer.unsent : peer.unreceived).push_back(&request);
  ++unconnected_;
  peer.is_watched = peer.is_watched || request.watches_peer;
  return connect_peers();
}

Status Connections::Peer::issue(MeshRequest& request) {
  const auto store = [&request](Result<Request*> inner) {
    if (!inner.is_ok()) return inner.status();
    request.inner = inner.value();
    return Status::ok();
  };
  switch (request.direction) {
    case MeshRequest::Direction::kSend:
      return store(send->isend(request.source, request.label));
    case MeshRequest::Direction::kReceive:
      return store(receive->irecv(request.into, request.label));
    case MeshRequest::Direction::kReceiveView:
      return store(receive->irecv_view({request.into.bytes, request.is_limit}, request.label));
  }
  return Status(Code::kInternal, "a request without a direction");
}

Status Connections::issue_all(Peer& peer, std::deque<MeshRequest*>& requests) {
  while (!requests.empty()) {
    MeshRequest* request = requests.front();
    requests.pop_front();
    --unconnected_;
    RINGPRESS_RETURN_IF_ERROR(peer.issue(*request));
  }
  return Status::ok();
}

Status Connections::test(MeshRequest& request) {
  if (request.done || request.inner == nullptr) return Status::ok();
  Peer& peer = peers_[request.peer];
  RINGPRESS_ASSIGN_OR_RETURN(const Completion completion,
                             request.direction == MeshRequest::Direction::kSend
                                 ? peer.send->test(request.inner)
                                 : peer.receive->test(request.inner));
  if (!completion.done) return Status::ok();
  request.done = true;
  request.view = completion.view;
  if (request.direction != MeshRequest::Direction::kReceiveView) release(request);
  return Status::ok();
}

void Connections::release(MeshRequest& request) {
  if (request.inner == nullptr) return;
  Peer& peer = peers_[request.peer];
  if (request.direction == MeshRequest::Direction::kSend) {
    peer.send->release(request.inner);
  } else {
    peer.receive->release(request.inner);
  }
  request.inner = nullptr;
}

Status Connections::advance() {
  for (const auto& transport : parts_.transports) {
    RINGPRESS_RETURN_IF_ERROR(transport->progress().status());
  }
  RINGPRESS_RETURN_IF_ERROR(accept_peers());
  RINGPRESS_RETURN_IF_ERROR(notice_gone_peers());
  return connect_peers();
}

bool Connections::read_in_place(std::size_t peer, std::size_t bytes) const {
  const std::size_t way = peers_[peer].transport;
  return way < parts_.transports.size() && parts_.transports[way]->reads_in_place(bytes);
}

// --- opening ---

Status Connections::connect_peers() {
  if (unconnected_ == 0) return Status::ok();
  for (std::size_t index = 0; index < peers_.size(); ++index) {
    const Peer& peer = peers_[index];
    const bool is_wanted = !peer.unsent.empty() || (peer.is_watched && peer.send == nullptr);
    if (is_wanted) RINGPRESS_RETURN_IF_ERROR(connect_peer(index));
  }
  return Status::ok();
}

Status Connections::connect_peer(std::size_t index) {
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
  return peer.send == nullptr ? Status::ok() : issue_all(peer, peer.unsent);
}

Status Connections::accept_peers() {
  for (const auto& transport : parts_.transports) {
    for (;;) {
      RINGPRESS_ASSIGN_OR_RETURN(Transport::Accepted accepted, transport->accept());
      if (accepted.channel == nullptr) break;
      Peer& peer = peers_[accepted.peer];
      if (peer.receive != nullptr) continue;  // One connection a pair; a second is dropped.
      peer.receive = std::move(accepted.channel);
      RINGPRESS_RETURN_IF_ERROR(issue_all(peer, peer.unreceived));
    }
  }
  return Status::ok();
}

bool Connections::is_connecting() const {
  return unconnected_ > 0 || any_of(parts_, &Transport::is_shaking_hands);
}

/// Who has gone, as the connection to it shows, will not open the one from it. If it has opened one
/// and sent all that is due, the handshake is at least under way here: a connector sends nothing
/// before its last hello.
Status Connections::notice_gone_peers() const {
  if (unconnected_ == 0 || any_of(parts_, &Transport::is_shaking_hands)) return Status::ok();
  for (const Peer& peer : peers_) {
    if (peer.unreceived.empty() || peer.send == nullptr) continue;
    RINGPRESS_RETURN_IF_ERROR(peer.send->ending());
  }
  return Status::ok();
}

// --- ending ---

template <typename Function>
void Connections::for_each_channel(Function function) {
  for (Peer& peer : peers_) {
    if (peer.send != nullptr) function(*peer.send);
    if (peer.receive != nullptr) function(*peer.receive);
  }
}

void Connections::close_channels(const Status& reason) {
  for_each_channel([&reason](auto& channel) { channel.close(reason); });
}

void Connections::flush_channels(milliseconds patience) {
  Patience left(patience);
  while (left.lasts()) {
    bool flushed = true;
    for_each_channel([&flushed](auto& channel) { flushed = flushed && channel.flushed(); });
    if (flushed) return;
    left.wait(parts_.any_transport());
    for (const auto& transport : parts_.transports) static_cast<void>(transport->progress());
  }
}

void Connections::say_goodbye() {
  close_channels(Status::ok());
  flush_channels(std::min(timeout(), kGoodbyePatience));
}

Status Connections::cause_of(const Status& reason, const std::atomic<bool>& failed) {
  if (reason.code() != Code::kPeerLost || any_of(parts_, &Transport::was_told_why)) return reason;
  Patience left(std::min(timeout(), kCausePatience));
  while (!failed.load() && left.lasts()) {
    // The reason may lie behind frames that nobody will receive any more.
    for (Peer& peer : peers_) {
      if (peer.receive != nullptr) peer.receive->drain();
    }
    for (const auto& transport : parts_.transports) {
      const Status heard = transport->progress().status();
      if (!heard.is_ok() && (heard.code() != Code::kPeerLost || transport->was_told_why())) {
        return heard;
      }
    }
    const Status accepted = accept_peers();
    if (!accepted.is_ok() && accepted.code() != Code::kPeerLost) return accepted;
    left.wait(parts_.any_transport());
  }
  return reason;
}

void Connections::spread(const Status& reason) {
  close_channels(reason);
  finish_connecting(reason);
  flush_channels(kSpreadPatience);
}

/// Peers that this rank connects to expect frames from it, and peers that connect to it wait for it
/// to take theirs: they must hear why neither will happen.
void Connections::finish_connecting(const Status& reason) {
  const auto is_waiting = [](const Peer& peer) { return !peer.unsent.empty(); };
  const auto is_opening = [&] {
    return std::any_of(peers_.begin(), peers_.end(), is_waiting) ||
           any_of(parts_, &Transport::is_accepting);
  };
  Patience left(std::min(timeout(), kSpreadPatience));
  bool listens = true;
  do {
    for (const auto& transport : parts_.transports) {
      static_cast<void>(transport->progress());
      if (listens) transport->stop_listening();
    }
    listens = false;
    for (std::size_t index = 0; index < peers_.size(); ++index) {
      if (!is_waiting(peers_[index])) continue;
      if (!connect_peer(index).is_ok()) peers_[index].unsent.clear();
    }
    static_cast<void>(accept_peers());
    close_channels(reason);
    if (is_opening()) left.wait(parts_.any_transport());
  } while (is_opening() && left.lasts());
}

}  // namespace ringpress::ring
