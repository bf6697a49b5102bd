// Hashes of numbers, the same on every machine.
#ifndef RINGPRESS_INTERNAL_HASH_H_
#define RINGPRESS_INTERNAL_HASH_H_

#include <cstdint>

namespace ringpress {

/// A bijection of 64 bits that changes about half of them (Steele, Lea and Flood, SplitMix, 2014).
inline std::uint64_t mix_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31);
}

/// The hash of a sequence that goes on with `next`.
inline std::uint64_t combine_hash(std::uint64_t hash, std::uint64_t next) {
  return mix_bits(hash * 0x9E3779B97F4A7C15U + next + 1);
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_HASH_H_
