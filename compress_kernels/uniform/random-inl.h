// The random bits of a tile, as philox.h defines them, kLanes Philox blocks at a time. Compiled
// once per target.
#if defined(COMPRESS_KERNELS_UNIFORM_RANDOM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_RANDOM_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_RANDOM_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_RANDOM_INL_H_
#endif

#include "compress_kernels/core/philox.h"
#include "compress_kernels/core/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// High and low halves of the products of 32-bit lanes with a constant.
struct Products {
  Words high;
  Words low;
};

HWY_INLINE Products multiply_wide(Words x, std::uint32_t factor) {
  const Words factors = hn::Set(kWordTag, factor);
  const auto even = hn::BitCast(kWordTag, hn::MulEven(x, factors));
  const hn::RepartitionToWide<core::HWY_NAMESPACE::WordTag> wide;
  const Words upper = hn::BitCast(kWordTag, hn::ShiftRight<32>(hn::BitCast(wide, x)));
  const auto odd = hn::BitCast(kWordTag, hn::MulEven(upper, factors));
  return {hn::OddEven(odd, hn::DupOdd(even)), hn::OddEven(hn::DupEven(odd), even)};
}

/// Counter and, after the rounds, result of kLanes Philox blocks.
struct PhiloxWords {
  Words word[4];
};

HWY_INLINE void philox_rounds(PhiloxWords& state, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const Products first = multiply_wide(state.word[0], PHILOX_M4x32_0);
    const Products second = multiply_wide(state.word[2], PHILOX_M4x32_1);
    const Words word0 = hn::Xor(hn::Xor(second.high, state.word[1]), hn::Set(kWordTag, key0));
    const Words word2 = hn::Xor(hn::Xor(first.high, state.word[3]), hn::Set(kWordTag, key1));
    state = PhiloxWords{{word0, second.low, word2, first.low}};
    key0 += PHILOX_W32_0;
    key1 += PHILOX_W32_1;
  }
}

/// Writes the 16-bit numbers of `groups` Philox blocks of 8 elements, from block `first_group` on.
/// May write up to kLanes blocks more.
inline void random_halves(const RandomKey& random, std::uint64_t first_group, std::size_t groups,
                          std::uint16_t* HWY_RESTRICT halves) {
  const philox4x32_key_t key = core::philox_key(random);
  HWY_ALIGN std::uint32_t low[kLanes];
  HWY_ALIGN std::uint32_t high[kLanes];
  for (std::size_t g = 0; g < groups; g += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const philox4x32_ctr_t counter = core::philox_counter(random, first_group + g + lane);
      low[lane] = counter.v[0];
      high[lane] = counter.v[1];
    }
    PhiloxWords state{{hn::Load(kWordTag, low), hn::Load(kWordTag, high),
                       hn::Set(kWordTag, static_cast<std::uint32_t>(random.step)),
                       hn::Set(kWordTag, random.stream)}};
    philox_rounds(state, key.v[0], key.v[1]);
    HWY_ALIGN std::uint32_t words[4 * kLanes];
    hn::StoreInterleaved4(state.word[0], state.word[1], state.word[2], state.word[3], kWordTag,
                          words);
    std::memcpy(halves + g * core::kElementsPerGroup, words, sizeof words);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
