// A transport moves frames between two ranks over one medium (TCP, shared memory, later verbs).
// Its shape is that of ncclNet: listen, connect, accept, isend, irecv, test. Connections
// are one-directional: the connector sends, the acceptor receives.
//
// Threads: one thread at a time may use the objects of one transport instance; wake() and
// counters() alone may be called from any thread at any time. No call blocks, except wait().
#ifndef RINGPRESS_INTERNAL_TRANSPORT_H_
#define RINGPRESS_INTERNAL_TRANSPORT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ringpress/internal/buffer.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/wire.h"

namespace ringpress {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

enum class TransportKind : std::uint8_t { kTcp, kSharedMemory };
inline constexpr std::size_t kTransportKinds =
    static_cast<std::size_t>(TransportKind::kSharedMemory) + 1;  // The last one.
inline const char* transport_name(TransportKind kind) {
  switch (kind) {
    case TransportKind::kTcp:
      return "tcp";
    case TransportKind::kSharedMemory:
      return "shm";
  }
  return "unknown transport";
}

/// Who this process is to its peers, and what both sides of a connection must share.
struct Identity {
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::uint64_t configuration_hash = 0;
  Secret secret{};
  bool is_encrypted = false;  // What goes over a network; equal on all ranks.
};

/// A transfer under way. Owned by the channel that made it, valid until release().
class Request {
 public:
  virtual ~Request() = default;
};

/// What test() reports.
struct Completion {
  bool done = false;
  ConstBuffer view;  // Receives only: the payload. Of irecv_view(): valid until release().
};

/// The sending end of a connection. Frames arrive in the order of the isend() calls.
class SendChannel {
 public:
  virtual ~SendChannel() = default;
  /// Starts sending `payload`, which must stay unchanged until test() says done. Never null.
  virtual Result<Request*> isend(ConstBuffer payload, const FrameLabel& label) = 0;
  virtual Result<Completion> test(Request* request) = 0;
  virtual void release(Request* request) = 0;
  /// Sends the reason of a failure or, when it is ok, a goodbye. A goodbye goes after all frames
  /// that were started; a failure only after the one that is half sent. Best effort, returns at
  /// once.
  virtual void close(const Status& reason) = 0;
  /// True when nothing is left to send, or nobody is left to send it to.
  virtual bool flushed() const = 0;
  /// Ok until frames can no longer be sent; then why, though none has failed.
  virtual Status ending() const = 0;
};

/// The receiving end. Frames match irecv() calls in order; a frame whose label or length is not
/// what its irecv expects fails the channel with kMismatch, a wrong CRC32C with kCorrupt.
class RecvChannel {
 public:
  virtual ~RecvChannel() = default;
  /// Receives a frame of such a length to `into`, which has room for length.bytes and belongs to
  /// the channel until test() says done.
  virtual Result<Request*> irecv(std::byte* into, FrameLength length, const FrameLabel& label) = 0;
  /// Receives a frame of exactly into.bytes.
  Result<Request*> irecv(Buffer into, const FrameLabel& label) {
    return irecv(into.data, FrameLength::exactly(into.bytes), label);
  }
  /// Receives a frame of such a length into memory of the transport's choice (shared memory gives
  /// the sender's own pages): Completion::view, of the length that came, until release().
  virtual Result<Request*> irecv_view(FrameLength length, const FrameLabel& label) = 0;
  virtual Result<Completion> test(Request* request) = 0;
  virtual void release(Request* request) = 0;
  /// As SendChannel::close(): the sender hears it too.
  virtual void close(const Status& reason) = 0;
  /// Gives up all receives and drops frames that come in, so that the reason of a failure that lies
  /// behind them is heard. For a communicator that has failed already.
  virtual void drain() = 0;
  virtual bool flushed() const = 0;
};

/// Bytes that have crossed the connections of a transport, payload and headers.
struct TransportCounters {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  bool operator==(const TransportCounters&) const = default;
};

/// One medium in one process, for one communicator.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual TransportKind kind() const = 0;
  /// Where peers connect to; opaque, at most 64 bytes, sent to them by the bootstrap.
  virtual Result<std::string> listen(const Identity& identity) = 0;
  /// Starts, or goes on with, connecting to the address that `peer` listens at. Null: call again.
  virtual Result<std::unique_ptr<SendChannel>> connect(std::uint32_t peer,
                                                       const std::string& address) = 0;
  /// An authenticated connection that a peer opened, or null. Strangers are dropped in silence.
  struct Accepted {
    std::uint32_t peer = 0;
    std::unique_ptr<RecvChannel> channel;
  };
  virtual Result<Accepted> accept() = 0;
  /// True while a handshake that somebody else began is under way, or has opened a part of a
  /// connection.
  virtual bool is_accepting() const = 0;
  /// The same without parts that wait for others.
  virtual bool is_shaking_hands() const = 0;
  /// Stops listening: who connects from now on is refused at once instead of waiting, and connect()
  /// takes a refusal for an answer instead of trying again.
  virtual void stop_listening() = 0;
  /// Memory that this transport sends from without a copy; page-aligned, lives as long as the
  /// transport. Null data: the transport has no preference.
  virtual Result<Buffer> allocate(std::size_t bytes) = 0;
  /// True if receivers read a payload of so many bytes where it lies, if that is allocate()d.
  virtual bool reads_in_place(std::size_t bytes) const = 0;
  /// Moves bytes without blocking. True if anything moved. An error is one that concerns the whole
  /// communicator: an abort frame, or a connection that broke under a transfer.
  virtual Result<bool> progress() = 0;
  /// True if the error of progress() is what a peer said, not what this rank saw.
  virtual bool was_told_why() const = 0;
  /// Sleeps until progress() may have something to do, wake() was called or `until` has come.
  virtual void wait(Deadline until) = 0;
  virtual void wake() = 0;
  virtual TransportCounters counters() const = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_TRANSPORT_H_
