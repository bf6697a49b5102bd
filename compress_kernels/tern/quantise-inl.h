// Values to digits, 128 at a time. Compiled once per target.
#if defined(COMPRESS_KERNELS_TERN_QUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_TERN_QUANTISE_INL_H_
#undef COMPRESS_KERNELS_TERN_QUANTISE_INL_H_
#else
#define COMPRESS_KERNELS_TERN_QUANTISE_INL_H_
#endif

#include "compress_kernels/core/pack-inl.h"
#include "compress_kernels/core/random-inl.h"
#include "compress_kernels/core/tile_walk-inl.h"
#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/tern/digits.h"
#include "compress_kernels/tern/pack_digits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::tern {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::Integers, arrays::kFloatTag, arrays::kIntegerTag, arrays::kLanes,
    arrays::kShortTag, arrays::kWordTag, arrays::load_floats, arrays::Shorts, arrays::Words;

/// Values whose random bits are windows of the same 32 halves.
constexpr std::size_t kPart = kSharing * kSharingDistance;
constexpr std::size_t kTileParts = kTileElements / kPart;
constexpr std::size_t kPartWords = kSharingDistance / 2;
constexpr std::size_t kDrawnParts = 4;  // Philox blocks give random bits for so many parts.

/// The random words of a tile, part after part.
struct RandomWords {
  alignas(64) std::uint32_t words[kTileParts * kPartWords];
};

/// Fills in the words of parts `part` to `part` + kDrawnParts, a multiple of that.
HWY_INLINE void draw(const RandomKey& random, const arrays::PhiloxKeys& keys,
                     std::uint64_t first_group, std::size_t part, RandomWords& all) {
  const std::size_t first = part / kDrawnParts * kPartWords;
  for (std::size_t lane = 0; lane < kPartWords; lane += kLanes) {
    const arrays::PhiloxWords drawn =
        arrays::philox_words(random, keys, first_group + first + lane);
    std::uint32_t* words = all.words + part * kPartWords + lane;
    hn::Store(drawn.word0, kWordTag, words);
    hn::Store(drawn.word1, kWordTag, words + kPartWords);
    hn::Store(drawn.word2, kWordTag, words + 2 * kPartWords);
    hn::Store(drawn.word3, kWordTag, words + 3 * kPartWords);
  }
}

/// Random words in the order in which ReorderDemote2To leaves the halves of two vectors.
HWY_INLINE Words in_order_of_demotion(Words words) {
  HWY_ALIGN std::int32_t order[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) {  // Two words belong to four lanes of floats.
    const std::size_t lane = i / 4;
    const std::size_t second = i % 4 / 2;
    order[i] = static_cast<std::int32_t>(2 * (lane + second * arrays::kPackLanes) + i % 2);
  }
  return hn::TableLookupLanes(words, hn::SetTableIndices(kWordTag, order));
}

template <bool kClamps>
HWY_INLINE Integers fixed_point(const float* x, Floats inverse) {
  Floats y = hn::Mul(load_floats<float>(x, 0), inverse);
  if constexpr (kClamps) {
    const Floats one = hn::Set(kFloatTag, static_cast<float>(kOne));
    y = hn::Max(hn::Min(y, one), hn::Neg(one));
  }
  return arrays::nearest_integers(y);
}

/// Digits before the shift of 2 * kLanes values; `words`: their random words, rotated.
template <bool kClamps>
HWY_INLINE Pairs sums(const float* x, Floats inverse, Words words) {
  const Words one = hn::Set(kWordTag, static_cast<std::uint32_t>(kOne) * 0x10001u);
  const Words fraction = hn::Set(kWordTag, static_cast<std::uint32_t>(kOne - 1) * 0x10001u);
  const Pairs random = hn::BitCast(kPairTag, hn::OrAnd(one, words, fraction));
  const Shorts fixed = hn::ReorderDemote2To(kShortTag, fixed_point<kClamps>(x, inverse),
                                            fixed_point<kClamps>(x + kLanes, inverse));
  return hn::Add(hn::BitCast(kPairTag, fixed), random);
}

