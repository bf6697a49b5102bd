// Frames as bytes: builds and checks the 64-byte headers of wire.h. No sockets, no allocation sized
// by what a peer sent; any 64 bytes give a header or a Status.
#ifndef RING_TRANSPORT_COMMON_FRAME_H_
#define RING_TRANSPORT_COMMON_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ringpress/internal/status.h"
#include "ringpress/internal/wire.h"

namespace ringpress::ring::transport {

inline constexpr std::size_t kHeaderBytes = sizeof(FrameHeader);
inline constexpr std::uint8_t kPayloadCrcFlag = 1;

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

/// The ranks of the two ends of a connection where there are no ranks, for messages.
inline constexpr std::uint32_t kThisSide = 0xfffffffe;
inline constexpr std::uint32_t kOtherSide = 0xffffffff;
/// "rank 3", "this side" or "the other side".
std::string end_name(std::uint32_t rank);

/// The two ends of a connection.
struct Ends {
  std::uint32_t local_rank = 0;
  std::uint32_t peer_rank = 0;
};

/// The header of a data frame without payload_crc.
FrameHeader data_header(const FrameLabel& label, std::size_t payload_bytes);
/// The header of a data frame with the CRC32C of `payload`.
FrameHeader checked_data_header(const FrameLabel& label, std::span<const std::byte> payload);

/// Fills header_crc. Call it last.
void seal_header(FrameHeader& header);

/// Header and payload of an abort frame that carries `reason`, cut at kMaxAbortBytes, or of a
/// goodbye when `reason` is ok.
std::string control_frame(const Status& reason);

/// The Status that an abort frame carries. `text` comes from outside: it is cut and made printable.
Status abort_reason(const FrameHeader& header, std::span<const std::byte> text);

/// Checks all that can be checked without knowing what is expected: checksum, magic, kind, flags,
/// and the size of control frames. kCorrupt says which.
Status parse_header(const HeaderBytes& bytes, FrameHeader& header);

/// What a receiver expects of a frame.
struct ExpectedFrame {
  FrameLabel label;
  FrameLength length;
};

/// kMismatch, with both values, when a data frame is not the expected one. Else the length that it
/// has becomes the expected one.
Status match_frame(const FrameHeader& header, ExpectedFrame& expected, std::uint32_t sender,
                   std::uint32_t receiver);

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_FRAME_H_
