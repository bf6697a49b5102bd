// Random bits, as philox.h defines them, kLanes Philox blocks at a time. Compiled once per target.
#if defined(COMPRESS_KERNELS_CORE_RANDOM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_CORE_RANDOM_INL_H_
#undef COMPRESS_KERNELS_CORE_RANDOM_INL_H_
#else
#define COMPRESS_KERNELS_CORE_RANDOM_INL_H_
#endif

#include "compress_kernels/core/philox.h"
#include "compress_kernels/core/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::core {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

using WideTag = hn::RepartitionToWide<WordTag>;
using Wides = hn::Vec<WideTag>;
constexpr WideTag kWideTag;

/// kLanes / 2 Philox blocks: each word in the lower half of a lane of 64 bits. What is above it has
/// no meaning, for products are taken of the lower halves alone.
struct PhiloxState {
  Wides word0, word1, word2, word3;
};

HWY_INLINE Wides multiply_low_halves(Wides x, std::uint32_t factor) {
  return hn::MulEven(hn::BitCast(kWordTag, x), hn::Set(kWordTag, factor));
}

HWY_INLINE PhiloxState philox_round(const PhiloxState& state, Wides key0, Wides key1) {
  const Wides first = multiply_low_halves(state.word0, PHILOX_M4x32_0);
  const Wides second = multiply_low_halves(state.word2, PHILOX_M4x32_1);
  return {hn::Xor3(hn::ShiftRight<32>(second), state.word1, key0), second,
          hn::Xor3(hn::ShiftRight<32>(first), state.word3, key1), first};
}

/// Word w of kLanes Philox blocks in word`w`, in the order of their numbers.
struct PhiloxWords {
  Words word0, word1, word2, word3;
};

HWY_INLINE Words merge_halves(Wides even, Wides odd) {
  return hn::OddEven(hn::BitCast(kWordTag, hn::ShiftLeft<32>(odd)), hn::BitCast(kWordTag, even));
}

constexpr int kPhiloxRounds = 10;

/// The keys of all rounds, for loads that repeat them in every lane at no cost.
struct PhiloxKeys {
  std::uint64_t first[kPhiloxRounds];
  std::uint64_t second[kPhiloxRounds];

  explicit PhiloxKeys(const RandomKey& random) {
    const philox4x32_key_t key = philox_key(random);
    for (std::uint32_t round = 0; round < kPhiloxRounds; ++round) {
      first[round] = static_cast<std::uint32_t>(key.v[0] + round * PHILOX_W32_0);
      second[round] = static_cast<std::uint32_t>(key.v[1] + round * PHILOX_W32_1);
    }
  }
};

/// Blocks `first_group` to first_group + kLanes of `random`, whose keys are `keys`.
HWY_INLINE PhiloxWords philox_words(const RandomKey& random, const PhiloxKeys& keys,
                                    std::uint64_t first_group) {
  const Wides step = hn::Set(kWideTag, random.step & 0xFFFFFFFFu);
  const Wides stream = hn::Set(kWideTag, std::uint64_t{random.stream});
  const Wides even_group =
      hn::Add(hn::Set(kWideTag, first_group), hn::ShiftLeft<1>(hn::Iota(kWideTag, 0)));
  const Wides odd_group = hn::Add(even_group, hn::Set(kWideTag, std::uint64_t{1}));
  PhiloxState even{even_group, hn::ShiftRight<32>(even_group), step, stream};
  PhiloxState odd{odd_group, hn::ShiftRight<32>(odd_group), step, stream};
  HWY_UNROLL(kPhiloxRounds)
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const Wides first = hn::Set(kWideTag, keys.first[round]);
    const Wides second = hn::Set(kWideTag, keys.second[round]);
    even = philox_round(even, first, second);
    odd = philox_round(odd, first, second);
  }
  return {merge_halves(even.word0, odd.word0), merge_halves(even.word1, odd.word1),
          merge_halves(even.word2, odd.word2), merge_halves(even.word3, odd.word3)};
}

/// Writes the 16-bit numbers of `groups` Philox blocks of 8 elements, from block `first_group` on.
/// May write up to kLanes blocks more.
inline void random_halves(const RandomKey& random, std::uint64_t first_group, std::size_t groups,
                          std::uint16_t* HWY_RESTRICT halves) {
  const PhiloxKeys keys(random);
  for (std::size_t g = 0; g < groups; g += kLanes) {
    const PhiloxWords state = philox_words(random, keys, first_group + g);
    HWY_ALIGN std::uint32_t words[4 * kLanes];
    hn::StoreInterleaved4(state.word0, state.word1, state.word2, state.word3, kWordTag, words);
    std::memcpy(halves + g * kElementsPerGroup, words, sizeof words);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::core
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
