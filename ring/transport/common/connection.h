// One stream socket after its handshake. Data frames flow one way; abort and goodbye frames flow
// both ways. A frame that is received is checked (header CRC32C, label, length, payload CRC32C)
// before its operation is done.
#ifndef RING_TRANSPORT_COMMON_CONNECTION_H_
#define RING_TRANSPORT_COMMON_CONNECTION_H_

#include <atomic>
#include <string>
#include <vector>

#include "ring/transport/common/operation.h"
#include "ring/transport/common/queue.h"
#include "ring/transport/common/reactor.h"
#include "ring/transport/common/socket.h"

namespace ringpress::ring::transport {

class Connection;

struct SendOperation final : Request {
  FrameHeader header;
  ConstBuffer payload;
  std::size_t sent_bytes = 0;  // Of header and payload together.
  bool done = false;
  Connection* connection = nullptr;
};

struct ReceiveOperation final : Request {
  ExpectedFrame expected;
  std::byte* into = nullptr;       // expected.length.bytes long.
  std::size_t received_bytes = 0;  // Of the payload.
  std::uint32_t crc = 0;
  bool done = false;
  ViewMemory* memory = nullptr;  // That `into` points to, of its channel; null: the caller's.
  Connection* connection = nullptr;
};

/// A sum that one thread at a time adds to and any thread may read.
class Count {
 public:
  Count& operator+=(std::uint64_t more) {
    sum_.store(value() + more, std::memory_order_relaxed);
    return *this;
  }
  std::uint64_t value() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> sum_{0};
};

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

/// The two ends of a connection.
struct Ends {
  std::uint32_t local_rank = 0;
  std::uint32_t peer_rank = 0;
};

class Connection final : public EventHandler {
 public:
  Connection(Reactor& reactor, Events& events, Fd socket, Ends ends);
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
  bool flushed() const;
  /// Ok while frames can be exchanged.
  const Status& failure() const { return failure_; }

  void on_events(std::uint32_t events) override;

 private:
  std::size_t gather_sends(iovec* pieces, std::size_t limit) const;
  void account_sent(std::size_t bytes);
  void write_control();
  void on_write_error(int error);

  std::size_t gather_receive(iovec* pieces);
  void take_received(std::size_t bytes);
  void on_header(std::size_t payload_bytes);
  void match_header();
  void on_payload(std::size_t bytes);
  void on_control();
  void on_end_of_stream(int error);

  void fail(const Status& reason, bool everybody);
  bool busy() const { return !sends_.empty() || !receives_.empty(); }
  bool reading_control() const { return header_checked_ && header_.kind != FrameKind::kData; }
  bool dropping() const { return draining_ && header_checked_ && !reading_control(); }
  void drop(std::size_t bytes);

  Reactor& reactor_;
  Events& events_;
  Fd socket_;
  Ends ends_;
  Status failure_;
  bool hung_up_ = false;  // The end of the stream is near: read on until it comes.
  bool read_closed_ = false;
  bool write_closed_ = false;
  bool closing_ = false;  // close() was called.

  Queue<SendOperation*> sends_;
  std::string control_;  // A control frame to send after sends_.
  std::size_t control_sent_bytes_ = 0;

  Queue<ReceiveOperation*> receives_;
  HeaderBytes header_bytes_{};  // Of the frame that is coming in.
  std::size_t header_filled_bytes_ = 0;
  FrameHeader header_;
  bool header_checked_ = false;  // header_ is valid and its payload comes next.
  bool header_matched_ = false;  // header_ is what the first of receives_ expects.
  std::string control_text_;     // Payload of a control frame, as long as it will be.
  std::size_t control_filled_bytes_ = 0;

  bool draining_ = false;               // drain() was called.
  std::vector<std::byte> dropped_;      // Where dropped bytes are read to.
  std::size_t left_to_drop_bytes_ = 0;  // Of the payload that is coming in.
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_CONNECTION_H_
