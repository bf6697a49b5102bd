// The 128 bytes that name a communicator before it exists.
//
//   0  magic "RRPI"      4  version (1)      5  1: rank 0 serves      6  bytes of the address text
//   8  secret, 16 bytes                      24  address text of the rendezvous, zero-padded
#ifndef RING_BOOTSTRAP_UNIQUE_ID_H_
#define RING_BOOTSTRAP_UNIQUE_ID_H_

#include <array>
#include <cstddef>
#include <string>

#include "ringpress/internal/status.h"
#include "ringpress/internal/wire.h"

namespace ringpress::ring::bootstrap {

using IdBytes = std::array<std::byte, 128>;

struct UniqueId {
  Secret secret{};
  std::string address;
  /// Nobody listens there yet: rank 0 opens the rendezvous when it makes the communicator.
  bool rank_zero_serves = false;
};

/// kInternal if the address does not fit (it is at most 104 bytes).
Result<IdBytes> pack_id(const UniqueId& id);
/// kInvalidArgument for bytes that pack_id() did not make.
Result<UniqueId> unpack_id(const IdBytes& bytes);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_UNIQUE_ID_H_
