#include "ring/transport/common/outgoing_frames.h"

#include <algorithm>

namespace ringpress::ring::transport {
namespace {

// Of one message. The receiver of a longer one starts late, and what it reads has left the cache.
constexpr std::size_t kMaxSendBytes = 256 * 1024;

}  // namespace

std::size_t OutgoingFrames::gather(iovec* pieces) const {
  if (sends_.empty()) {
    if (is_empty()) return 0;
    pieces[0] =
        piece_of(control_.data() + control_sent_bytes_, control_.size() - control_sent_bytes_);
    return 1;
  }
  std::size_t count = 0;
  std::size_t room = kMaxSendBytes;
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    if (count + 2 > kMaxPieces || room == 0) break;
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

void OutgoingFrames::keep_half_sent(std::size_t begun_bytes) {
  std::size_t kept = 0;
  std::size_t begun = begun_bytes;
  while (kept < sends_.size()) {
    const SendOperation* operation = sends_[kept];
    if (operation->sent_bytes == 0 && begun == 0) break;
    const std::size_t left = kHeaderBytes + operation->payload.bytes - operation->sent_bytes;
    begun -= std::min(left, begun);
    ++kept;
  }
  sends_.keep_first(kept);
}

void OutgoingFrames::account(std::size_t bytes) {
  if (sends_.empty()) {
    control_sent_bytes_ += bytes;
    return;
  }
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

}  // namespace ringpress::ring::transport
