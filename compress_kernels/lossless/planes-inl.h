// Elements to their parts (exponents, lower bytes, the rest) and back. Compiled once per target.
#if defined(COMPRESS_KERNELS_LOSSLESS_PLANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LOSSLESS_PLANES_INL_H_
#undef COMPRESS_KERNELS_LOSSLESS_PLANES_INL_H_
#else
#define COMPRESS_KERNELS_LOSSLESS_PLANES_INL_H_
#endif

#include "compress_kernels/lossless/bytes-inl.h"
#include "compress_kernels/lossless/tile.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lossless {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// Where the parts of a tile are; `exponents` is aligned.
struct Planes {
  std::uint8_t* exponents = nullptr;
  std::byte* low = nullptr;
  std::byte* extra = nullptr;
};

/// Takes kVectorBytes elements at a time apart and puts them together again.
template <typename T>
struct Splitter;

template <>
struct Splitter<core::Bfloat16> {
  /// Returns the vectors' bits, for a test for zeros.
  static HWY_INLINE Shorts split(const std::byte* values, const Planes& to, std::size_t i) {
    const std::byte* from = values + 2 * i;
    return store(core::HWY_NAMESPACE::load_any(kShortTag, from),
                 core::HWY_NAMESPACE::load_any(kShortTag, from + kVectorBytes), to, i);
  }
  static HWY_INLINE void join(const Planes& from, std::size_t i, std::byte* values) {
    std::byte* to = values + 2 * i;
    const Halves halves = load(from, i);
    core::HWY_NAMESPACE::store_any(halves.first, kShortTag, to);
    core::HWY_NAMESPACE::store_any(halves.second, kShortTag, to + kVectorBytes);
  }

  struct Halves {
    Shorts first;
    Shorts second;
  };
  static HWY_INLINE Shorts store(Shorts a, Shorts b, const Planes& to, std::size_t i) {
    const Shorts first = rotate_lefts(a);
    const Shorts second = rotate_lefts(b);
    const BytePair bytes = split_bytes(first, second);
    hn::Store(bytes.upper, kByteTag, to.exponents + i);
    core::HWY_NAMESPACE::store_any(bytes.lower, kByteTag, to.low + i);
    return hn::Or(a, b);
  }
  static HWY_INLINE Halves load(const Planes& from, std::size_t i) {
    const Bytes upper = before_interleaving(hn::Load(kByteTag, from.exponents + i));
    const Bytes lower = before_interleaving(core::HWY_NAMESPACE::load_any(kByteTag, from.low + i));
    return {rotate_rights(hn::BitCast(kShortTag, hn::InterleaveLower(kByteTag, lower, upper))),
            rotate_rights(hn::BitCast(kShortTag, hn::InterleaveUpper(kByteTag, lower, upper)))};
  }
};

template <>
struct Splitter<core::Float16> {
  static HWY_INLINE Shorts split(const std::byte* values, const Planes& to, std::size_t i) {
    const Shorts a = core::HWY_NAMESPACE::load_any(kShortTag, values + 2 * i);
    const Shorts b = core::HWY_NAMESPACE::load_any(kShortTag, values + 2 * i + kVectorBytes);
    const Shorts first = rotate_lefts(a);
    const Shorts second = rotate_lefts(b);
    const auto [lower, upper] = split_bytes(first, second);
    core::HWY_NAMESPACE::store_any(lower, kByteTag, to.low + i);
    const Shorts shifted = hn::ShiftRight<3>(hn::BitCast(kShortTag, upper));
    hn::Store(hn::And(hn::BitCast(kByteTag, shifted), hn::Set(kByteTag, std::uint8_t{31})),
              kByteTag, to.exponents + i);
    put_plane(upper, 0, to, i);
    put_plane(upper, 1, to, i);
    put_plane(upper, 2, to, i);
    return hn::Or(a, b);
  }
  static HWY_INLINE void join(const Planes& from, std::size_t i, std::byte* values) {
    const Shorts shifted =
        hn::ShiftLeft<3>(hn::BitCast(kShortTag, hn::Load(kByteTag, from.exponents + i)));
    Bytes upper = hn::And(hn::BitCast(kByteTag, shifted), hn::Set(kByteTag, std::uint8_t{0xF8}));
    upper = hn::Or(upper, get_plane(0, from, i));
    upper = hn::Or(upper, get_plane(1, from, i));
    upper = before_interleaving(hn::Or(upper, get_plane(2, from, i)));
    const Bytes lower = before_interleaving(core::HWY_NAMESPACE::load_any(kByteTag, from.low + i));
    std::byte* to = values + 2 * i;
    core::HWY_NAMESPACE::store_any(
        rotate_rights(hn::BitCast(kShortTag, hn::InterleaveLower(kByteTag, lower, upper))),
        kShortTag, to);
    core::HWY_NAMESPACE::store_any(
        rotate_rights(hn::BitCast(kShortTag, hn::InterleaveUpper(kByteTag, lower, upper))),
        kShortTag, to + kVectorBytes);
  }

