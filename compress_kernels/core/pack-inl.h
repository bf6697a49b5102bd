// Packs the codes of four vectors into contiguous bits. Compiled once per target.
//
// Codes arrive as signed 32-bit integers, shifted by a constant so that they fit the saturating
// packs; neighbours are merged by multiply-add in 16 bits, then by shifts in 64 bits, and the
// constant is added back to the merged codes at once.
#if defined(COMPRESS_KERNELS_CORE_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_CORE_PACK_INL_H_
#undef COMPRESS_KERNELS_CORE_PACK_INL_H_
#else
#define COMPRESS_KERNELS_CORE_PACK_INL_H_
#endif

#include "compress_kernels/core/bit_pack.h"
#include "compress_kernels/core/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::core {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

using IntegerTag = hn::RebindToSigned<WordTag>;
using ShortTag = hn::Repartition<std::int16_t, IntegerTag>;
using ByteTag = hn::Repartition<std::uint8_t, IntegerTag>;
using LongTag = hn::Repartition<std::uint64_t, IntegerTag>;
using Integers = hn::Vec<IntegerTag>;
using Shorts = hn::Vec<ShortTag>;
using Longs = hn::Vec<LongTag>;

constexpr IntegerTag kIntegerTag;
constexpr ShortTag kShortTag;
constexpr LongTag kLongTag;
/// Codes that one call of pack_codes() takes.
constexpr std::size_t kPackElements = 4 * kLanes;
constexpr std::size_t kPackLanes = kLanes / 4;  // Of 128 bits.

/// The nearest integers, ties to even, of numbers that fit. Highway's NearestInt also handles those
/// that do not, at the price of two more operations.
HWY_INLINE Integers nearest_integers(Floats x) {
#if HWY_TARGET == HWY_AVX3
  return Integers{_mm512_maskz_cvtps_epi32(0xFFFF, x.raw)};  // The plain form warns in GCC 12.
#else
  return Integers{_mm256_cvtps_epi32(x.raw)};
#endif
}

/// low + high * 2^kShift for each pair of neighbouring 16-bit numbers. kShift < 15.
template <int kShift>
HWY_INLINE Integers merge_pairs(Shorts pairs) {
  const Shorts factors =
      hn::BitCast(kShortTag, hn::Set(kIntegerTag, 1 | (std::int32_t{1} << (16 + kShift))));
  Integers unused = hn::Zero(kIntegerTag);
  return hn::ReorderWidenMulAccumulate(kIntegerTag, pairs, factors, hn::Zero(kIntegerTag), unused);
}

/// Puts the 32-bit pieces that packing left in (lane, source) order into (source, lane) order.
HWY_INLINE Integers order_sources(Integers pieces) {
  HWY_ALIGN std::int32_t order[4 * kPackLanes];
  for (std::size_t i = 0; i < 4 * kPackLanes; ++i) {
    order[i] = static_cast<std::int32_t>((i % kPackLanes) * 4 + i / kPackLanes);
  }
  return hn::TableLookupLanes(pieces, hn::SetTableIndices(kIntegerTag, order));
}

/// Sum of kOffset * 2^(i * kBits) for i < 4: the constant part of four merged codes.
template <int kBits, int kOffset>
constexpr std::int32_t merged_offset() {
  std::uint32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<std::uint32_t>(kOffset) << (i * kBits);
  return static_cast<std::int32_t>(sum);
}

/// Moves the lowest kBits bytes of both halves of each 128-bit lane to its start, then the lanes
/// together, and stores them. Writes a whole vector.
template <int kBits>
HWY_INLINE void store_packed(Longs merged, std::uint8_t* HWY_RESTRICT bytes) {
  const ByteTag byte_tag;
  alignas(16) std::uint8_t compress[16];
  for (int i = 0; i < 16; ++i) {
    const int source = i < kBits ? i : 8 + i - kBits;
    compress[i] = static_cast<std::uint8_t>(i < 2 * kBits ? source : 0x80);
  }
  const auto dense =
      hn::TableLookupBytes(hn::BitCast(byte_tag, merged), hn::LoadDup128(byte_tag, compress));
  if constexpr (kBits % 2 == 0) {
    constexpr int kPieces = kBits / 2;  // Of 32 bits, per lane.
    HWY_ALIGN std::int32_t order[4 * kPackLanes];
    for (int i = 0; i < static_cast<int>(4 * kPackLanes); ++i) {
      const int used = i < static_cast<int>(kPackLanes) * kPieces ? i : 0;
      order[i] = (used / kPieces) * 4 + used % kPieces;
    }
    const Integers ordered = hn::TableLookupLanes(hn::BitCast(kIntegerTag, dense),
                                                  hn::SetTableIndices(kIntegerTag, order));
    hn::StoreU(hn::BitCast(byte_tag, ordered), byte_tag, bytes);
  } else {
    HWY_ALIGN std::uint8_t lanes[16 * kPackLanes];
    hn::Store(dense, byte_tag, lanes);
    const hn::Full128<std::uint8_t> lane_tag;
    for (std::size_t lane = 0; lane < kPackLanes; ++lane) {
      hn::StoreU(hn::Load(lane_tag, lanes + 16 * lane), lane_tag, bytes + 2 * kBits * lane);
    }
  }
}

