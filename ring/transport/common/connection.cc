#include "ring/transport/common/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ring/transport/common/crc32c.h"

namespace ringpress::ring::transport {
namespace {

constexpr std::size_t kMaxPieces = 16;  // Of one sendmsg: eight small frames.
// Of one sendmsg. The receiver of a longer one starts late, and what it reads has left the cache.
constexpr std::size_t kMaxSendBytes = 256 * 1024;

constexpr std::size_t kDropBytes = 64 * 1024;

iovec piece_of(const void* data, std::size_t bytes) {
  return {const_cast<void*>(data), bytes};
}

}  // namespace

Connection::Connection(Reactor& reactor, Events& events, Fd socket, Ends ends)
    : reactor_(reactor), events_(events), socket_(std::move(socket)), ends_(ends) {
  const Status added = reactor_.add(socket_.get(), this);
  if (!added.is_ok()) fail(added, true);
}

Connection::~Connection() {
  reactor_.remove(socket_.get(), this);
}

void Connection::on_events(std::uint32_t events) {
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
  if ((events & EPOLLOUT) != 0) write();
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) read();
}

void Connection::send(SendOperation* operation) {
  sends_.push_back(operation);
  if (sends_.size() == 1) write();
}

void Connection::receive(ReceiveOperation* operation) {
  receives_.push_back(operation);
  if (header_checked_ && receives_.size() == 1) {
    match_header();
    if (header_matched_ && header_.payload_bytes == 0) on_payload(0);
  }
}

void Connection::close(const Status& reason) {
  if (closing_) return;
  closing_ = true;
  if (!reason.is_ok()) {
    receives_.clear();
    const bool half_sent = !sends_.empty() && sends_.front()->sent_bytes > 0;
    sends_.keep_first(half_sent ? 1 : 0);
  }
  control_ = control_frame(reason);
  write();
}

void Connection::drain() {
  if (draining_) return;
  draining_ = true;
  dropped_.resize(kDropBytes);
  if (header_checked_ && !reading_control()) {
    const bool is_claimed = header_matched_ && !receives_.empty();
    const std::size_t received = is_claimed ? receives_.front()->received_bytes : 0;
    left_to_drop_bytes_ = header_.payload_bytes - received;
    drop(0);
  }
  receives_.clear();
  read();
}

bool Connection::flushed() const {
  return write_closed_ || (sends_.empty() && control_sent_bytes_ == control_.size());
}

void Connection::fail(const Status& reason, bool everybody) {
  if (failure_.is_ok()) {
    failure_ = reason;
    ++events_.endings;
  }
  if (everybody) events_.report(failure_);
}

// --- sending ---

std::size_t Connection::gather_sends(iovec* pieces, std::size_t limit) const {
  std::size_t count = 0;
  std::size_t room = kMaxSendBytes;
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    if (count + 2 > limit || room == 0) break;
    const SendOperation* operation = sends_[i];
    const std::size_t sent = operation->sent_bytes;
    const auto* header = reinterpret_cast<const std::byte*>(&operation->header);
    if (sent < kHeaderBytes) pieces[count++] = piece_of(header + sent, kHeaderBytes - sent);
    const std::size_t skip = sent < kHeaderBytes ? 0 : sent - kHeaderBytes;
    const std::size_t payload = std::min(operation->payload.bytes - skip, room);
    if (payload > 0) pieces[count++] = piece_of(operation->payload.data + skip, payload);
    if (payload < operation->payload.bytes - skip) break;
    room -= payload;
  }
  return count;
}

void Connection::account_sent(std::size_t bytes) {
  events_.counters.sent_bytes += bytes;
  while (bytes > 0) {
    SendOperation* operation = sends_.front();
    const std::size_t left = kHeaderBytes + operation->payload.bytes - operation->sent_bytes;
    const std::size_t part = std::min(left, bytes);
    operation->sent_bytes += part;
    bytes -= part;
    if (part < left) return;
    operation->done = true;
    sends_.pop_front();
  }
}

void Connection::write() {
  while (!write_closed_ && !sends_.empty()) {
    iovec pieces[kMaxPieces];
    const msghdr message = message_of(pieces, gather_sends(pieces, kMaxPieces));
    const Transferred sent =
        move_bytes([&] { return ::sendmsg(socket_.get(), &message, kSendFlags); });
    if (sent.error != 0) return on_write_error(sent.error);
    if (sent.bytes == 0) return;
    account_sent(sent.bytes);
  }
  if (!write_closed_ && control_sent_bytes_ < control_.size()) write_control();
}

void Connection::write_control() {
  const Transferred sent = send_bytes(socket_.get(), control_.data() + control_sent_bytes_,
                                      control_.size() - control_sent_bytes_);
  if (sent.error != 0) return on_write_error(sent.error);
  control_sent_bytes_ += sent.bytes;
  events_.counters.sent_bytes += sent.bytes;
}

void Connection::on_write_error(int error) {
  write_closed_ = true;
  hung_up_ = true;
  // The peer may have said why before it went.
  read();
  on_end_of_stream(error);
}

// --- receiving ---

