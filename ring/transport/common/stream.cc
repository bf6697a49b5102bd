#include "ring/transport/common/stream.h"

namespace ringpress::ring::transport {

Stream::Stream(Fd socket, const std::optional<SessionKeys>& keys) : socket_(std::move(socket)) {
  if (keys) records_ = std::make_unique<Records>(*keys);
}

Transferred Stream::send(std::span<iovec> pieces, Count& wire_bytes) {
  if (!is_encrypted()) {
    const msghdr message = message_of(pieces.data(), pieces.size());
    const Transferred sent =
        move_bytes([&] { return ::sendmsg(socket_.get(), &message, kSendFlags); });
    wire_bytes += sent.bytes;
    return sent;
  }
  OutgoingRecords& records = records_->outgoing;
  if (records.is_empty()) records.seal(pieces);
  Transferred sent;
  do {
    sent = records.send(socket_.get());
    wire_bytes += sent.bytes;
  } while (sent.bytes > 0 && !records.is_empty());
  sent.bytes = records.is_empty() ? records.plain_bytes() : 0;
  return sent;
}

std::size_t Stream::begun_bytes() const {
  if (!is_encrypted() || records_->outgoing.is_empty()) return 0;
  return records_->outgoing.plain_bytes();
}

Result<Transferred> Stream::receive(std::span<iovec> pieces, Count& wire_bytes) {
  if (!is_encrypted()) {
    msghdr message = message_of(pieces.data(), pieces.size());
    const Transferred got =
        move_bytes([&] { return ::recvmsg(socket_.get(), &message, kReceiveFlags); });
    wire_bytes += got.bytes;
    return got;
  }
  std::uint64_t read_bytes = 0;
  Result<Transferred> read = records_->incoming.read(socket_.get(), read_bytes);
  wire_bytes += read_bytes;
  if (!read.is_ok() || read.value().bytes == 0) return read;
  Transferred got;
  got.bytes = records_->incoming.take(pieces);
  return got;
}

}  // namespace ringpress::ring::transport