/// Stores kPackElements codes of kBits bits, given as code - kOffset in element order. Writes up to
/// one whole vector from `bytes` on, of which kPackElements * kBits / 8 bytes are the codes.
template <int kBits, int kOffset>
HWY_INLINE void pack_codes(Integers a, Integers b, Integers c, Integers d,
                           std::uint8_t* HWY_RESTRICT bytes) {
  Integers ab = merge_pairs<kBits>(hn::ReorderDemote2To(kShortTag, a, b));
  Integers cd = merge_pairs<kBits>(hn::ReorderDemote2To(kShortTag, c, d));
  if constexpr (kBits == 8) {
    // Two codes fill 16 bits: without an offset they would saturate as signed numbers.
    constexpr std::int32_t kHalf = kOffset == 0 ? 0x8000 : 0;
    ab = hn::Sub(ab, hn::Set(kIntegerTag, kHalf));
    cd = hn::Sub(cd, hn::Set(kIntegerTag, kHalf));
    const Integers pieces =
        order_sources(hn::BitCast(kIntegerTag, hn::ReorderDemote2To(kShortTag, ab, cd)));
    constexpr std::int32_t kPair = kHalf + kOffset * 257;
    const Shorts codes = hn::Add(hn::BitCast(kShortTag, pieces),
                                 hn::Set(kShortTag, static_cast<std::int16_t>(kPair)));
    const ByteTag byte_tag;
    hn::StoreU(hn::BitCast(byte_tag, codes), byte_tag, bytes);
  } else {
    const Integers fours = merge_pairs<2 * kBits>(hn::ReorderDemote2To(kShortTag, ab, cd));
    const Integers offset = hn::Set(kIntegerTag, merged_offset<kBits, kOffset>());
    const Longs pieces = hn::BitCast(kLongTag, hn::Add(order_sources(fours), offset));
    const Longs high = hn::ShiftRight<32 - 4 * kBits>(pieces);
    if constexpr (kBits <= 4) {
      store_packed<kBits>(hn::Or(pieces, high), bytes);
    } else {
      const Longs low_mask = hn::Set(kLongTag, (std::uint64_t{1} << (4 * kBits)) - 1);
      // Not IfVecThenElse: below AVX-512 that takes whole bytes from either side.
      const Longs merged = hn::OrAnd(hn::AndNot(low_mask, high), pieces, low_mask);
      store_packed<kBits>(merged, bytes);
    }
  }
}

/// As pack_codes(), for codes of any width: every plane is written as if it were alone.
template <int kBits, int kOffset>
HWY_INLINE void pack_planes(Integers a, Integers b, Integers c, Integers d,
                            Planes<std::uint8_t> planes) {
  constexpr int kLowBits = low_plane_bits(kBits);
  if constexpr (kLowBits == 0) {
    pack_codes<kBits, kOffset>(a, b, c, d, planes.high);
  } else {
    const Integers offset = hn::Set(kIntegerTag, kOffset);
    a = hn::Add(a, offset);
    b = hn::Add(b, offset);
    c = hn::Add(c, offset);
    d = hn::Add(d, offset);
    pack_codes<kHighPlaneBits, 0>(hn::ShiftRight<kLowBits>(a), hn::ShiftRight<kLowBits>(b),
                                  hn::ShiftRight<kLowBits>(c), hn::ShiftRight<kLowBits>(d),
                                  planes.high);
    const Integers mask = hn::Set(kIntegerTag, (1 << kLowBits) - 1);
    pack_codes<kLowBits, 0>(hn::And(a, mask), hn::And(b, mask), hn::And(c, mask), hn::And(d, mask),
                            planes.low);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::core
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
