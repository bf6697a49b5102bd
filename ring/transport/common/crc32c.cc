#include "ring/transport/common/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace ringpress::ring::transport {

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t previous) {
  // The library takes an int length, reads through a non-const pointer and leaves both inversions
  // of the standard to the caller.
  constexpr std::size_t kMaxPiece = std::size_t{1} << 30;
  auto* position = static_cast<unsigned char*>(const_cast<void*>(data));
  std::uint32_t state = ~previous;
  while (bytes > 0) {
    const std::size_t piece = std::min(bytes, kMaxPiece);
    state = crc32_iscsi(position, static_cast<int>(piece), state);
    position += piece;
    bytes -= piece;
  }
  return ~state;
}

}  // namespace ringpress::ring::transport
