#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "ring/transport/shm/channel.h"
#include "ring/transport/shm/factory.h"

namespace ringpress::ring::transport::shm {

PostedFrames::PostedFrames(const Link& link, std::uint32_t local_rank)
    : peer_(link.peer),
      process_(link.process),
      reads_process_(link.reads_process),
      frames_(peer_->segment->queue(local_rank)),
      bounce_(peer_->segment->bounce(local_rank)) {
  peer_->segment->populate(local_rank);
}

bool PostedFrames::peek(HeaderBytes* header) {
  if (frames_.posted.load() <= taken_) return false;
  const Slot& slot = slot_of(taken_ + 1);
  std::memcpy(header->data(), &slot.header, header->size());
  location_ = slot.location;
  where_ = slot.where;
  return true;
}

std::size_t PostedFrames::copy_bounced(std::byte* into, std::size_t bytes) {
  const auto ready = static_cast<std::size_t>(frames_.produced.load() - consumed_);
  const auto start = static_cast<std::size_t>(consumed_ % kBounceBytes);
  const std::size_t copied = std::min({ready, bytes, kBounceBytes - start});
  if (copied == 0) return 0;
  std::memcpy(into, bounce_ + start, copied);
  consumed_ += copied;
  frames_.consumed.store(consumed_);
  if (frames_.sender_waits.load() != 0) peer_->ring();
  return copied;
}

ssize_t PostedFrames::read_process(std::byte* into, std::size_t offset, std::size_t bytes) const {
  const iovec here{into, bytes};
  const iovec there{reinterpret_cast<void*>(where_ + offset), bytes};
  return reads_process_ ? process_vm_readv(process_, &here, 1, &there, 1, 0) : -1;
}

void PostedFrames::give_back(std::uint64_t frame, bool sender_waits_for_it) {
  slot_of(frame).released.store(frame);
  if (sender_waits_for_it || frames_.sender_waits.load() != 0) peer_->ring();
}

ShmRecvChannel::ShmRecvChannel(const ChannelHome& home, Link link, Ends ends)
    : home_(home),
      ends_(ends),
      frames_(link, ends.local_rank),
      control_(home.reactor, home.events, Stream(std::move(link.control)), ends) {
  home_.pumped.push_back(this);
}

ShmRecvChannel::~ShmRecvChannel() {
  std::erase(home_.pumped, static_cast<Pumped*>(this));
}

Result<Request*> ShmRecvChannel::irecv(std::byte* into, FrameLength length,
                                       const FrameLabel& label) {
  ShmReceive* receive = receives_.take();
  receive->into = into;
  return start(receive, length, label);
}

Result<Request*> ShmRecvChannel::irecv_view(FrameLength length, const FrameLabel& label) {
  ShmReceive* receive = receives_.take();
  receive->into = nullptr;
  return start(receive, length, label);
}

Result<Request*> ShmRecvChannel::start(ShmReceive* receive, FrameLength length,
                                       const FrameLabel& label) {
  if (!failure_.is_ok()) {
    receives_.give(receive);
    return failure_;
  }
  receive->expected = {label, length};
  receive->received_bytes = 0;
  receive->frame = 0;
  receive->view = ConstBuffer();
  receive->matched = false;
  receive->done = false;
  // Taken now, so that the number in use does not depend on when frames come.
  const bool is_copied = length.bytes > 0 && length.bytes <= kEagerBytes;
  if (receive->into == nullptr && is_copied) receive->memory = views_.take(length.bytes);
  queue_.push_back(receive);
  pump();
  return static_cast<Request*>(receive);
}

void ShmRecvChannel::fail(const Status& reason) {
  if (failure_.is_ok()) failure_ = reason;
  home_.events.report(failure_);
}

/// False while the next frame is not there, or when it is not what was expected.
bool ShmRecvChannel::match(ShmReceive& receive) {
  HeaderBytes bytes;
  if (!frames_.peek(&bytes)) return false;
  FrameHeader header;
  Status status = parse_header(bytes, header);
  if (status.is_ok() && header.kind != FrameKind::kData) {
    status = Status(Code::kCorrupt, "a control frame in shared memory");
  }
  if (!status.is_ok()) {
    fail(Status(Code::kCorrupt, status.message() + ", from " + end_name(ends_.peer_rank) + " to " +
                                    end_name(ends_.local_rank)));
    return false;
  }
  status = match_frame(header, receive.expected, ends_.peer_rank, ends_.local_rank);
  if (!status.is_ok()) fail(status);
  receive.matched = status.is_ok();
  if (receive.matched) home_.events.counters.received_bytes += kHeaderBytes;
  return receive.matched;
}

std::byte* ShmRecvChannel::target(ShmReceive& receive) {
  if (receive.into != nullptr || receive.expected.length.bytes == 0) return receive.into;
  const std::size_t bytes = receive.expected.length.bytes;
  if (receive.memory == nullptr) receive.memory = views_.take(bytes);
  receive.view = ConstBuffer(receive.memory->data(), bytes);
  return receive.memory->data();
}

bool ShmRecvChannel::take_bounced(ShmReceive& receive) {
  std::byte* into = target(receive);
  while (receive.received_bytes < receive.expected.length.bytes) {
    const std::size_t left = receive.expected.length.bytes - receive.received_bytes;
    const std::size_t bytes = frames_.copy_bounced(into + receive.received_bytes, left);
    if (bytes == 0) return false;
    receive.received_bytes += bytes;
    home_.events.counters.received_bytes += bytes;
  }
  frames_.give_back(finish(receive), false);
  return true;
}

bool ShmRecvChannel::take_staged(ShmReceive& receive) {
  const std::size_t bytes = receive.expected.length.bytes;
  const std::byte* payload = frames_.staged(bytes);
  if (payload == nullptr) {
    fail(
        Status(Code::kCorrupt, end_name(ends_.peer_rank) + " named memory that it does not share"));
    return false;
  }
  home_.events.counters.received_bytes += bytes;
  if (receive.into == nullptr) {
    receive.view = ConstBuffer(payload, bytes);
    receive.frame = finish(receive);
    return true;
  }
  std::memcpy(receive.into, payload, bytes);
  frames_.give_back(finish(receive), true);
  return true;
}

bool ShmRecvChannel::take_from_process(ShmReceive& receive) {
  std::byte* into = target(receive);
  while (receive.received_bytes < receive.expected.length.bytes) {
    const ssize_t got =
        frames_.read_process(into + receive.received_bytes, receive.received_bytes,
                             receive.expected.length.bytes - receive.received_bytes);
    if (got <= 0) {
      // The sender is about to go; its control connection will say why.
      control_.read();
      return false;
    }
    receive.received_bytes += static_cast<std::size_t>(got);
    home_.events.counters.received_bytes += static_cast<std::uint64_t>(got);
  }
  // A sender that failed may have reused the memory while it was read.
  if (frames_.is_withdrawn()) {
    control_.read();
    return false;
  }
  frames_.give_back(finish(receive), true);
  return true;
}

bool ShmRecvChannel::take_payload(ShmReceive& receive) {
  switch (frames_.location()) {
    case PayloadLocation::kBounce:
      return take_bounced(receive);
    case PayloadLocation::kStaging:
      return take_staged(receive);
    case PayloadLocation::kProcess:
      return take_from_process(receive);
  }
  fail(Status(Code::kCorrupt, end_name(ends_.peer_rank) + " sent an unknown kind of frame"));
  return false;
}

/// Gives the number of its frame.
std::uint64_t ShmRecvChannel::finish(ShmReceive& receive) {
  if (receive.into != nullptr) {
    receive.view = ConstBuffer(receive.into, receive.expected.length.bytes);
  }
  receive.done = true;
  queue_.pop_front();
  return frames_.take();
}

void ShmRecvChannel::pump() {
  while (failure_.is_ok() && !queue_.empty()) {
    ShmReceive& front = *queue_.front();
    if (!front.matched && !match(front)) break;
    if (!take_payload(front)) break;
  }
  // What the peer posted before it went is still good; only what never came fails.
  if (!queue_.empty() && failure_.is_ok() && !control_.failure().is_ok()) fail(control_.failure());
}

Result<Completion> ShmRecvChannel::test(Request* request) {
  auto* receive = static_cast<ShmReceive*>(request);
  if (!receive->done) pump();
  if (receive->done) return Completion{true, receive->view};
  if (!failure_.is_ok()) return failure_;
  return Completion{};
}

void ShmRecvChannel::release(Request* request) {
  auto* receive = static_cast<ShmReceive*>(request);
  if (!receive->done) return;
  if (receive->frame != 0) frames_.give_back(receive->frame, true);
  if (receive->memory != nullptr) views_.give(receive->memory);
  receive->memory = nullptr;
  receives_.give(receive);
}

void ShmRecvChannel::close(const Status& reason) {
  if (!reason.is_ok()) queue_.clear();
  control_.close(reason);
}

/// The reason of a failure does not queue behind frames here: it has a connection of its own.
void ShmRecvChannel::drain() {
  queue_.clear();
  control_.drain();
}

bool ShmRecvChannel::flushed() const {
  return control_.flushed();
}

}  // namespace ringpress::ring::transport::shm
