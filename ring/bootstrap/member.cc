#include "ring/bootstrap/member.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "ring/bootstrap/message.h"

namespace ringpress::ring::bootstrap {

using transport::Transferred;

Member::Member(transport::Reactor& reactor, transport::Fd socket, std::uint32_t rank)
    : reactor_(reactor), socket_(std::move(socket)), rank_(rank) {
  if (!reactor_.add(socket_.get(), this).is_ok()) gone_ = true;
}

Member::~Member() {
  reactor_.remove(socket_.get(), this);
  // Closing is not enough: a process forked in between would keep the connection open.
  ::shutdown(socket_.get(), SHUT_WR);
}

void Member::on_events(std::uint32_t) {
  read();
  if (complete_) notice_end();
  write();
}

void Member::answer(const std::string& bytes) {
  if (answered_) return;
  answered_ = true;
  outgoing_ = bytes;
  write();
}

bool Member::take_message(std::string& body) {
  if (!complete_ || taken_) return false;
  taken_ = true;
  body = incoming_.substr(kPrefixBytes);
  return true;
}

void Member::read() {
  while (!gone_ && !complete_) {
    std::size_t wanted = kPrefixBytes;
    if (incoming_.size() >= kPrefixBytes) {
      const std::size_t length = unpack_prefix(incoming_).length;
      if (length > kMaxJoinBytes) gone_ = true;
      wanted = kPrefixBytes + length;
    }
    if (gone_) return;
    if (incoming_.size() == wanted && wanted > kPrefixBytes) {
      complete_ = true;
      return;
    }
    char buffer[4096];
    const std::size_t room = std::min(sizeof buffer, wanted - incoming_.size());
    const Transferred got = transport::receive_bytes(socket_.get(), buffer, room);
    if (got.closed || got.error != 0 || room == 0) gone_ = true;
    if (got.bytes == 0) return;
    incoming_.append(buffer, got.bytes);
  }
}

/// A rank that has said all it has to say closes its connection after the answer, or too early.
void Member::notice_end() {
  char byte = 0;
  const Transferred got = transport::receive_bytes(socket_.get(), &byte, 1);
  if (got.closed || got.error != 0) gone_ = true;
}

void Member::write() {
  while (!gone_ && sent_ < outgoing_.size()) {
    const Transferred sent =
        transport::send_bytes(socket_.get(), outgoing_.data() + sent_, outgoing_.size() - sent_);
    if (sent.error != 0) gone_ = true;
    if (sent.bytes == 0) return;
    sent_ += sent.bytes;
  }
}

}  // namespace ringpress::ring::bootstrap
