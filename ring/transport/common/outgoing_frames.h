// The frames that a stream is to send: those of data in order, then one that ends it.
#ifndef RING_TRANSPORT_COMMON_OUTGOING_FRAMES_H_
#define RING_TRANSPORT_COMMON_OUTGOING_FRAMES_H_

#include <sys/uio.h>

#include <string>
#include <utility>

#include "ring/transport/common/frame.h"
#include "ring/transport/common/queue.h"
#include "ringpress/internal/transport.h"

namespace ringpress::ring::transport {

class Connection;

struct SendOperation final : Request {
  FrameHeader header;
  ConstBuffer payload;
  std::size_t sent_bytes = 0;  // Of header and payload together.
  bool done = false;
  Connection* connection = nullptr;
};

inline iovec piece_of(const void* data, std::size_t bytes) {
  return {const_cast<void*>(data), bytes};
}

class OutgoingFrames {
 public:
  static constexpr std::size_t kMaxPieces = 16;  // Of one message: eight small frames.

  void push(SendOperation* operation) { sends_.push_back(operation); }
  /// Of data.
  std::size_t size() const { return sends_.size(); }
  /// Drops what has not begun. `begun_bytes`: so many, after those that account() has heard of,
  /// will be sent whatever comes.
  void keep_half_sent(std::size_t begun_bytes = 0);
  /// What is sent after all data.
  void end_with(std::string frame) { control_ = std::move(frame); }
  bool is_empty() const { return sends_.empty() && control_sent_bytes_ == control_.size(); }

  /// What is to be sent next: fills some of `pieces`, kMaxPieces of them, and gives their number.
  std::size_t gather(iovec* pieces) const;
  /// So much of it has been sent.
  void account(std::size_t bytes);

 private:
  Queue<SendOperation*> sends_;
  std::string control_;  // A control frame.
  std::size_t control_sent_bytes_ = 0;
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_OUTGOING_FRAMES_H_
