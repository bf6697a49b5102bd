// Vectors of elements to vectors of their bytes and back, in the order of the elements; bits of 64
// bytes to words and back. Compiled once per target.
#if defined(COMPRESS_KERNELS_LOSSLESS_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LOSSLESS_BYTES_INL_H_
#undef COMPRESS_KERNELS_LOSSLESS_BYTES_INL_H_
#else
#define COMPRESS_KERNELS_LOSSLESS_BYTES_INL_H_
#endif

#include "compress_kernels/core/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lossless {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::ScalableTag<std::uint8_t>;
using ShortTag = hn::ScalableTag<std::uint16_t>;
using WordTag = hn::ScalableTag<std::uint32_t>;
using Bytes = hn::Vec<ByteTag>;
using Shorts = hn::Vec<ShortTag>;
using Words = hn::Vec<WordTag>;

constexpr ByteTag kByteTag;
constexpr ShortTag kShortTag;
constexpr WordTag kWordTag;
constexpr std::size_t kVectorBytes = hn::MaxLanes(kByteTag);

// Packs and interleavings work within 128 bits; these move 64-bit quarters to where that gives the
// order of the elements. The masked forms do not warn in GCC 12.
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE Shorts pack(Words a, Words b) {
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  const __m512i packed = _mm512_packus_epi32(a.raw, b.raw);
  return Shorts{_mm512_maskz_permutexvar_epi64(0xFF, order, packed)};
}
template <class V>
HWY_INLINE V before_interleaving(V v) {
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  return V{_mm512_maskz_permutexvar_epi64(0xFF, order, v.raw)};
}
#else
HWY_INLINE Bytes pack(Shorts a, Shorts b) {
  return Bytes{_mm256_permute4x64_epi64(_mm256_packus_epi16(a.raw, b.raw), 0xD8)};
}
HWY_INLINE Shorts pack(Words a, Words b) {
  return Shorts{_mm256_permute4x64_epi64(_mm256_packus_epi32(a.raw, b.raw), 0xD8)};
}
template <class V>
HWY_INLINE V before_interleaving(V v) {
  return V{_mm256_permute4x64_epi64(v.raw, 0xD8)};
}
#endif

/// Numbers below 256 to bytes, in an order of its own.
HWY_INLINE Bytes pack_in_any_order(Shorts a, Shorts b) {
#if HWY_TARGET <= HWY_AVX3
  return Bytes{_mm512_packus_epi16(a.raw, b.raw)};
#else
  return pack(a, b);
#endif
}

/// The bytes of two vectors.
struct BytePair {
  Bytes lower;
  Bytes upper;
};
HWY_INLINE BytePair split_bytes(Shorts a, Shorts b) {
#if HWY_TARGET <= HWY_AVX3
  // Lower and upper bytes together in each 128 bits, then all the lower and all the upper ones.
  const hn::Repartition<std::uint64_t, ByteTag> long_tag;
  alignas(16) static constexpr std::uint64_t kOrder[] = {0x0E0C0A0806040200u, 0x0F0D0B0907050301u};
  const Bytes order = hn::BitCast(kByteTag, hn::LoadDup128(long_tag, kOrder));
  const __m512i first = hn::TableLookupBytes(hn::BitCast(kByteTag, a), order).raw;
  const __m512i second = hn::TableLookupBytes(hn::BitCast(kByteTag, b), order).raw;
  const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
  const __m512i odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
  return {Bytes{_mm512_permutex2var_epi64(first, even, second)},
          Bytes{_mm512_permutex2var_epi64(first, odd, second)}};
#else
  const Shorts mask = hn::Set(kShortTag, std::uint16_t{0xFF});
  return {pack(hn::And(a, mask), hn::And(b, mask)),
          pack(hn::ShiftRight<8>(a), hn::ShiftRight<8>(b))};
#endif
}

HWY_INLINE Shorts rotate_lefts(Shorts v) {
  return hn::Or(hn::Add(v, v), hn::ShiftRight<15>(v));
}
HWY_INLINE Shorts rotate_rights(Shorts v) {
  return hn::Or(hn::ShiftRight<1>(v), hn::ShiftLeft<15>(v));
}

/// 64 bits, one for each of the bytes of a group.
using Bits = std::uint64_t;

/// Puts the bits of the mask of one vector, whose first byte is number `first` of the group.
template <class Mask>
HWY_INLINE void put_bits(Mask mask, std::size_t first, Bits* bits) {
  hn::StoreMaskBits(kByteTag, mask, reinterpret_cast<std::uint8_t*>(bits) + first / 8);
}
HWY_INLINE auto get_bits(const Bits* bits, std::size_t first) {
  return hn::LoadMaskBits(kByteTag, reinterpret_cast<const std::uint8_t*>(bits) + first / 8);
}

/// The bits of `bits` where `at` has bits, moved together; and back.
HWY_INLINE Bits gather_bits(Bits bits, Bits at) {
  return _pext_u64(bits, at);
}
HWY_INLINE Bits spread_bits(Bits bits, Bits at) {
  return _pdep_u64(bits, at);
}
HWY_INLINE std::size_t count_bits(Bits bits) {
  return static_cast<std::size_t>(__builtin_popcountll(bits));
}

HWY_INLINE Bits load_bits(const void* address) {
  Bits bits;
  std::memcpy(&bits, address, sizeof bits);
  return bits;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lossless
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
