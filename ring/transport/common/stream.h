// A connected socket as a stream of bytes, encrypted or not.
#ifndef RING_TRANSPORT_COMMON_STREAM_H_
#define RING_TRANSPORT_COMMON_STREAM_H_

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "ring/transport/common/records.h"
#include "ring/transport/common/socket.h"

namespace ringpress::ring::transport {

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

class Stream {
 public:
  /// After the hellos. Without keys: not encrypted.
  explicit Stream(Fd socket, const std::optional<SessionKeys>& keys = std::nullopt);

  int descriptor() const { return socket_.get(); }
  bool is_encrypted() const { return records_ != nullptr; }

  /// Sends some of `pieces`, and gives how much has gone. They must begin with the same bytes until
  /// some have: so many of them as begun_bytes() says will go whatever comes. What crosses the
  /// network is added to `wire_bytes`, here and in receive().
  Transferred send(std::span<iovec> pieces, Count& wire_bytes);
  std::size_t begun_bytes() const;
  /// Fills some of `pieces`. 0 bytes: nothing is there. kCorrupt: what came was changed.
  Result<Transferred> receive(std::span<iovec> pieces, Count& wire_bytes);

 private:
  struct Records {
    explicit Records(const SessionKeys& keys) : outgoing(keys), incoming(keys) {}
    OutgoingRecords outgoing;
    IncomingRecords incoming;
  };

  Fd socket_;
  std::unique_ptr<Records> records_;
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_STREAM_H_
