// What ranks and the rendezvous say to each other after the hellos, as bytes. Every length is
// bounded before it is believed. Numbers are little-endian.
#ifndef RING_BOOTSTRAP_MESSAGE_H_
#define RING_BOOTSTRAP_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ring/bootstrap/host_identity.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/transport.h"

namespace ringpress::ring::bootstrap {

/// Both messages begin with this many bytes: a 32-bit code and the 32-bit length of the rest.
inline constexpr std::size_t kPrefixBytes = 8;
inline constexpr std::size_t kMaxJoinBytes = 16384;
inline constexpr std::size_t kMaxAddressBytes = 64;
inline constexpr std::size_t kMaxReasonBytes = 4096;
inline constexpr std::uint32_t kMaxRanks = 65536;

/// Where one rank can be reached. Packs into kEndpointBytes.
struct Endpoint {
  std::array<std::string, kTransportKinds> addresses;  // By TransportKind; empty: not by that one.
  HostIdentity identity;
};
inline constexpr std::size_t kEndpointBytes =
    kTransportKinds * kMaxAddressBytes + 2 * sizeof(HostHash);

/// From a rank to the rendezvous.
struct Join {
  std::uint32_t protocol_version = 0;
  std::uint32_t library_version = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint32_t word = 0;  // Rank 0's is told to all.
  Endpoint endpoint;
  std::string refusal;                 // Why this rank makes no communicator; empty: it does.
  std::vector<std::string> agreement;  // "NAME=value"
};

/// From the rendezvous to a rank: all endpoints and rank 0's word, or why there is no communicator.
struct Answer {
  Status status;
  std::uint32_t word = 0;
  std::vector<Endpoint> endpoints;  // By rank.
};

struct Prefix {
  std::uint32_t code = 0;
  std::uint32_t length = 0;
};
Prefix unpack_prefix(const std::string& bytes);

/// kInvalidArgument if the agreement is too long.
Result<std::string> pack_join(const Join& join);
/// `body` is what follows the prefix. Of another version of the protocol no more is known than the
/// numbers that come before the endpoint: they are where they have always been.
Result<Join> unpack_join(const std::string& body);

std::string pack_answer(const Answer& answer);
/// The most bytes that may follow the prefix of an answer to a rank of `size`.
std::size_t max_answer_bytes(std::uint32_t size);
Result<Answer> unpack_answer(const Prefix& prefix, const std::string& body, std::uint32_t size);

}  // namespace ringpress::ring::bootstrap

#endif  // RING_BOOTSTRAP_MESSAGE_H_