std::size_t Connection::gather_receive(iovec* pieces) {
  if (reading_control()) {
    pieces[0] = piece_of(control_text_.data() + control_filled_bytes_,
                         control_text_.size() - control_filled_bytes_);
    return 1;
  }
  if (dropping()) {
    pieces[0] = piece_of(dropped_.data(), std::min(dropped_.size(), left_to_drop_bytes_));
    return 1;
  }
  ReceiveOperation* front = receives_.empty() ? nullptr : receives_.front();
  if (!header_checked_) {
    // The payload is read along, before its header is known to match: a frame that does not match
    // fails the connection, so nothing is lost. Where its length is not known, that could take more
    // than the payload.
    pieces[0] =
        piece_of(header_bytes_.data() + header_filled_bytes_, kHeaderBytes - header_filled_bytes_);
    if (front == nullptr || front->expected.length.is_limit) return 1;
    if (front->expected.length.bytes == 0) return 1;
    pieces[1] = piece_of(front->into, front->expected.length.bytes);
    return 2;
  }
  if (front == nullptr) return 0;
  pieces[0] = piece_of(front->into + front->received_bytes,
                       front->expected.length.bytes - front->received_bytes);
  pieces[1] = piece_of(header_bytes_.data(), kHeaderBytes);
  return 2;
}

void Connection::read() {
  while (!read_closed_) {
    iovec pieces[2];
    const std::size_t count = gather_receive(pieces);
    if (count == 0) return;
    const std::size_t wanted = pieces[0].iov_len + (count == 2 ? pieces[1].iov_len : 0);
    msghdr message = message_of(pieces, count);
    const Transferred got =
        move_bytes([&] { return ::recvmsg(socket_.get(), &message, kReceiveFlags); });
    if (got.closed || got.error != 0) return on_end_of_stream(got.error);
    if (got.bytes == 0) return;
    events_.counters.received_bytes += got.bytes;
    take_received(got.bytes);
    // A short read has emptied the socket; what comes later makes a new event.
    if (got.bytes < wanted && !hung_up_) return;
  }
}

void Connection::take_received(std::size_t bytes) {
  if (reading_control()) {
    control_filled_bytes_ += bytes;
    if (control_filled_bytes_ == control_text_.size()) on_control();
    return;
  }
  if (dropping()) return drop(bytes);
  if (header_checked_) {
    const ReceiveOperation* front = receives_.front();
    const std::size_t left = front->expected.length.bytes - front->received_bytes;
    const std::size_t payload = std::min(left, bytes);
    on_payload(payload);
    header_filled_bytes_ += bytes - payload;
    if (header_filled_bytes_ == kHeaderBytes) on_header(0);
    return;
  }
  const std::size_t head = std::min(bytes, kHeaderBytes - header_filled_bytes_);
  header_filled_bytes_ += head;
  if (header_filled_bytes_ == kHeaderBytes) on_header(bytes - head);
}

void Connection::on_header(std::size_t payload_bytes) {
  header_filled_bytes_ = 0;
  const Status parsed = parse_header(header_bytes_, header_);
  if (!parsed.is_ok()) {
    read_closed_ = true;
    return fail(Status(Code::kCorrupt, parsed.message() + ", from " + end_name(ends_.peer_rank) +
                                           " to " + end_name(ends_.local_rank)),
                true);
  }
  header_checked_ = true;
  if (header_.kind != FrameKind::kData) {
    control_text_.assign(header_.payload_bytes, '\0');
    // What was read along lies where the payload of the first operation was expected.
    control_filled_bytes_ = std::min(payload_bytes, control_text_.size());
    if (control_filled_bytes_ > 0) {
      std::memcpy(control_text_.data(), receives_.front()->into, control_filled_bytes_);
    }
    if (control_filled_bytes_ == control_text_.size()) on_control();
    return;
  }
  if (draining_) {
    left_to_drop_bytes_ = header_.payload_bytes;
    return drop(0);
  }
  if (receives_.empty()) return;
  match_header();
  if (header_matched_ && (payload_bytes > 0 || header_.payload_bytes == 0)) {
    on_payload(payload_bytes);
  }
}

void Connection::drop(std::size_t bytes) {
  left_to_drop_bytes_ -= bytes;
  if (left_to_drop_bytes_ == 0) header_checked_ = false;
}

void Connection::match_header() {
  const Status matched =
      match_frame(header_, receives_.front()->expected, ends_.peer_rank, ends_.local_rank);
  header_matched_ = matched.is_ok();
  if (matched.is_ok()) return;
  read_closed_ = true;
  fail(matched, true);
}

void Connection::on_payload(std::size_t bytes) {
  ReceiveOperation* operation = receives_.front();
  const bool checked = (header_.flags & kPayloadCrcFlag) != 0;
  if (checked)
    operation->crc = crc32c(operation->into + operation->received_bytes, bytes, operation->crc);
  operation->received_bytes += bytes;
  if (operation->received_bytes < operation->expected.length.bytes) return;
  header_checked_ = false;
  header_matched_ = false;
  if (checked && operation->crc != header_.payload_crc) {
    read_closed_ = true;
    return fail(Status(Code::kCorrupt, "a frame from " + end_name(ends_.peer_rank) + " to " +
                                           end_name(ends_.local_rank) + " fails its CRC32C, in " +
                                           describe(operation->expected.label.call)),
                true);
  }
  operation->done = true;
  receives_.pop_front();
}

void Connection::on_control() {
  read_closed_ = true;
  if (header_.kind == FrameKind::kGoodbye) {
    const char* did = ends_.peer_rank == kOtherSide ? " closed the link" : " left the communicator";
    return fail(Status(Code::kPeerLost, end_name(ends_.peer_rank) + did), busy());
  }
  const Status reason = abort_reason(header_, std::as_bytes(std::span(control_text_)));
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
