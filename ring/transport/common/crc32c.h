// CRC32C (Castagnoli) as in iSCSI and ext4: the check value of "123456789" is 0xE3069283.
#ifndef RING_TRANSPORT_COMMON_CRC32C_H_
#define RING_TRANSPORT_COMMON_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace ringpress::ring::transport {

/// CRC32C of `bytes` bytes. To continue over more memory, pass the result for what came before.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t previous = 0);

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_CRC32C_H_
