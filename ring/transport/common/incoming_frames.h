// The frames that come in a stream, each where the next receive wants it. A frame is checked
// (header CRC32C, label, length, payload CRC32C) before its operation is done.
#ifndef RING_TRANSPORT_COMMON_INCOMING_FRAMES_H_
#define RING_TRANSPORT_COMMON_INCOMING_FRAMES_H_

#include <sys/uio.h>

#include <string>
#include <vector>

#include "ring/transport/common/frame.h"
#include "ring/transport/common/operation.h"
#include "ring/transport/common/queue.h"

namespace ringpress::ring::transport {

class Connection;

struct ReceiveOperation final : Request {
  ExpectedFrame expected;
  std::byte* into = nullptr;       // expected.length.bytes long.
  std::size_t received_bytes = 0;  // Of the payload.
  std::uint32_t crc = 0;
  bool done = false;
  ViewMemory* memory = nullptr;  // That `into` points to, of its channel; null: the caller's.
  Connection* connection = nullptr;
};

/// After an error the stream is not to be read any further.
class IncomingFrames {
 public:
  explicit IncomingFrames(Ends ends) : ends_(ends) {}

  Status expect(ReceiveOperation* operation);
  bool is_expecting() const { return !receives_.empty(); }
  void expect_nothing() { receives_.clear(); }
  /// Whatever is expected, and data that comes from now on, is dropped.
  void drain();
  bool is_draining() const { return !dropped_.empty(); }

  /// Where the next bytes go: fills one or two pieces, and gives their number. 0: nobody expects
  /// them.
  std::size_t gather(iovec* pieces);
  /// So many have come there.
  Status take(std::size_t bytes);

  /// A control frame has come whole; it is the last one.
  bool has_control() const {
    return is_reading_control() && control_filled_bytes_ == control_text_.size();
  }
  bool is_goodbye() const { return header_.kind == FrameKind::kGoodbye; }
  /// Of an abort frame.
  Status reason() const { return abort_reason(header_, std::as_bytes(std::span(control_text_))); }

 private:
  bool is_reading_control() const { return header_checked_ && header_.kind != FrameKind::kData; }
  bool is_dropping() const { return is_draining() && header_checked_ && !is_reading_control(); }
  Status take_header(std::size_t payload_bytes);
  Status take_payload(std::size_t bytes);
  void drop(std::size_t bytes);

  const Ends ends_;
  Queue<ReceiveOperation*> receives_;
  HeaderBytes header_bytes_{};  // Of the frame that is coming in.
  std::size_t header_filled_bytes_ = 0;
  FrameHeader header_;
  bool header_checked_ = false;  // header_ is valid and its payload comes next.
  std::string control_text_;     // Payload of a control frame, as long as it will be.
  std::size_t control_filled_bytes_ = 0;
  std::vector<std::byte> dropped_;      // Where dropped bytes are read to.
  std::size_t left_to_drop_bytes_ = 0;  // Of the payload that is coming in.
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_INCOMING_FRAMES_H_
