#include "ring/transport/common/incoming_frames.h"

#include <algorithm>
#include <cstring>

#include "ring/transport/common/crc32c.h"
#include "ring/transport/common/outgoing_frames.h"

namespace ringpress::ring::transport {
namespace {

constexpr std::size_t kDropBytes = 64 * 1024;

Status match(const FrameHeader& header, ReceiveOperation& operation, Ends ends) {
  return match_frame(header, operation.expected, ends.peer_rank, ends.local_rank);
}

}  // namespace

Status IncomingFrames::expect(ReceiveOperation* operation) {
  receives_.push_back(operation);
  if (!header_checked_ || receives_.size() != 1) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(match(header_, *receives_.front(), ends_));
  return header_.payload_bytes == 0 ? take_payload(0) : Status::ok();
}

void IncomingFrames::drain() {
  dropped_.resize(kDropBytes);
  if (is_dropping()) {
    const std::size_t received = receives_.empty() ? 0 : receives_.front()->received_bytes;
    left_to_drop_bytes_ = header_.payload_bytes - received;
    drop(0);
  }
  receives_.clear();
}

std::size_t IncomingFrames::gather(iovec* pieces) {
  if (is_reading_control()) {
    pieces[0] = piece_of(control_text_.data() + control_filled_bytes_,
                         control_text_.size() - control_filled_bytes_);
    return 1;
  }
  if (is_dropping()) {
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

Status IncomingFrames::take(std::size_t bytes) {
  if (is_reading_control()) {
    control_filled_bytes_ += bytes;
    return Status::ok();
  }
  if (is_dropping()) {
    drop(bytes);
    return Status::ok();
  }
  if (header_checked_) {
    const ReceiveOperation* front = receives_.front();
    const std::size_t left = front->expected.length.bytes - front->received_bytes;
    const std::size_t payload = std::min(left, bytes);
    RINGPRESS_RETURN_IF_ERROR(take_payload(payload));
    header_filled_bytes_ += bytes - payload;
    return header_filled_bytes_ == kHeaderBytes ? take_header(0) : Status::ok();
  }
  const std::size_t head = std::min(bytes, kHeaderBytes - header_filled_bytes_);
  header_filled_bytes_ += head;
  return header_filled_bytes_ == kHeaderBytes ? take_header(bytes - head) : Status::ok();
}

Status IncomingFrames::take_header(std::size_t payload_bytes) {
  header_filled_bytes_ = 0;
  const Status parsed = parse_header(header_bytes_, header_);
  if (!parsed.is_ok()) {
    return Status(Code::kCorrupt, parsed.message() + ", from " + end_name(ends_.peer_rank) +
                                      " to " + end_name(ends_.local_rank));
  }
  header_checked_ = true;
  if (header_.kind != FrameKind::kData) {
    control_text_.assign(header_.payload_bytes, '\0');
    // What was read along lies where the payload of the first operation was expected.
    control_filled_bytes_ = std::min(payload_bytes, control_text_.size());
    if (control_filled_bytes_ > 0) {
      std::memcpy(control_text_.data(), receives_.front()->into, control_filled_bytes_);
    }
    return Status::ok();
  }
  if (is_draining()) {
    left_to_drop_bytes_ = header_.payload_bytes;
    drop(0);
    return Status::ok();
  }
  if (receives_.empty()) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(match(header_, *receives_.front(), ends_));
  const bool has_payload = payload_bytes > 0 || header_.payload_bytes == 0;
  return has_payload ? take_payload(payload_bytes) : Status::ok();
}

void IncomingFrames::drop(std::size_t bytes) {
  left_to_drop_bytes_ -= bytes;
  if (left_to_drop_bytes_ == 0) header_checked_ = false;
}

Status IncomingFrames::take_payload(std::size_t bytes) {
  ReceiveOperation* operation = receives_.front();
  const bool checked = (header_.flags & kPayloadCrcFlag) != 0;
  if (checked) {
    operation->crc = crc32c(operation->into + operation->received_bytes, bytes, operation->crc);
  }
  operation->received_bytes += bytes;
  if (operation->received_bytes < operation->expected.length.bytes) return Status::ok();
  header_checked_ = false;
  if (checked && operation->crc != header_.payload_crc) {
    return Status(Code::kCorrupt, "a frame from " + end_name(ends_.peer_rank) + " to " +
                                      end_name(ends_.local_rank) + " fails its CRC32C, in " +
                                      describe(operation->expected.label.call));
  }
  operation->done = true;
  receives_.pop_front();
  return Status::ok();
}

}  // namespace ringpress::ring::transport
