// The kernels of lossless for one target. A tile is taken apart into planes of bytes, of which the
// exponents are coded and all others are already what goes on the wire. Compiled once per target.
#if defined(COMPRESS_KERNELS_LOSSLESS_LOSSLESS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LOSSLESS_LOSSLESS_SIMD_INL_H_
#undef COMPRESS_KERNELS_LOSSLESS_LOSSLESS_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_LOSSLESS_LOSSLESS_SIMD_INL_H_
#endif

#include <cstring>

#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/lossless/coder-inl.h"
#include "compress_kernels/lossless/coder_vbmi2-inl.h"
#include "compress_kernels/lossless/lossless.h"
#include "compress_kernels/lossless/planes-inl.h"
#include "compress_kernels/lossless/window-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lossless {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace arrays = core::HWY_NAMESPACE;

/// A tile of which not all elements are there.
template <typename T>
struct PartialTile {
  HWY_ALIGN std::byte values[kTileElements * sizeof(T)];
  HWY_ALIGN std::byte low[kTileElements];
  HWY_ALIGN std::byte extra[2 * kTileElements];
};

/// Asks for cache lines that will be read or written some tiles later. Any address is allowed.
/// One request per line does more here than the two of prefetch_ahead().
HWY_INLINE void prefetch_for_reading(const void* address) {
  constexpr std::uintptr_t kAheadBytes = 6144;
  const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(address) + kAheadBytes;
  __builtin_prefetch(reinterpret_cast<const void*>(ahead), 0, 3);
}
HWY_INLINE void prefetch_for_writing(const void* address) {
  constexpr std::uintptr_t kAheadBytes = 4096;
  const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(address) + kAheadBytes;
  __builtin_prefetch(reinterpret_cast<const void*>(ahead), 1, 3);
}

/// Takes a whole tile apart; false if all its bits are zero.
template <typename T>
inline bool split_tile(const std::byte* values, const Planes& to) {
  Shorts any = hn::Zero(kShortTag);
  for (std::size_t i = 0; i < kTileElements; i += kVectorBytes) {
    for (std::size_t line = 0; line < kVectorBytes * sizeof(T); line += 64) {
      prefetch_for_reading(values + i * sizeof(T) + line);
    }
    prefetch_for_writing(to.low + i);
    any = hn::Or(any, Splitter<T>::split(values, to, i));
  }
  return !hn::AllTrue(kShortTag, hn::Eq(any, hn::Zero(kShortTag)));
}

template <typename T>
inline void join_tile(const Planes& from, std::byte* values) {
  for (std::size_t i = 0; i < kTileElements; i += kVectorBytes) {
    Splitter<T>::join(from, i, values);
  }
}

/// As split_tile() for the first `count` elements of a tile.
template <typename T>
bool split_partial(const void* values, std::size_t count, const TileParts<T>& at, std::byte* wire,
                   std::uint8_t* exponents) {
  PartialTile<T> tile;
  std::memcpy(tile.values, values, count * sizeof(T));
  std::memset(tile.values + count * sizeof(T), 0, (kTileElements - count) * sizeof(T));
  if (!split_tile<T>(tile.values, {exponents, tile.low, tile.extra})) return false;
  std::memcpy(wire + at.low, tile.low, count);
  std::memcpy(wire + at.extra, tile.extra, at.extra_bytes(count));
  return true;
}

template <typename T>
void join_partial(const TileParts<T>& at, const std::byte* wire, std::size_t count,
                  std::uint8_t* exponents, void* values) {
  PartialTile<T> tile;
  std::memcpy(tile.low, wire + at.low, count);
  std::memset(tile.low + count, 0, kTileElements - count);
  const std::size_t extra_bytes = at.extra_bytes(count);
  std::memcpy(tile.extra, wire + at.extra, extra_bytes);
  std::memset(tile.extra + extra_bytes, 0, sizeof tile.extra - extra_bytes);
  join_tile<T>({exponents, tile.low, tile.extra}, tile.values);
  std::memcpy(values, tile.values, count * sizeof(T));
}

