#include <algorithm>
#include <cstring>

#include "ring/transport/shm/channel.h"
#include "ring/transport/shm/factory.h"

namespace ringpress::ring::transport::shm {
namespace {

// The peer copies out one piece while the next is copied in.
constexpr std::size_t kPieceBytes = 64 * 1024;

}  // namespace

ShmSendChannel::ShmSendChannel(const ChannelHome& home, Link link, Ends ends)
    : home_(home),
      link_(std::move(link)),
      frames_(home.own.queue(ends.peer_rank)),
      bounce_(home.own.bounce(ends.peer_rank)),
      control_(home.reactor, home.events, Stream(std::move(link_.control)), ends) {
  home_.own.populate(ends.peer_rank);
  home_.pumped.push_back(this);
}

ShmSendChannel::~ShmSendChannel() {
  std::erase(home_.pumped, static_cast<Pumped*>(this));
}

PayloadLocation ShmSendChannel::choose_location(const ShmSend& send) const {
  if (send.payload.bytes <= kEagerBytes) return PayloadLocation::kBounce;
  if (home_.own.offset_of(send.payload) != 0) return PayloadLocation::kStaging;
  return link_.reads_process ? PayloadLocation::kProcess : PayloadLocation::kBounce;
}

Result<Request*> ShmSendChannel::isend(ConstBuffer payload, const FrameLabel& label) {
  if (!control_.failure().is_ok()) return control_.failure();
  ShmSend* send = sends_.take();
  send->header = data_header(label, payload.bytes);
  send->payload = payload;
  send->frame = 0;
  send->copied_bytes = 0;
  send->done = false;
  send->location = choose_location(*send);
  queue_.push_back(send);
  pump();
  return static_cast<Request*>(send);
}

bool ShmSendChannel::slot_free() const {
  if (posted_ < kSlots) return true;
  return frames_.slots[posted_ % kSlots].released.load() == posted_ - kSlots + 1;
}

/// False when the peer has not given back enough slots.
bool ShmSendChannel::post(ShmSend& send) {
  if (!slot_free()) return false;
  Slot& slot = frames_.slots[posted_ % kSlots];
  slot.header = send.header;
  slot.location = send.location;
  slot.where = 0;
  if (send.location == PayloadLocation::kStaging) slot.where = home_.own.offset_of(send.payload);
  if (send.location == PayloadLocation::kProcess) {
    slot.where = reinterpret_cast<std::uint64_t>(send.payload.data);
  }
  send.frame = ++posted_;
  if (send.location == PayloadLocation::kBounce) {
    // A payload that fits is there before the peer sees the frame: one wake-up, not two.
    copy(send);
  } else {
    in_place_.push_back(&send);
  }
  frames_.posted.store(posted_);
  home_.events.counters.sent_bytes += kHeaderBytes;
  return true;
}

/// Copies what there is room for, at most one piece. False when there was none.
bool ShmSendChannel::copy(ShmSend& send) {
  const std::size_t left = send.payload.bytes - send.copied_bytes;
  const std::size_t room =
      kBounceBytes - static_cast<std::size_t>(produced_ - frames_.consumed.load());
  const std::size_t start = static_cast<std::size_t>(produced_ % kBounceBytes);
  const std::size_t bytes = std::min({left, room, kBounceBytes - start, kPieceBytes});
  if (bytes > 0) std::memcpy(bounce_ + start, send.payload.data + send.copied_bytes, bytes);
  produced_ += bytes;
  send.copied_bytes += bytes;
  home_.events.counters.sent_bytes += bytes;
  frames_.produced.store(produced_);
  send.done = send.copied_bytes == send.payload.bytes;
  return bytes > 0 || send.done;
}

void ShmSendChannel::reap() {
  // Receivers may give views back in any order; operations still end in order of their frames.
  while (!in_place_.empty()) {
    ShmSend* first = in_place_.front();
    if (frames_.slots[(first->frame - 1) % kSlots].released.load() < first->frame) return;
    first->done = true;
    home_.events.counters.sent_bytes += first->payload.bytes;
    in_place_.pop_front();
  }
}

void ShmSendChannel::pump() {
  reap();
  bool announced = false;
  while (!queue_.empty()) {
    ShmSend& send = *queue_.front();
    const bool moved = send.frame == 0 ? post(send) : copy(send);
    if (!moved) {
      if (announced) break;
      // Announce, then look again: the peer may have made room in between.
      frames_.sender_waits.store(1);
      announced = true;
      continue;
    }
    link_.peer->ring();
    if (send.done || send.location != PayloadLocation::kBounce) queue_.pop_front();
  }
  if (announced && queue_.empty()) frames_.sender_waits.store(0);
  fail_if_peer_is_gone();
}

void ShmSendChannel::fail_if_peer_is_gone() {
  const bool busy = !queue_.empty() || !in_place_.empty();
  if (busy && !control_.failure().is_ok()) home_.events.report(control_.failure());
}

Result<Completion> ShmSendChannel::test(Request* request) {
  auto* send = static_cast<ShmSend*>(request);
  if (!send->done) pump();
  if (send->done) return Completion{true, {}};
  if (!control_.failure().is_ok()) return control_.failure();
  return Completion{};
}

void ShmSendChannel::release(Request* request) {
  auto* send = static_cast<ShmSend*>(request);
  if (send->done) sends_.give(send);
}

void ShmSendChannel::close(const Status& reason) {
  if (!reason.is_ok()) {
    frames_.withdrawn.store(1);
    queue_.clear();
    in_place_.clear();
  }
  control_.close(reason);
}

bool ShmSendChannel::flushed() const {
  if (!control_.failure().is_ok()) return true;
  return control_.flushed() && queue_.empty() && in_place_.empty();
}

}  // namespace ringpress::ring::transport::shm