 private:
  static HWY_INLINE std::uint8_t* plane(std::byte* extra, int number, std::size_t i) {
    const std::size_t group = i / kGroup;
    return reinterpret_cast<std::uint8_t*>(extra) +
           8 * (3 * group + static_cast<unsigned>(number)) + i % kGroup / 8;
  }
  static HWY_INLINE void put_plane(Bytes upper, int number, const Planes& to, std::size_t i) {
    const Bytes bit = hn::Set(kByteTag, static_cast<std::uint8_t>(1 << number));
    hn::StoreMaskBits(kByteTag, hn::TestBit(upper, bit), plane(to.extra, number, i));
  }
  static HWY_INLINE Bytes get_plane(int number, const Planes& from, std::size_t i) {
    const Bytes bit = hn::Set(kByteTag, static_cast<std::uint8_t>(1 << number));
    return hn::IfThenElseZero(hn::LoadMaskBits(kByteTag, plane(from.extra, number, i)), bit);
  }
};

template <>
struct Splitter<float> {
  using Upper = Splitter<core::Bfloat16>;

  static HWY_INLINE Shorts split(const std::byte* values, const Planes& to, std::size_t i) {
    const std::byte* from = values + 4 * i;
    const Halves a = take(from);
    const Halves b = take(from + 2 * kVectorBytes);
    core::HWY_NAMESPACE::store_any(a.lower, kShortTag, to.extra + 2 * i);
    core::HWY_NAMESPACE::store_any(b.lower, kShortTag, to.extra + 2 * i + kVectorBytes);
    return hn::Or(Upper::store(a.upper, b.upper, to, i), hn::Or(a.lower, b.lower));
  }
  static HWY_INLINE void join(const Planes& from, std::size_t i, std::byte* values) {
    const Upper::Halves upper = Upper::load(from, i);
    std::byte* to = values + 4 * i;
    put(upper.first, from.extra + 2 * i, to);
    put(upper.second, from.extra + 2 * i + kVectorBytes, to + 2 * kVectorBytes);
  }

 private:
  struct Halves {
    Shorts upper;
    Shorts lower;
  };
  /// Of two vectors of elements.
  static HWY_INLINE Halves take(const std::byte* from) {
    const Words a = core::HWY_NAMESPACE::load_any(kWordTag, from);
    const Words b = core::HWY_NAMESPACE::load_any(kWordTag, from + kVectorBytes);
    const Words mask = hn::Set(kWordTag, 0xFFFFu);
    return {pack(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b)),
            pack(hn::And(a, mask), hn::And(b, mask))};
  }
  static HWY_INLINE void put(Shorts upper, const std::byte* lower_from, std::byte* to) {
    const Shorts high = before_interleaving(upper);
    const Shorts low = before_interleaving(core::HWY_NAMESPACE::load_any(kShortTag, lower_from));
    core::HWY_NAMESPACE::store_any(hn::BitCast(kWordTag, hn::InterleaveLower(kShortTag, low, high)),
                                   kWordTag, to);
    core::HWY_NAMESPACE::store_any(hn::BitCast(kWordTag, hn::InterleaveUpper(kShortTag, low, high)),
                                   kWordTag, to + kVectorBytes);
  }
};

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lossless
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
