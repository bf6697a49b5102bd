// What a thread does in a call on host memory, and for how long.
#ifndef RINGPRESS_INTERNAL_CALL_PHASES_H_
#define RINGPRESS_INTERNAL_CALL_PHASES_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace ringpress {

enum class CallPhase : std::uint8_t {
  kWait,     // For the first frame of another rank in a call: it may not have got there yet.
  kEncode,   // Values to bytes.
  kSend,     // Starting to send frames, and waiting until they are out.
  kReceive,  // Waiting for the frames of a rank after its first one.
  kReduce,   // Decoding, adding and encoding sums, in one pass.
  kDecode,   // Bytes to values.
};
inline constexpr std::size_t kCallPhases = static_cast<std::size_t>(CallPhase::kDecode) + 1;

constexpr const char* phase_name(CallPhase phase) {
  switch (phase) {
    case CallPhase::kWait:
      return "wait";
    case CallPhase::kEncode:
      return "encode";
    case CallPhase::kSend:
      return "send";
    case CallPhase::kReceive:
      return "receive";
    case CallPhase::kReduce:
      return "reduce";
    case CallPhase::kDecode:
      return "decode";
  }
  return "unknown phase";
}

/// Nanoseconds, by phase.
using PhaseTimes = std::array<std::uint64_t, kCallPhases>;

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_CALL_PHASES_H_
