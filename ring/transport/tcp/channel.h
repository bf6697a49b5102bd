// The ends of a connection as the mesh sees them: frames are dealt to the sockets in turn, frame i
// to socket i mod S. Both sides count, so each socket alone keeps its order.
#ifndef RING_TRANSPORT_TCP_CHANNEL_H_
#define RING_TRANSPORT_TCP_CHANNEL_H_

#include <memory>
#include <vector>

#include "ring/transport/common/connection.h"

namespace ringpress::ring::transport::tcp {

using Connections = std::vector<std::unique_ptr<Connection>>;

class TcpSendChannel final : public SendChannel {
 public:
  explicit TcpSendChannel(Connections connections) : connections_(std::move(connections)) {}
  Result<Request*> isend(ConstBuffer payload, const FrameLabel& label) override;
  Result<Completion> test(Request* request) override;
  void release(Request* request) override;
  void close(const Status& reason) override;
  bool flushed() const override;
  Status ending() const override;

 private:
  Connections connections_;
  std::size_t next_ = 0;
  Pool<SendOperation> operations_;
};

class TcpRecvChannel final : public RecvChannel {
 public:
  explicit TcpRecvChannel(Connections connections) : connections_(std::move(connections)) {}
  using RecvChannel::irecv;
  Result<Request*> irecv(std::byte* into, FrameLength length, const FrameLabel& label) override;
  Result<Request*> irecv_view(FrameLength length, const FrameLabel& label) override;
  Result<Completion> test(Request* request) override;
  void release(Request* request) override;
  void close(const Status& reason) override;
  void drain() override;
  bool flushed() const override;

 private:
  Result<Request*> start(ReceiveOperation* operation, FrameLength length, const FrameLabel& label);
  void give_back(ReceiveOperation* operation);

  Connections connections_;
  std::size_t next_ = 0;
  Pool<ReceiveOperation> operations_;
  ViewPool views_;
};

}  // namespace ringpress::ring::transport::tcp

#endif  // RING_TRANSPORT_TCP_CHANNEL_H_
