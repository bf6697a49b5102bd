// The two ends of a link over TCP: channels without a transport, each with a reactor of its own, so
// that links share nothing.
//
// How a link opens: the connector makes all sockets of it at once, each with the hellos of wire.h;
// when the listener has them all, it says so with one byte on each. Only then does the connector
// have a link: it knows that the other side was still there.
#ifndef RING_TRANSPORT_TCP_LINK_H_
#define RING_TRANSPORT_TCP_LINK_H_

#include <sys/types.h>

#include <memory>
#include <vector>

#include "ring/transport/tcp/channel.h"
#include "ringpress/internal/link.h"

namespace ringpress::ring::transport::tcp {

/// What both ends have.
class LinkEnd {
 public:
  LinkEnd(std::unique_ptr<Reactor> reactor, std::vector<Stream> sockets);

 protected:
  /// A label that only the next message has.
  FrameLabel next_label();
  /// Begins what `post` asks of a channel. Null: too much is under way.
  Result<Request*> start(auto&& post);
  /// Tests a transfer of a channel, and says what the answer means for the link.
  Result<Completion> test_in(auto& channel, Request* request);
  /// Says goodbye, or that `under_way_` transfers are given up. A process that was forked from the
  /// one with the link says nothing: the link is its parent's.
  void part(auto& channel);

  const pid_t process_;
  std::unique_ptr<Reactor> reactor_;
  Events events_;
  Connections connections_;  // Taken over by the channel.
  std::size_t under_way_ = 0;
  std::uint64_t messages_ = 0;
  Status failure_;  // Why one of its transfers, over whichever socket, has failed.
};

class TcpSendLink final : public SendLink, private LinkEnd {
 public:
  TcpSendLink(std::unique_ptr<Reactor> reactor, std::vector<Stream> sockets);
  ~TcpSendLink() override;
  Result<Request*> isend(ConstBuffer payload) override;
  Result<Completion> test(Request* request) override;

 private:
  TcpSendChannel channel_;
};

class TcpReceiveLink final : public ReceiveLink, private LinkEnd {
 public:
  TcpReceiveLink(std::unique_ptr<Reactor> reactor, std::vector<Stream> sockets);
  ~TcpReceiveLink() override;
  Result<Request*> irecv(Buffer into) override;
  Result<Completion> test(Request* request) override;

 private:
  TcpRecvChannel channel_;
};

}  // namespace ringpress::ring::transport::tcp

#endif  // RING_TRANSPORT_TCP_LINK_H_
