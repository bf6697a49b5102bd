// The two ends of a queue of frames. Payloads travel in one of three ways (PayloadLocation):
//   small ones are copied into the bounce ring at once, so that the sender need not wait;
//   those in staging memory are read where they are;
//   others are read by the receiver from the sender's process, or, where the kernel forbids that,
//   pass through the bounce ring piece by piece.
// Payloads carry no CRC32C here: both ranks read the same memory, there is no wire. Headers do.
#ifndef RING_TRANSPORT_SHM_CHANNEL_H_
#define RING_TRANSPORT_SHM_CHANNEL_H_

#include <sys/types.h>

#include <array>
#include <memory>
#include <vector>

#include "ring/transport/common/connection.h"
#include "ring/transport/common/operation.h"
#include "ring/transport/common/queue.h"
#include "ring/transport/shm/link.h"

namespace ringpress::ring::transport::shm {

struct ShmSend final : Request {
  FrameHeader header;
  ConstBuffer payload;
  std::uint64_t frame = 0;       // Number from 1, once posted.
  std::size_t copied_bytes = 0;  // Into the bounce ring.
  PayloadLocation location = PayloadLocation::kBounce;
  bool done = false;
};

struct ShmReceive final : Request {
  ExpectedFrame expected;
  std::byte* into = nullptr;  // Null: a view was asked for.
  std::size_t received_bytes = 0;
  std::uint64_t frame = 0;  // To be released with the view, or 0.
  ConstBuffer view;
  bool matched = false;
  bool done = false;
  ViewMemory* memory = nullptr;  // Of the channel, for a view that is not the sender's memory.
};

/// Called by the transport whenever something may have happened.
class Pumped {
 public:
  virtual ~Pumped() = default;
  virtual void pump() = 0;
};

/// The channels that a transport pumps. A channel takes itself out when it goes.
using PumpList = std::vector<Pumped*>;

/// What a channel needs of its transport, which outlives it.
struct ChannelHome {
  Reactor& reactor;
  Events& events;
  PumpList& pumped;
  Segment& own;
};

class ShmSendChannel final : public SendChannel, private Pumped {
 public:
  ShmSendChannel(const ChannelHome& home, Link link, Ends ends);
  ~ShmSendChannel() override;
  Result<Request*> isend(ConstBuffer payload, const FrameLabel& label) override;
  Result<Completion> test(Request* request) override;
  void release(Request* request) override;
  void close(const Status& reason) override;
  bool flushed() const override;
  Status ending() const override { return control_.failure(); }

 private:
  void pump() override;
  bool post(ShmSend& send);
  bool copy(ShmSend& send);
  bool slot_free() const;
  void reap();
  PayloadLocation choose_location(const ShmSend& send) const;
  void fail_if_peer_is_gone();

  ChannelHome home_;
  Link link_;
  FrameQueue& frames_;
  std::byte* bounce_;
  Connection control_;
  std::uint64_t posted_ = 0;
  std::uint64_t produced_ = 0;
  Queue<ShmSend*> queue_;     // Not yet posted, or not yet copied; in order.
  Queue<ShmSend*> in_place_;  // Posted, read by the peer where they are.
  Pool<ShmSend> sends_;
};

/// The receiver's end of a queue of frames that a peer posts.
class PostedFrames {
 public:
  PostedFrames(const Link& link, std::uint32_t local_rank);

  /// Copies the next frame's header, so that it stays as it is. False: there is none.
  bool peek(HeaderBytes* header);
  /// Of the frame that was looked at.
  PayloadLocation location() const { return location_; }
  /// What there is of a payload in the bounce ring, `bytes` at most: gives its length.
  std::size_t copy_bounced(std::byte* into, std::size_t bytes);
  /// A payload in staging memory; null: it is not there.
  const std::byte* staged(std::size_t bytes) const { return peer_->segment->at(where_, bytes); }
  /// Some of a payload from `offset` on, out of the sender's process. 0 or less: it cannot be read.
  ssize_t read_process(std::byte* into, std::size_t offset, std::size_t bytes) const;
  /// The sender has failed: its memory may have changed.
  bool is_withdrawn() const { return frames_.withdrawn.load() != 0; }
  /// It has been received: gives its number, from 1.
  std::uint64_t take() { return ++taken_; }
  /// It may be overwritten.
  void give_back(std::uint64_t frame, bool sender_waits_for_it);

 private:
  Slot& slot_of(std::uint64_t frame) const { return frames_.slots[(frame - 1) % kSlots]; }

  const std::shared_ptr<PeerMemory> peer_;
  const int process_;
  const bool reads_process_;
  FrameQueue& frames_;
  const std::byte* const bounce_;
  std::uint64_t taken_ = 0;
  std::uint64_t consumed_ = 0;  // Bytes of the bounce ring.
  PayloadLocation location_ = PayloadLocation::kBounce;
  std::uint64_t where_ = 0;
};

class ShmRecvChannel final : public RecvChannel, private Pumped {
 public:
  ShmRecvChannel(const ChannelHome& home, Link link, Ends ends);
  ~ShmRecvChannel() override;
  using RecvChannel::irecv;
  Result<Request*> irecv(std::byte* into, FrameLength length, const FrameLabel& label) override;
  Result<Request*> irecv_view(FrameLength length, const FrameLabel& label) override;
  Result<Completion> test(Request* request) override;
  void release(Request* request) override;
  void close(const Status& reason) override;
  void drain() override;
  bool flushed() const override;

 private:
  Result<Request*> start(ShmReceive* receive, FrameLength length, const FrameLabel& label);
  void pump() override;
  bool match(ShmReceive& receive);
  bool take_payload(ShmReceive& receive);
  bool take_bounced(ShmReceive& receive);
  bool take_staged(ShmReceive& receive);
  bool take_from_process(ShmReceive& receive);
  std::byte* target(ShmReceive& receive);
  std::uint64_t finish(ShmReceive& receive);
  void fail(const Status& reason);

  ChannelHome home_;
  Ends ends_;
  PostedFrames frames_;
  Connection control_;
  Status failure_;
  Queue<ShmReceive*> queue_;
  Pool<ShmReceive> receives_;
  ViewPool views_;
};

}  // namespace ringpress::ring::transport::shm

#endif  // RING_TRANSPORT_SHM_CHANNEL_H_
