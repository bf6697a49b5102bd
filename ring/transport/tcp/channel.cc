#include "ring/transport/tcp/channel.h"

#include <algorithm>

namespace ringpress::ring::transport::tcp {
namespace {

bool all_flushed(const Connections& connections) {
  return std::all_of(connections.begin(), connections.end(),
                     [](const auto& connection) { return connection->flushed(); });
}

}  // namespace

Result<Request*> TcpSendChannel::isend(ConstBuffer payload, const FrameLabel& label) {
  Connection* connection = connections_[next_].get();
  if (!connection->failure().is_ok()) return connection->failure();
  next_ = next_ + 1 == connections_.size() ? 0 : next_ + 1;
  SendOperation* operation = operations_.take();
  operation->header = connection->is_encrypted()
                          ? data_header(label, payload.bytes)
                          : checked_data_header(label, {payload.data, payload.bytes});
  operation->payload = payload;
  operation->sent_bytes = 0;
  operation->done = false;
  operation->connection = connection;
  connection->send(operation);
  return static_cast<Request*>(operation);
}

Result<Completion> TcpSendChannel::test(Request* request) {
  auto* operation = static_cast<SendOperation*>(request);
  if (!operation->done) operation->connection->write();
  if (operation->done) return Completion{true, {}};
  if (!operation->connection->failure().is_ok()) return operation->connection->failure();
  return Completion{};
}

void TcpSendChannel::release(Request* request) {
  // An operation that is still queued stays with the connection until the channel goes.
  auto* operation = static_cast<SendOperation*>(request);
  if (operation->done) operations_.give(operation);
}

void TcpSendChannel::close(const Status& reason) {
  for (auto& connection : connections_) connection->close(reason);
}

bool TcpSendChannel::flushed() const {
  return all_flushed(connections_);
}

Status TcpSendChannel::ending() const {
  for (const auto& connection : connections_) RINGPRESS_RETURN_IF_ERROR(connection->failure());
  return Status::ok();
}

Result<Request*> TcpRecvChannel::irecv(std::byte* into, FrameLength length,
                                       const FrameLabel& label) {
  ReceiveOperation* operation = operations_.take();
  operation->into = into;
  return start(operation, length, label);
}

Result<Request*> TcpRecvChannel::irecv_view(FrameLength length, const FrameLabel& label) {
  ReceiveOperation* operation = operations_.take();
  operation->memory = views_.take(length.bytes);
  operation->into = operation->memory->data();
  return start(operation, length, label);
}

Result<Request*> TcpRecvChannel::start(ReceiveOperation* operation, FrameLength length,
                                       const FrameLabel& label) {
  Connection* connection = connections_[next_].get();
  if (!connection->failure().is_ok()) {
    give_back(operation);
    return connection->failure();
  }
  next_ = next_ + 1 == connections_.size() ? 0 : next_ + 1;
  operation->expected = {label, length};
  operation->received_bytes = 0;
  operation->crc = 0;
  operation->done = false;
  operation->connection = connection;
  connection->receive(operation);
  return static_cast<Request*>(operation);
}

Result<Completion> TcpRecvChannel::test(Request* request) {
  auto* operation = static_cast<ReceiveOperation*>(request);
  if (!operation->done) operation->connection->read();
  if (operation->done) {
    return Completion{true, ConstBuffer(operation->into, operation->expected.length.bytes)};
  }
  if (!operation->connection->failure().is_ok()) return operation->connection->failure();
  return Completion{};
}

void TcpRecvChannel::release(Request* request) {
  auto* operation = static_cast<ReceiveOperation*>(request);
  if (operation->done) give_back(operation);
}

void TcpRecvChannel::give_back(ReceiveOperation* operation) {
  if (operation->memory != nullptr) views_.give(operation->memory);
  operation->memory = nullptr;
  operations_.give(operation);
}

void TcpRecvChannel::close(const Status& reason) {
  for (auto& connection : connections_) connection->close(reason);
}

void TcpRecvChannel::drain() {
  for (auto& connection : connections_) connection->drain();
}

bool TcpRecvChannel::flushed() const {
  return all_flushed(connections_);
}

}  // namespace ringpress::ring::transport::tcp
