#include "ring/one_sided_puts.h"

#include <algorithm>

namespace ringpress::ring {
namespace {

FrameLabel label_of(std::uint64_t number, std::uint32_t step, std::uint64_t bytes) {
  FrameLabel label;
  label.call.sequence = number;
  label.call.count = bytes;
  label.call.kind = CollectiveKind::kSendRecv;
  label.call.dtype = DType::kUint8;
  label.step = step;
  return label;
}

void fill(MeshRequest& request, std::size_t peer, const FrameLabel& label) {
  request.peer = peer;
  request.label = label;
  request.inner = nullptr;
  request.done = false;
}

}  // namespace

OutgoingPut::OutgoingPut(std::size_t peer, const PutHeader& what, ConstBuffer source)
    : header(what) {
  head.direction = MeshRequest::Direction::kSend;
  head.peer = peer;
  head.source = ConstBuffer(&header, sizeof header);
  body.direction = MeshRequest::Direction::kSend;
  body.peer = peer;
  body.source = source;
}

Status OutgoingPuts::start(std::span<OutgoingPut* const> puts) {
  under_way_.insert(under_way_.end(), puts.begin(), puts.end());
  for (OutgoingPut* put : puts) RINGPRESS_RETURN_IF_ERROR(send(*put));
  return Status::ok();
}

Status OutgoingPuts::send(OutgoingPut& put) {
  const std::size_t peer = put.head.peer;
  const std::uint64_t number = counts_[peer]++;
  fill(put.head, peer, label_of(number, 0, 0));
  fill(put.body, peer, label_of(number, 1, put.header.bytes));
  put.body.done = put.header.bytes == 0;
  RINGPRESS_RETURN_IF_ERROR(connections_.start(put.head));
  return put.body.done ? Status::ok() : connections_.start(put.body);
}

Result<std::vector<OutgoingPut*>> OutgoingPuts::take_sent() {
  for (OutgoingPut* put : under_way_) {
    RINGPRESS_RETURN_IF_ERROR(connections_.test(put->head));
    RINGPRESS_RETURN_IF_ERROR(connections_.test(put->body));
  }
  const auto is_under_way = [](const OutgoingPut* put) {
    return !put->head.done || !put->body.done;
  };
  const auto first_sent = std::stable_partition(under_way_.begin(), under_way_.end(), is_under_way);
  std::vector<OutgoingPut*> sent(first_sent, under_way_.end());
  under_way_.erase(first_sent, under_way_.end());
  return sent;
}

/// Best effort: who has gone before has nothing to wait for.
void OutgoingPuts::start_leaving() {
  PutHeader leaving;
  leaving.kind = PutHeader::Kind::kLeaving;
  for (std::size_t peer = 0; peer < counts_.size(); ++peer) {
    if (counts_[peer] == 0) continue;
    auto goodbye = std::make_unique<OutgoingPut>(peer, leaving, ConstBuffer{});
    if (send(*goodbye).is_ok()) goodbyes_.push_back(std::move(goodbye));
  }
}

bool OutgoingPuts::has_left() {
  return std::all_of(goodbyes_.begin(), goodbyes_.end(), [this](const auto& goodbye) {
    return !connections_.test(goodbye->head).is_ok() || goodbye->head.done;
  });
}

Result<bool> IncomingPuts::take() {
  bool any = false;
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    RINGPRESS_ASSIGN_OR_RETURN(const bool took, take_from(peer));
    any = any || took;
  }
  return any;
}

Status IncomingPuts::expect(std::size_t peer) {
  if (peers_[peer].state != Peer::State::kNotConnected) return Status::ok();
  peers_[peer].request.watches_peer = true;
  return await_head(peer);
}

Result<bool> IncomingPuts::take_from(std::size_t peer) {
  Peer& from = peers_[peer];
  switch (from.state) {
    case Peer::State::kLeft:
      return false;
    case Peer::State::kNotConnected:
      if (!connections_.has_let_in(peer)) return false;
      RINGPRESS_RETURN_IF_ERROR(await_head(peer));
      return true;
    case Peer::State::kHead:
      RINGPRESS_RETURN_IF_ERROR(connections_.test(from.request));
      if (!from.request.done) return false;
      if (from.header.kind == PutHeader::Kind::kLeaving) {
        from.state = Peer::State::kLeft;
        return true;
      }
      if (from.header.bytes > 0) {
        RINGPRESS_RETURN_IF_ERROR(await_body(peer));
        return true;
      }
      break;
    case Peer::State::kBody:
      RINGPRESS_RETURN_IF_ERROR(connections_.test(from.request));
      if (!from.request.done) return false;
      board_.end_write(from.header.window);
      break;
  }
  RINGPRESS_RETURN_IF_ERROR(
      board_.add_signal(static_cast<int>(peer), {from.header.context, from.header.signal}));
  ++from.puts;
  RINGPRESS_RETURN_IF_ERROR(await_head(peer));
  return true;
}

Status IncomingPuts::await_head(std::size_t peer) {
  Peer& from = peers_[peer];
  from.state = Peer::State::kHead;
  from.request.direction = MeshRequest::Direction::kReceive;
  from.request.into = Buffer{};
  from.request.into.data = reinterpret_cast<std::byte*>(&from.header);
  from.request.into.bytes = sizeof from.header;
  fill(from.request, peer, label_of(from.puts, 0, 0));
  return connections_.start(from.request);
}

Status IncomingPuts::await_body(std::size_t peer) {
  Peer& from = peers_[peer];
  RINGPRESS_ASSIGN_OR_RETURN(from.request.into.data,
                             board_.begin_write(static_cast<int>(peer), from.header));
  from.state = Peer::State::kBody;
  from.request.into.bytes = from.header.bytes;
  fill(from.request, peer, label_of(from.puts, 1, from.header.bytes));
  return connections_.start(from.request);
}

}  // namespace ringpress::ring