/// Stores the digits of two runs of 2 * kLanes values, kSharingDistance apart.
HWY_INLINE void store_digits(Pairs first, Pairs second, std::uint8_t* HWY_RESTRICT digits) {
  alignas(16) static constexpr std::uint8_t kEvenThenOdd[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                                1, 3, 5, 7, 9, 11, 13, 15};
  const Pairs low = hn::ShiftRight<kFractionBits>(first);
  const Pairs high = hn::ShiftRight<kFractionBits - 8>(second);
  const Pairs both = hn::OrAnd(low, high, hn::Set(kPairTag, std::uint16_t{0x300}));
  const Bytes lanes =
      hn::TableLookupBytes(hn::BitCast(kByteTag, both), hn::LoadDup128(kByteTag, kEvenThenOdd));
  const Bytes ordered =
      hn::BitCast(kByteTag, arrays::order_sources(hn::BitCast(kIntegerTag, lanes)));
  if constexpr (2 * kLanes == kSharingDistance) {
    hn::StoreU(ordered, kByteTag, digits);
  } else {
    const hn::Half<ByteTag> half;
    hn::StoreU(hn::LowerHalf(half, ordered), half, digits);
    hn::StoreU(hn::UpperHalf(half, ordered), half, digits + kSharingDistance);
  }
}

/// Digits of x[0 .. kPart). `inverse`: 2^14 / scale of each run of kSharingDistance.
template <bool kClamps>
HWY_INLINE void quantise_part(const arrays::TileInput& input, std::size_t first,
                              const float* inverse, const std::uint32_t* random,
                              std::uint8_t* HWY_RESTRICT digits) {
  constexpr std::size_t kRun = kSharingDistance;
  const float* x = input.x + first;
  const Floats inverse0 = hn::Set(kFloatTag, inverse[0]);
  const Floats inverse1 = hn::Set(kFloatTag, inverse[1]);
  const Floats inverse2 = hn::Set(kFloatTag, inverse[2]);
  const Floats inverse3 = hn::Set(kFloatTag, inverse[3]);
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < kRun; i += 2 * kLanes) {
    const Words words = in_order_of_demotion(hn::Load(kWordTag, random + i / 2));
    if (i == 0) input.prefetch<kRun>(first);
    const Pairs a = sums<kClamps>(x + i, inverse0, words);
    if (i == 0) input.prefetch<kRun>(first + kRun);
    const Pairs b = sums<kClamps>(x + i + kRun, inverse1, hn::RotateRight<kWindowDistance>(words));
    store_digits(a, b, digits + i);
    if (i == 0) input.prefetch<kRun>(first + 2 * kRun);
    const Pairs c =
        sums<kClamps>(x + i + 2 * kRun, inverse2, hn::RotateRight<2 * kWindowDistance>(words));
    if (i == 0) input.prefetch<kRun>(first + 3 * kRun);
    const Pairs d =
        sums<kClamps>(x + i + 3 * kRun, inverse3, hn::RotateRight<3 * kWindowDistance>(words));
    store_digits(c, d, digits + i + 2 * kRun);
  }
}

/// Sum of (x factor)^2 over a block, in the lanes of core::sum_lanes().
inline float sum_of_squares(const float* x, std::size_t block, float factor) {
  constexpr std::size_t kVectors = core::kSumLanes / kLanes;
  HWY_ALIGN float lanes[core::kSumLanes];
  const Floats factors = hn::Set(kFloatTag, factor);
  for (std::size_t v = 0; v < kVectors; ++v) {
    Floats sum = hn::Zero(kFloatTag);
    for (std::size_t i = v * kLanes; i < block; i += core::kSumLanes) {
      const Floats y = hn::Mul(load_floats<float>(x, i), factors);
      sum = hn::Add(sum, hn::Mul(y, y));
    }
    hn::Store(sum, kFloatTag, lanes + v * kLanes);
  }
  return core::sum_lanes(lanes);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::tern
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
