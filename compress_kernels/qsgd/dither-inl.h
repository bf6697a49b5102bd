// The random bytes of dither.h for vectors of lanes. Compiled once per target.
//
// The blocks of one tile differ in word 1 of their counters only, so the first three rounds of
// Philox have but one product each that is not the same for all of them. 32-bit numbers stand in
// the low halves of 64-bit lanes, even blocks apart from odd ones: products come out where the next
// round wants them, and what the high halves hold does not matter.
#if defined(COMPRESS_KERNELS_QSGD_DITHER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_QSGD_DITHER_INL_H_
#undef COMPRESS_KERNELS_QSGD_DITHER_INL_H_
#else
#define COMPRESS_KERNELS_QSGD_DITHER_INL_H_
#endif

#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/qsgd/dither.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::qsgd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

using DitherTag = hn::Repartition<std::uint64_t, core::HWY_NAMESPACE::WordTag>;
using Longs = hn::Vec<DitherTag>;
constexpr DitherTag kDitherTag;

/// Random bytes of 16 rows: byte r mod 4 of word r / 4.
struct DitherWords {
  core::HWY_NAMESPACE::Words word[4];
};

class DitherSource {
 public:
  explicit DitherSource(const Dither& dither) {
    const auto& [c0, c1, c2, c3] = dither.counter.v;
    const auto& [k0, k1] = dither.key.v;
    const std::uint64_t first0 = std::uint64_t{PHILOX_M4x32_0} * c0;
    const std::uint64_t first1 = std::uint64_t{PHILOX_M4x32_1} * c2;
    const std::uint64_t second1 = std::uint64_t{PHILOX_M4x32_1} * (high(first0) ^ c3 ^ k1);
    const std::uint64_t third0 =
        PHILOX_M4x32_0 * std::uint64_t{high(second1) ^ low(first1) ^ (k0 + PHILOX_W32_0)};
    word0_ = high(first1) ^ c1 ^ k0;
    second_key_ = low(first0) ^ (k1 + PHILOX_W32_1);
    third_key0_ = low(second1) ^ (k0 + 2 * PHILOX_W32_0);
    third_key1_ = high(third0) ^ (k1 + 2 * PHILOX_W32_1);
    word3_ = low(third0);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      key0_[round] = k0 + (round + 3) * PHILOX_W32_0;
      key1_[round] = k1 + (round + 3) * PHILOX_W32_1;
    }
  }

  /// Of the lanes from `lane` on, rows 16 half to 16 half + 15.
  HWY_INLINE DitherWords draw(std::size_t half, std::size_t lane) const {
    State even = start(lane + 32 * half);
    State odd = start(lane + 32 * half + 1);
    for (std::size_t round = 0; round < kRounds; ++round) {
      const Longs key0 = hn::Set(kDitherTag, key0_[round]);
      const Longs key1 = hn::Set(kDitherTag, key1_[round]);
      even = next(even, key0, key1);
      odd = next(odd, key0, key1);
    }
    return {{merge(even.word[0], odd.word[0]), merge(even.word[1], odd.word[1]),
             merge(even.word[2], odd.word[2]), merge(even.word[3], odd.word[3])}};
  }

 private:
  static constexpr std::size_t kRounds = kDitherRounds - 3;  // After the first three.

  struct State {
    Longs word[4];
  };

  static std::uint32_t high(std::uint64_t product) {
    return static_cast<std::uint32_t>(product >> 32);
  }
  static std::uint32_t low(std::uint64_t product) { return static_cast<std::uint32_t>(product); }

  static HWY_INLINE Longs multiply(Longs x, std::uint32_t factor) {
    const core::HWY_NAMESPACE::WordTag words;
    return hn::MulEven(hn::BitCast(words, x), hn::Set(words, factor));
  }
  static HWY_INLINE Longs splat(std::uint32_t number) { return hn::Set(kDitherTag, number); }
  /// Into the low half; a shuffle, as shifts wait for the multiplier's port.
  static HWY_INLINE Longs high(Longs product) {
    const core::HWY_NAMESPACE::WordTag words;
    return hn::BitCast(kDitherTag, hn::DupOdd(hn::BitCast(words, product)));
  }

  static HWY_INLINE core::HWY_NAMESPACE::Words merge(Longs even, Longs odd) {
    const core::HWY_NAMESPACE::WordTag words;
    return hn::OddEven(hn::BitCast(words, hn::ShiftLeft<32>(odd)), hn::BitCast(words, even));
  }

  /// Blocks first_block, first_block + 2, ... after three rounds.
  HWY_INLINE State start(std::size_t first_block) const {
    const Longs pairs = hn::Iota(kDitherTag, 0);
    const Longs blocks = hn::Add(hn::Add(pairs, pairs), hn::Set(kDitherTag, first_block));
    const Longs second0 =
        multiply(hn::Xor(hn::ShiftLeft<26>(blocks), splat(word0_)), PHILOX_M4x32_0);
    const Longs third1 = multiply(hn::Xor(high(second0), splat(second_key_)), PHILOX_M4x32_1);
    return {{hn::Xor(high(third1), splat(third_key0_)), third1,
             hn::Xor(second0, splat(third_key1_)), splat(word3_)}};
  }

  static HWY_INLINE State next(const State& state, Longs key0, Longs key1) {
    const Longs first = multiply(state.word[0], PHILOX_M4x32_0);
    const Longs second = multiply(state.word[2], PHILOX_M4x32_1);
    return {{hn::Xor3(high(second), state.word[1], key0), second,
             hn::Xor3(high(first), state.word[3], key1), first}};
  }

  std::uint32_t word0_;       // Of round 2, but for the number of the block.
  std::uint32_t second_key_;  // What round 2 xors into word 2.
  std::uint32_t third_key0_;  // What round 3 xors into words 0 and 2.
  std::uint32_t third_key1_;
  std::uint32_t word3_;  // Of round 4.
  std::uint64_t key0_[kRounds];
  std::uint64_t key1_[kRounds];
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::qsgd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
