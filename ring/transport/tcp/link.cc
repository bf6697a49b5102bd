#include "ring/transport/tcp/link.h"

#include <unistd.h>

#include <utility>

namespace ringpress::ring::transport::tcp {

LinkEnd::LinkEnd(std::unique_ptr<Reactor> reactor, std::vector<Stream> sockets)
    : process_(getpid()), reactor_(std::move(reactor)) {
  for (Stream& socket : sockets) {
    connections_.push_back(std::make_unique<Connection>(*reactor_, events_, std::move(socket),
                                                        Ends{kThisSide, kOtherSide}));
  }
}

FrameLabel LinkEnd::next_label() {
  FrameLabel label;
  label.call.sequence = messages_++;
  label.call.kind = CollectiveKind::kSendRecv;
  label.call.dtype = DType::kUint8;
  return label;
}

Result<Request*> LinkEnd::start(auto&& post) {
  RINGPRESS_RETURN_IF_ERROR(failure_);
  if (under_way_ == kMaxLinkRequests) return static_cast<Request*>(nullptr);
  RINGPRESS_ASSIGN_OR_RETURN(Request* const request, post());
  ++under_way_;
  return request;
}

Result<Completion> LinkEnd::test_in(auto& channel, Request* request) {
  Result<Completion> tested = channel.test(request);
  if (!tested.is_ok() || tested.value().done) {
    --under_way_;
    if (failure_.is_ok()) failure_ = tested.status();
  } else {
    // The other sockets move too, and what the other side has to say is heard.
    reactor_->dispatch();
  }
  if (tested.is_ok() && tested.value().done) channel.release(request);
  return tested;
}

void LinkEnd::part(auto& channel) {
  if (process_ != getpid()) return;
  channel.close(under_way_ == 0 ? Status::ok()
                                : Status(Code::kAborted, "the other side closed the link with " +
                                                             std::to_string(under_way_) +
                                                             " transfers under way"));
}

TcpSendLink::TcpSendLink(std::unique_ptr<Reactor> reactor, std::vector<Stream> sockets)
    : LinkEnd(std::move(reactor), std::move(sockets)), channel_(std::move(connections_)) {}

TcpSendLink::~TcpSendLink() {
  part(channel_);
}

Result<Request*> TcpSendLink::isend(ConstBuffer payload) {
  return start([&] { return channel_.isend(payload, next_label()); });
}

Result<Completion> TcpSendLink::test(Request* request) {
  return test_in(channel_, request);
}

TcpReceiveLink::TcpReceiveLink(std::unique_ptr<Reactor> reactor, std::vector<Stream> sockets)
    : LinkEnd(std::move(reactor), std::move(sockets)), channel_(std::move(connections_)) {}

TcpReceiveLink::~TcpReceiveLink() {
  part(channel_);
}

Result<Request*> TcpReceiveLink::irecv(Buffer into) {
  return start(
      [&] { return channel_.irecv(into.data, FrameLength::at_most(into.bytes), next_label()); });
}

Result<Completion> TcpReceiveLink::test(Request* request) {
  return test_in(channel_, request);
}

}  // namespace ringpress::ring::transport::tcp
