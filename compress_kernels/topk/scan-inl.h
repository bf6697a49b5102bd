// How topk looks for few elements among many: x, a vector at a time, and the places of those that
// pass a comparison, 64 elements at a time. Compiled once per target.
#if defined(COMPRESS_KERNELS_TOPK_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_TOPK_SCAN_INL_H_
#undef COMPRESS_KERNELS_TOPK_SCAN_INL_H_
#else
#define COMPRESS_KERNELS_TOPK_SCAN_INL_H_
#endif

#include <bit>
#include <type_traits>

#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/topk/kernels.h"
#include "compress_kernels/topk/source.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::topk {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::kFloatTag, arrays::kLanes, arrays::kWordTag, arrays::Words;

// Magnitudes are below 2^31: comparisons of signed integers, which every target has, order them.
using SignedTag = hn::RebindToSigned<arrays::WordTag>;
using Signeds = hn::Vec<SignedTag>;
using SignedMask = hn::Mask<SignedTag>;
constexpr SignedTag kSignedTag;

HWY_INLINE Signeds set_magnitude(std::uint64_t key) {
  return hn::Set(kSignedTag, static_cast<std::int32_t>(key >> 32));
}

HWY_INLINE Signeds magnitudes_of(Floats x) {
  const Signeds mask = hn::Set(kSignedTag, static_cast<std::int32_t>(core::kMagnitudeMask));
  return hn::And(hn::BitCast(kSignedTag, x), mask);
}

// Elements that are looked at before what was found is taken out of the first-level cache.
constexpr std::size_t kBlock = 2048;
// Elements whose masks become one list of indices at a time, without a branch per vector, which
// could not be predicted.
constexpr std::size_t kWord = 64;
// A word's entries that are written whether they are there or not: mostly there are no more.
// Writing further ones several at a time is faster in the cache and 20 % slower from memory.
constexpr std::size_t kFirstEntries = 3;
// Room that a list needs beyond its end.
constexpr std::size_t kListSlack = 3;

/// Sources whose x need not be kept.
template <typename T, bool kResidual>
inline constexpr bool kIsPlain = std::is_same_v<T, float> && !kResidual;

/// Loads vector number `vector` of a word of 64 elements, of which `i` is the first.
template <typename T, bool kResidual>
HWY_INLINE Floats load_x(const Source& source, std::size_t i, std::size_t vector, float* kept) {
  const std::size_t at = i + vector * kLanes;
  arrays::prefetch_ahead(arrays::at<T>(source.values, at));
  Floats x = arrays::load_floats<T>(source.values, at);
  if constexpr (kResidual) {
    arrays::prefetch_ahead(source.residual + at);
    x = hn::Add(x, arrays::load_floats<float>(source.residual, at));
  }
  if constexpr (!kIsPlain<T, kResidual>) hn::Store(x, kFloatTag, kept + vector * kLanes);
  return x;
}

/// The bits of vector number `vector` of a word.
HWY_INLINE std::uint64_t bits_of(SignedMask mask, std::size_t vector) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(kSignedTag, mask, bytes);
  std::uint64_t bits = 0;
  if constexpr (kLanes == 16) {
    bits = core::load_element<std::uint16_t>(bytes, 0);
  } else {
    bits = bytes[0] & ((1u << kLanes) - 1u);
  }
  return bits << (vector * kLanes);
}

/// Appends the numbers of the bits that are set, counted from `first`, to a list. Returns its end.
HWY_INLINE std::uint32_t* list_bits(std::uint64_t bits, std::size_t first, std::uint32_t* list) {
  const auto start = static_cast<std::uint32_t>(first);
  const auto number = static_cast<std::size_t>(std::popcount(bits));
  for (std::size_t i = 0; i < kFirstEntries; ++i) {
    list[i] = start + static_cast<std::uint32_t>(std::countr_zero(bits));
    bits &= bits - 1;
  }
  for (std::size_t i = kFirstEntries; HWY_UNLIKELY(i < number); ++i) {
    list[i] = start + static_cast<std::uint32_t>(std::countr_zero(bits));
    bits &= bits - 1;
  }
  return list + number;
}

/// x of element `index` of the block that begins with element `first` of the source.
template <typename T, bool kResidual>
HWY_INLINE float x_of(const Source& source, std::size_t first, std::size_t index,
                      const float* kept) {
  if constexpr (kIsPlain<T, kResidual>) {
    return core::load_element<float>(source.values, first + index);
  } else {
    return kept[index];
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::topk
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
