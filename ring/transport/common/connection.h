// One stream socket after its handshake. Data frames flow one way; abort and goodbye frames flow
// both ways.
#ifndef RING_TRANSPORT_COMMON_CONNECTION_H_
#define RING_TRANSPORT_COMMON_CONNECTION_H_

#include "ring/transport/common/incoming_frames.h"
#include "ring/transport/common/outgoing_frames.h"
#include "ring/transport/common/reactor.h"
#include "ring/transport/common/stream.h"

namespace ringpress::ring::transport {

/// What TransportCounters are copied from.
struct Counts {
  Count sent_bytes;
  Count received_bytes;

  TransportCounters now() const { return {sent_bytes.value(), received_bytes.value()}; }
};

/// What connections tell their transport.
struct Events {
  Counts counters;
  Status failure;             // What ends the whole communicator.
  bool was_told = false;      // A peer said why; it has asked the others (mesh_connections.h).
  std::uint64_t endings = 0;  // Connections that can no longer exchange frames.

  /// The first failure counts; but a lost peer is a symptom, which any other reason explains.
  void report(const Status& reason) {
    const bool explains = is_symptom() && reason.code() != Code::kPeerLost;
    if (failure.is_ok() || explains) failure = reason;
  }
  /// A reason that a peer gave.
  void take_from_peer(const Status& reason) {
    if (!failure.is_ok() && !is_symptom()) return;
    failure = reason;
    was_told = true;
  }
  bool is_symptom() const { return failure.code() == Code::kPeerLost && !was_told; }
};

class Connection final : public EventHandler {
 public:
  Connection(Reactor& reactor, Events& events, Stream stream, Ends ends);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Queues an operation and moves what can be moved at once. The operation must stay until done.
  void send(SendOperation* operation);
  void receive(ReceiveOperation* operation);
  /// Moves what can be moved.
  void write();
  void read();
  void close(const Status& reason);
  /// As RecvChannel::drain().
  void drain();
  bool flushed() const { return write_closed_ || outgoing_.is_empty(); }
  /// What comes is known to be what was sent, without a checksum of its own.
  bool is_encrypted() const { return stream_.is_encrypted(); }
  /// Ok while frames can be exchanged.
  const Status& failure() const { return failure_; }

  void on_events(std::uint32_t events) override;

 private:
  void on_incoming(const Status& taken);
  void on_end_of_stream(int error);
  void fail(const Status& reason, bool everybody);
  bool busy() const { return outgoing_.size() > 0 || incoming_.is_expecting(); }

  Reactor& reactor_;
  Events& events_;
  Stream stream_;
  Ends ends_;
  Status failure_;
  bool hung_up_ = false;  // The end of the stream is near: read on until it comes.
  bool read_closed_ = false;
  bool write_closed_ = false;
  bool closing_ = false;  // close() was called.
  OutgoingFrames outgoing_;
  IncomingFrames incoming_{ends_};
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_CONNECTION_H_
