// One rank at a rendezvous.
#ifndef RING_BOOTSTRAP_MEMBER_H_
#define RING_BOOTSTRAP_MEMBER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "ring/transport/common/reactor.h"
#include "ring/transport/common/socket.h"

namespace ringpress::ring::bootstrap {

/// The connection of one that has shown that it knows the secret: reads its join message, later
/// writes the answer.
class Member final : public transport::EventHandler {
 public:
  /// `rank` is what it has called itself.
  Member(transport::Reactor& reactor, transport::Fd socket, std::uint32_t rank);
  ~Member() override;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void on_events(std::uint32_t events) override;
  void answer(const std::string& bytes);
  /// The complete message, once.
  bool take_message(std::string& body);

  std::uint32_t rank() const { return rank_; }
  bool answered() const { return answered_; }
  /// It ended, or broke off, and had no answer.
  bool left_early() const { return gone_ && !answered_; }
  bool finished() const { return gone_ || (answered_ && sent_ == outgoing_.size()); }

 private:
  void read();
  void notice_end();
  void write();

  transport::Reactor& reactor_;
  transport::Fd socket_;
  const std::uint32_t rank_;
  std::string incoming_;
  std::string outgoing_;
  std::size_t sent_ = 0;
  bool complete_ = false;
  bool taken_ = false;
  bool answered_ = false;
  bool gone_ = false;
};

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_MEMBER_H_
