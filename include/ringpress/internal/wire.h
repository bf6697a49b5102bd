// What crosses a connection: the normative text of ringpress's framing. Little-endian throughout.
//
// A connection opens with three hellos (connector, acceptor, connector), 64 bytes each; then it
// carries frames: a 64-byte header and its payload. Nothing a peer sends sizes an allocation or
// bounds a loop: a frame must have exactly the length and the label that the receiver expects.
//
// On an encrypted connection the bytes of the frames are a stream that is cut into records,
// wherever that is best: the number n of its bytes, 1 to kRecordBytes, in kRecordHeadBytes; n
// bytes, sealed; a tag of 16 bytes. They are sealed by AES-256-GCM, where both sides have said that
// they can, else by ChaCha20-Poly1305, with the head as additional data and the number of the
// record as nonce: 8 bytes, and 4 of zero. Each direction of each socket has a key of its own:
// keyed BLAKE2b-256 with the job's secret of one byte, 1 for what goes to the acceptor and 2 for
// the other direction, and the nonces of the connector's and of the acceptor's hello. After
// kRecordsOfKey records comes the next key, keyed BLAKE2b-256 with the last one of "ringpress: next
// key of records" and a zero. A frame has no payload_crc there: the tags do what it does.
#ifndef RINGPRESS_INTERNAL_WIRE_H_
#define RINGPRESS_INTERNAL_WIRE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/types.h"

namespace ringpress {

inline constexpr std::uint32_t kHelloMagic = 0x48505252;  // "RRPH" in memory order
inline constexpr std::uint32_t kFrameMagic = 0x46505252;  // "RRPF" in memory order
inline constexpr std::uint16_t kProtocolVersion = 7;

/// The per-job 128-bit secret. It travels inside the NCCL unique id, which the program passes
/// around; that of a split or shrunk communicator travels over its parent's authenticated
/// connections.
using Secret = std::array<std::byte, 16>;

/// 64 bytes that open a connection, in both directions.
///
/// 1. connector -> acceptor: its own nonce; mac over bytes 0..47 and 16 zero bytes.
/// 2. acceptor -> connector: its own nonce; mac over bytes 0..47 and the connector's nonce.
/// 3. connector -> acceptor: hello 1 again; mac over bytes 0..47 and the acceptor's nonce.
/// A mac is keyed BLAKE2b-128 with the job's secret. A wrong one closes the connection and nothing
/// else happens: port scans do not disturb a job. Answers to a nonce cannot be replayed.
struct Hello {
  std::uint32_t magic = kHelloMagic;
  std::uint16_t protocol_version = kProtocolVersion;
  std::uint8_t purpose = 0;           // HelloPurpose
  std::uint8_t channel = 0;           // Index of the socket within the connection.
  std::uint32_t library_version = 0;  // major * 10000 + minor * 100 + patch
  std::uint32_t rank = 0;
  std::uint32_t world = 0;
  std::uint32_t connection = 0;  // Chosen by the connector: joins the sockets of one connection.
  std::uint64_t configuration_hash = 0;  // XXH3-64 of every setting that must agree.
  std::array<std::byte, 16> nonce{};
  std::array<std::byte, 16> mac{};
};
static_assert(sizeof(Hello) == 64);
static_assert(offsetof(Hello, nonce) == 32 && offsetof(Hello, mac) == 48);

enum class HelloPurpose : std::uint8_t {
  kRendezvous = 1,  // To the root's bootstrap socket.
  kData = 2,        // A data socket from connector (sender) to acceptor (receiver).
  // An encrypted one; the second of a machine with instructions for AES.
  kEncryptedData = 3,
  kEncryptedDataByAes = 4,
};

// Records.
inline constexpr std::size_t kRecordHeadBytes = 4;
inline constexpr std::size_t kRecordBytes = 64 * 1024;  // At most, sealed.
inline constexpr std::uint64_t kRecordsOfKey = 1 << 20;

/// One call as every rank must have made it. Ranks compare it on each frame: a difference is
/// reported with both values.
struct CallSignature {
  std::uint64_t sequence = 0;    // Number of this call on the communicator.
  std::uint64_t count = 0;       // Elements, as passed by the caller.
  std::uint64_t codec_hash = 0;  // XXH3-64 of Codec::specification().
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::int32_t root = -1;  // Root rank, or -1.

  bool operator==(const CallSignature&) const = default;
};
static_assert(sizeof(CallSignature) == 32);

/// "call 7: all_reduce of 1000 float32, sum, ring" for messages.
inline std::string describe(const CallSignature& call) {
  std::string text = "call " + std::to_string(call.sequence) + ": " + collective_name(call.kind) +
                     " of " + std::to_string(call.count) + " " + dtype_name(call.dtype);
  if (call.root >= 0) text += ", root " + std::to_string(call.root);
  if (call.kind == CollectiveKind::kSendRecv || call.kind == CollectiveKind::kBroadcast)
    return text;
  text += std::string(", ") + reduce_op_name(call.op) + ", " + algorithm_name(call.algorithm);
  char codec[32];
  std::snprintf(codec, sizeof codec, ", codec #%08x", static_cast<unsigned>(call.codec_hash));
  return text + codec;
}

/// What a frame is: the call it belongs to and its place in the call.
struct FrameLabel {
  CallSignature call;
  std::uint32_t step = 0;   // Phase or ring step; the collective numbers them.
  std::uint32_t chunk = 0;  // Index of the chunk within the segment.

  bool operator==(const FrameLabel&) const = default;
};
static_assert(sizeof(FrameLabel) == 40);

/// What a receiver knows of a payload's length.
struct FrameLength {
  std::size_t bytes = 0;
  bool is_limit = false;  // The payload may be shorter.

  static FrameLength exactly(std::size_t bytes) { return {bytes, false}; }
  static FrameLength at_most(std::size_t bytes) { return {bytes, true}; }
  bool allows(std::size_t payload_bytes) const {
    return is_limit ? payload_bytes <= bytes : payload_bytes == bytes;
  }
};

enum class FrameKind : std::uint8_t {
  kData = 1,
  kAbort = 2,    // Payload: a message for a person (at most kMaxAbortBytes). The sender has failed.
  kGoodbye = 3,  // No payload: the sender closes in good order.
};
inline constexpr std::size_t kMaxAbortBytes = 1024;

/// Precedes each payload. header_crc is CRC32C of the other 60 bytes, checked before any other
/// field is believed; payload_crc is CRC32C of the payload, checked before it is decoded.
struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::kData;
  std::uint8_t flags = 0;      // Bit 0: payload_crc is set. Others must be 0.
  std::uint16_t reserved = 0;  // Must be 0.
  std::uint64_t payload_bytes = 0;
  FrameLabel label;
  std::uint32_t payload_crc = 0;
  std::uint32_t header_crc = 0;
};
static_assert(sizeof(FrameHeader) == 64);
static_assert(offsetof(FrameHeader, header_crc) == 60);

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_WIRE_H_
