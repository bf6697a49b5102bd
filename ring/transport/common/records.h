// The records of an encrypted socket (wire.h): what is sent is sealed, and what comes is opened
// before anybody looks at it.
#ifndef RING_TRANSPORT_COMMON_RECORDS_H_
#define RING_TRANSPORT_COMMON_RECORDS_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ring/transport/common/session_keys.h"
#include "ring/transport/common/socket.h"
#include "ringpress/internal/status.h"

namespace ringpress::ring::transport {

/// Seals or opens the records of one direction, in order.
class RecordCipher {
 public:
  RecordCipher(Cipher cipher, const CipherKey& key);
  ~RecordCipher();
  RecordCipher(const RecordCipher&) = delete;
  RecordCipher& operator=(const RecordCipher&) = delete;

  /// Of a record whose head and plain bytes are there, with room for the tag.
  void seal(std::byte* record, std::size_t plain_bytes);
  /// In place. False: it was changed on its way, or is another record.
  bool open(std::byte* record, std::size_t plain_bytes);

 private:
  /// The nonce of the next record, under the key that it has.
  CipherNonce next_nonce();

  const Cipher cipher_;
  CipherKey key_;
  std::unique_ptr<Aead> aead_;
  std::uint64_t records_ = 0;
};

/// What is to be sent, one record at a time.
class OutgoingRecords {
 public:
  explicit OutgoingRecords(const SessionKeys& keys);

  bool is_empty() const { return sent_ == record_.size(); }
  /// Of the record that is being sent.
  std::size_t plain_bytes() const { return plain_bytes_; }
  /// Seals as much of `pieces` as a record takes. Only while it is empty.
  void seal(std::span<const iovec> pieces);
  /// Sends what it can of the record. Its bytes are those of the socket.
  Transferred send(int descriptor);

 private:
  RecordCipher cipher_;
  std::vector<std::byte> record_;
  std::size_t plain_bytes_ = 0;
  std::size_t sent_ = 0;
};

/// What has come.
class IncomingRecords {
 public:
  explicit IncomingRecords(const SessionKeys& keys);

  /// Reads a socket until a record is whole, unless one is at hand. kCorrupt: it is none of the
  /// other side's. Bytes that were read, of the socket, are added to `wire_bytes`.
  Result<Transferred> read(int descriptor, std::uint64_t& wire_bytes);
  /// Takes what is at hand to `pieces`, and gives the number of bytes.
  std::size_t take(std::span<const iovec> pieces);

 private:
  /// Opens the record that begins at `next_`, if it is whole. False: more must come.
  Result<bool> open_next();

  RecordCipher cipher_;
  std::vector<std::byte> memory_;  // As long as the longest record.
  std::size_t filled_ = 0;         // Of it, with what the socket had.
  std::size_t next_ = 0;           // Where a record begins that is not opened yet.
  std::size_t taken_ = 0;          // The plain bytes at hand begin here.
  std::size_t end_ = 0;            // They end here.
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_RECORDS_H_
