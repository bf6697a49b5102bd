#include "ring/transport/common/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ring/transport/common/crc32c.h"

namespace ringpress::ring::transport {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

/// Codes travel as numbers in the label of an abort frame; numbers we do not know are kAborted.
Code code_from_number(std::uint32_t number) {
  if (number == 0 || number > static_cast<std::uint32_t>(kLastCode)) return Code::kAborted;
  return static_cast<Code>(number);
}

}  // namespace

std::string end_name(std::uint32_t rank) {
  if (rank == kThisSide) return "this side";
  if (rank == kOtherSide) return "the other side";
  return "rank " + std::to_string(rank);
}

FrameHeader data_header(const FrameLabel& label, std::size_t payload_bytes) {
  FrameHeader header;
  header.payload_bytes = payload_bytes;
  header.label = label;
  seal_header(header);
  return header;
}

FrameHeader checked_data_header(const FrameLabel& label, std::span<const std::byte> payload) {
  FrameHeader header;
  header.payload_bytes = payload.size();
  header.label = label;
  header.flags = kPayloadCrcFlag;
  header.payload_crc = crc32c(payload.data(), payload.size());
  seal_header(header);
  return header;
}

void seal_header(FrameHeader& header) {
  header.header_crc = crc32c(&header, offsetof(FrameHeader, header_crc));
}

std::string control_frame(const Status& reason) {
  FrameHeader header;
  std::string text;
  header.kind = FrameKind::kGoodbye;
  if (!reason.is_ok()) {
    header.kind = FrameKind::kAbort;
    header.label.step = static_cast<std::uint32_t>(reason.code());
    text = reason.message().substr(0, kMaxAbortBytes);
  }
  header.payload_bytes = text.size();
  header.flags = kPayloadCrcFlag;
  header.payload_crc = crc32c(text.data(), text.size());
  seal_header(header);
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  return frame + text;
}

Status abort_reason(const FrameHeader& header, std::span<const std::byte> text) {
  std::string message(reinterpret_cast<const char*>(text.data()),
                      std::min(text.size(), kMaxAbortBytes));
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return Status(code_from_number(header.label.step), message);
}

Status parse_header(const HeaderBytes& bytes, FrameHeader& header) {
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.header_crc != crc32c(bytes.data(), offsetof(FrameHeader, header_crc))) {
    return Status(Code::kCorrupt, "frame header fails its CRC32C");
  }
  if (header.magic != kFrameMagic) return Status(Code::kCorrupt, "frame header has a wrong magic");
  if ((header.flags & ~kPayloadCrcFlag) != 0 || header.reserved != 0) {
    return Status(Code::kCorrupt, "frame header has unknown flags");
  }
  const bool known = header.kind == FrameKind::kData || header.kind == FrameKind::kAbort ||
                     header.kind == FrameKind::kGoodbye;
  if (!known) return Status(Code::kCorrupt, "frame header has an unknown kind");
  const std::size_t limit = header.kind == FrameKind::kAbort ? kMaxAbortBytes : 0;
  if (header.kind != FrameKind::kData && header.payload_bytes > limit) {
    return Status(Code::kCorrupt, "control frame is too long");
  }
  return Status::ok();
}

Status match_frame(const FrameHeader& header, ExpectedFrame& expected, std::uint32_t sender,
                   std::uint32_t receiver) {
  if (header.label.call != expected.label.call) {
    return Status(Code::kMismatch, end_name(sender) + " made " + describe(header.label.call) +
                                       "; " + end_name(receiver) + " made " +
                                       describe(expected.label.call));
  }
  if (header.label != expected.label || !expected.length.allows(header.payload_bytes)) {
    const auto place = [](const FrameLabel& label, std::size_t bytes) {
      return "step " + std::to_string(label.step) + " chunk " + std::to_string(label.chunk) +
             " of " + std::to_string(bytes) + " bytes";
    };
    const char* limit = expected.length.is_limit ? " at most" : "";
    return Status(Code::kMismatch, "in " + describe(expected.label.call) + ", " + end_name(sender) +
                                       " sent " + place(header.label, header.payload_bytes) +
                                       " where " + end_name(receiver) + " expected " +
                                       place(expected.label, expected.length.bytes) + limit);
  }
  expected.length = FrameLength::exactly(header.payload_bytes);
  return Status::ok();
}

}  // namespace ringpress::ring::transport
