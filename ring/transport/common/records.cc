#include "ring/transport/common/records.h"

#include <sodium.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace ringpress::ring::transport {
namespace {

constexpr std::size_t kOverhead = kRecordHeadBytes + kTagBytes;

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

unsigned char* bytes_of(std::byte* memory) {
  return reinterpret_cast<unsigned char*>(memory);
}

std::uint32_t plain_bytes_of(const std::byte* record) {
  std::uint32_t bytes = 0;
  static_assert(sizeof bytes == kRecordHeadBytes);
  std::memcpy(&bytes, record, sizeof bytes);
  return bytes;
}

}  // namespace

RecordCipher::RecordCipher(Cipher cipher, const CipherKey& key)
    : cipher_(cipher), key_(key), aead_(make_aead(cipher, key)) {}

RecordCipher::~RecordCipher() {
  sodium_memzero(key_.data(), key_.size());
}

CipherNonce RecordCipher::next_nonce() {
  if (records_ > 0 && records_ % kRecordsOfKey == 0) {
    key_ = next_key(key_);
    aead_ = make_aead(cipher_, key_);
  }
  CipherNonce nonce{};
  std::memcpy(nonce.data(), &records_, sizeof records_);
  ++records_;
  return nonce;
}

void RecordCipher::seal(std::byte* record, std::size_t plain_bytes) {
  const CipherNonce nonce = next_nonce();
  aead_->seal(nonce, {bytes_of(record), kRecordHeadBytes},
              {bytes_of(record) + kRecordHeadBytes, plain_bytes + kTagBytes});
}

bool RecordCipher::open(std::byte* record, std::size_t plain_bytes) {
  const CipherNonce nonce = next_nonce();
  return aead_->open(nonce, {bytes_of(record), kRecordHeadBytes},
                     {bytes_of(record) + kRecordHeadBytes, plain_bytes + kTagBytes});
}

OutgoingRecords::OutgoingRecords(const SessionKeys& keys) : cipher_(keys.cipher, keys.outgoing) {
  record_.reserve(kRecordBytes + kOverhead);
}

void OutgoingRecords::seal(std::span<const iovec> pieces) {
  record_.resize(kRecordHeadBytes);
  for (const iovec& piece : pieces) {
    const std::size_t room = kRecordBytes + kRecordHeadBytes - record_.size();
    const auto* const from = static_cast<const std::byte*>(piece.iov_base);
    record_.insert(record_.end(), from, from + std::min(room, piece.iov_len));
  }
  plain_bytes_ = record_.size() - kRecordHeadBytes;
  const auto head = static_cast<std::uint32_t>(plain_bytes_);
  std::memcpy(record_.data(), &head, sizeof head);
  record_.resize(record_.size() + kTagBytes);
  cipher_.seal(record_.data(), plain_bytes_);
  sent_ = 0;
}

Transferred OutgoingRecords::send(int descriptor) {
  const Transferred sent = send_bytes(descriptor, record_.data() + sent_, record_.size() - sent_);
  sent_ += sent.bytes;
  return sent;
}

IncomingRecords::IncomingRecords(const SessionKeys& keys)
    : cipher_(keys.cipher, keys.incoming), memory_(kRecordBytes + kOverhead) {}

Result<Transferred> IncomingRecords::read(int descriptor, std::uint64_t& wire_bytes) {
  while (taken_ == end_) {
    RINGPRESS_ASSIGN_OR_RETURN(const bool opened, open_next());
    if (opened) break;
    if (next_ > 0) {
      std::memmove(memory_.data(), memory_.data() + next_, filled_ - next_);
      filled_ -= next_;
      next_ = 0;
    }
    const Transferred got =
        receive_bytes(descriptor, memory_.data() + filled_, memory_.size() - filled_);
    if (got.bytes == 0) return got;
    wire_bytes += got.bytes;
    filled_ += got.bytes;
  }
  Transferred at_hand;
  at_hand.bytes = end_ - taken_;
  return at_hand;
}

Result<bool> IncomingRecords::open_next() {
  if (filled_ - next_ < kRecordHeadBytes) return false;
  const std::uint32_t plain_bytes = plain_bytes_of(&memory_[next_]);
  if (plain_bytes == 0 || plain_bytes > kRecordBytes) {
    return Status(Code::kCorrupt, "a record of " + std::to_string(plain_bytes) + " bytes");
  }
  if (filled_ - next_ < plain_bytes + kOverhead) return false;
  if (!cipher_.open(&memory_[next_], plain_bytes)) {
    return Status(Code::kCorrupt, "a record that is not what was sent");
  }
  taken_ = next_ + kRecordHeadBytes;
  end_ = taken_ + plain_bytes;
  next_ = end_ + kTagBytes;
  return true;
}

std::size_t IncomingRecords::take(std::span<const iovec> pieces) {
  const std::size_t before = taken_;
  for (const iovec& piece : pieces) {
    const std::size_t bytes = std::min(end_ - taken_, piece.iov_len);
    std::memcpy(piece.iov_base, memory_.data() + taken_, bytes);
    taken_ += bytes;
  }
  return taken_ - before;
}

}  // namespace ringpress::ring::transport
