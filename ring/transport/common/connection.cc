#include "ring/transport/common/connection.h"

#include <cerrno>
#include <cstring>

namespace ringpress::ring::transport {

Connection::Connection(Reactor& reactor, Events& events, Stream stream, Ends ends)
    : reactor_(reactor), events_(events), stream_(std::move(stream)), ends_(ends) {
  const Status added = reactor_.add(stream_.descriptor(), this);
  if (!added.is_ok()) fail(added, true);
}

Connection::~Connection() {
  reactor_.remove(stream_.descriptor(), this);
}

void Connection::on_events(std::uint32_t events) {
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
  if ((events & EPOLLOUT) != 0) write();
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) read();
}

void Connection::send(SendOperation* operation) {
  outgoing_.push(operation);
  if (outgoing_.size() == 1) write();
}

void Connection::receive(ReceiveOperation* operation) {
  const Status expected = incoming_.expect(operation);
  if (!expected.is_ok()) on_incoming(expected);
}

void Connection::close(const Status& reason) {
  if (closing_) return;
  closing_ = true;
  if (!reason.is_ok()) {
    incoming_.expect_nothing();
    outgoing_.keep_half_sent(stream_.begun_bytes());
  }
  outgoing_.end_with(control_frame(reason));
  write();
}

void Connection::drain() {
  if (incoming_.is_draining()) return;
  incoming_.drain();
  read();
}

void Connection::fail(const Status& reason, bool everybody) {
  if (failure_.is_ok()) {
    failure_ = reason;
    ++events_.endings;
  }
  if (everybody) events_.report(failure_);
}

void Connection::write() {
  while (!write_closed_) {
    iovec pieces[OutgoingFrames::kMaxPieces];
    const std::size_t count = outgoing_.gather(pieces);
    if (count == 0) return;
    const Transferred sent = stream_.send({pieces, count}, events_.counters.sent_bytes);
    if (sent.error != 0) {
      write_closed_ = true;
      hung_up_ = true;
      // The peer may have said why before it went.
      read();
      return on_end_of_stream(sent.error);
    }
    if (sent.bytes == 0) return;
    outgoing_.account(sent.bytes);
  }
}

void Connection::read() {
  while (!read_closed_) {
    iovec pieces[2];
    const std::size_t count = incoming_.gather(pieces);
    if (count == 0) return;
    const std::size_t wanted = pieces[0].iov_len + (count == 2 ? pieces[1].iov_len : 0);
    const Result<Transferred> received =
        stream_.receive({pieces, count}, events_.counters.received_bytes);
    if (!received.is_ok()) {
      return on_incoming(
          Status(received.status().code(),
                 received.status().message() + " came from " + end_name(ends_.peer_rank)));
    }
    const Transferred& got = received.value();
    if (got.closed || got.error != 0) return on_end_of_stream(got.error);
    if (got.bytes == 0) return;
    on_incoming(incoming_.take(got.bytes));
    // A short read has emptied the socket; what comes later makes a new event. A record ends
    // anywhere.
    if (got.bytes < wanted && !hung_up_ && !stream_.is_encrypted()) return;
  }
}

/// Of what has come: an error, or a control frame, is the last of it.
void Connection::on_incoming(const Status& taken) {
  if (taken.is_ok() && !incoming_.has_control()) return;
  read_closed_ = true;
  if (!taken.is_ok()) return fail(taken, true);
  if (incoming_.is_goodbye()) {
    const char* did = ends_.peer_rank == kOtherSide ? " closed the link" : " left the communicator";
    return fail(Status(Code::kPeerLost, end_name(ends_.peer_rank) + did), busy());
  }
  const Status reason = incoming_.reason();
  events_.take_from_peer(reason);
  fail(reason, true);
}

void Connection::on_end_of_stream(int error) {
  const bool first = !read_closed_;
  read_closed_ = true;
  if (!first && !failure_.is_ok()) return fail(failure_, busy());
  std::string text = end_name(ends_.peer_rank) + " was lost: its connection closed in the middle";
  if (error != 0 && error != ECONNRESET && error != EPIPE) {
    text += std::string(" (") + strerrordesc_np(error) + ")";
  }
  fail(Status(Code::kPeerLost, text), busy());
}

}  // namespace ringpress::ring::transport