template <typename T, class Coder>
std::size_t encode(const void* values, std::size_t count, std::byte* wire) {
  const TileParts<T> at(count);
  // From the values, not from the exponents: so a processor can look ahead and do both at once.
  const Window window = choose<T>(values, count);
  Exponents exponents;
  const bool any = count == kTileElements
                       ? split_tile<T>(static_cast<const std::byte*>(values),
                                       {exponents.bytes, wire + at.low, wire + at.extra})
                       : split_partial<T>(values, count, at, wire, exponents.bytes);
  if (!any) {
    write_header(TileMode::kZero, {}, wire);
    return kHeaderBytes;
  }
  write_header(TileMode::kCoded, window, wire);
  const std::byte* end =
      Coder::encode(exponents, count, window, wire + at.short_codes, wire + at.long_codes);
  const std::size_t raw_bytes = kHeaderBytes + count * sizeof(T);
  const auto bytes = static_cast<std::size_t>(end - wire);
  if (bytes < raw_bytes) return bytes;
  write_header(TileMode::kRaw, {}, wire);
  std::memcpy(wire + kHeaderBytes, values, count * sizeof(T));
  return raw_bytes;
}

template <typename T, class Coder>
std::size_t decode_coded(const std::byte* wire, std::size_t bytes, const Window& window,
                         std::size_t count, void* values) {
  const TileParts<T> at(count);
  Codes codes;
  if (bytes < at.long_codes ||
      !find_codes(wire + at.short_codes, at.groups, wire + at.long_codes, wire + bytes, &codes)) {
    return 0;
  }
  Exponents exponents;
  Coder::decode(codes, window, at.groups, exponents);
  if (count == kTileElements) {
    // The planes are only read.
    join_tile<T>({exponents.bytes, const_cast<std::byte*>(wire) + at.low,
                  const_cast<std::byte*>(wire) + at.extra},
                 static_cast<std::byte*>(values));
  } else {
    std::memset(exponents.bytes + at.groups * kGroup, 0, kTileElements - at.groups * kGroup);
    join_partial<T>(at, wire, count, exponents.bytes, values);
  }
  return static_cast<std::size_t>(codes.end - wire);
}

template <typename T, class Coder>
std::size_t decode(const std::byte* wire, std::size_t bytes, std::size_t count, void* values) {
  TileMode mode;
  Window window;
  if (bytes < kHeaderBytes || !read_header(wire, &mode, &window)) return 0;
  if (mode == TileMode::kCoded) return decode_coded<T, Coder>(wire, bytes, window, count, values);
  return decode_uncoded(mode, wire, bytes, count * sizeof(T), values);
}

template <typename T>
void load(const void* values, std::size_t count, float* sum) {
  arrays::load_elements<T, false>(values, 0, count, sum);
}

template <typename T>
void add(const void* values, std::size_t count, float* sum) {
  arrays::load_elements<T, true>(values, 0, count, sum);
}

template <typename T>
void finish(float* sum, std::size_t divisor, std::size_t count, void* values) {
  if (divisor != 1) arrays::divide_floats(divisor, count, sum);
  arrays::store_elements<T>(sum, count, values, 0);
}

template <typename T, class Coder>
constexpr TileKernels kKernels{encode<T, Coder>, decode<T, Coder>, load<T>, add<T>, finish<T>};

template <class Coder>
constexpr KernelSet kKernelSet{kKernels<float, Coder>, kKernels<core::Float16, Coder>,
                               kKernels<core::Bfloat16, Coder>};

inline const KernelSet& kernels() {
#if HWY_TARGET == HWY_AVX3
  if (has_vbmi2()) return kKernelSet<Vbmi2Coder>;
#endif
  return kKernelSet<BitCoder>;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lossless
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
