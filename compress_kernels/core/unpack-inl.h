// Packed codes to one code per lane. Compiled once per target.
#if defined(COMPRESS_KERNELS_CORE_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_CORE_UNPACK_INL_H_
#undef COMPRESS_KERNELS_CORE_UNPACK_INL_H_
#else
#define COMPRESS_KERNELS_CORE_UNPACK_INL_H_
#endif

#include "compress_kernels/core/bit_pack.h"
#include "compress_kernels/core/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::core {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

/// Elements whose codes fill whole bytes for every width and fit one 128-bit load.
constexpr std::size_t kStepElements = 16;
constexpr std::size_t kStepVectors = kStepElements / kLanes;

/// For vector number kVector of a step: the two bytes of the step that hold each lane's code, and
/// how far to shift them.
template <int kBits, std::size_t kVector>
struct Extraction {
  alignas(64) std::uint8_t bytes[4 * kLanes];
  alignas(64) std::uint32_t shifts[kLanes];

  constexpr Extraction() : bytes(), shifts() {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::size_t first_bit = (kVector * kLanes + lane) * kBits;
      const std::size_t byte = first_bit / 8;
      shifts[lane] = static_cast<std::uint32_t>(first_bit % 8);
      bytes[4 * lane] = static_cast<std::uint8_t>(byte);
      bytes[4 * lane + 1] = static_cast<std::uint8_t>(byte + 1 < 16 ? byte + 1 : 0x80);
      bytes[4 * lane + 2] = 0x80;
      bytes[4 * lane + 3] = 0x80;
    }
  }
};

using PackedBytes = hn::Vec<hn::Repartition<std::uint8_t, FloatTag>>;

/// Codes in the lowest bits of each lane, below bits of their neighbours.
template <int kBits, std::size_t kVector>
HWY_INLINE Words align_codes(PackedBytes packed) {
  static constexpr Extraction<kBits, kVector> kExtraction;
  const hn::Repartition<std::uint8_t, FloatTag> byte_tag;
  const Words windows =
      hn::BitCast(kWordTag, hn::TableLookupBytes(packed, hn::Load(byte_tag, kExtraction.bytes)));
  return windows >> hn::Load(kWordTag, kExtraction.shifts);
}

/// The planes of one step, each from its first byte on.
struct PackedPlanes {
  PackedBytes high;
  PackedBytes low;  // Of codes that have such a plane.
};

/// `element` is the first of a step. Reads 16 bytes of each plane.
template <int kBits>
HWY_INLINE PackedPlanes load_planes(Planes<const std::uint8_t> planes, std::size_t element) {
  const hn::Repartition<std::uint8_t, FloatTag> byte_tag;
  PackedPlanes packed{hn::LoadDup128(byte_tag, planes.high + element * high_plane_bits(kBits) / 8),
                      hn::Zero(byte_tag)};
  if constexpr (low_plane_bits(kBits) != 0) {
    packed.low = hn::LoadDup128(byte_tag, planes.low + element * low_plane_bits(kBits) / 8);
  }
  return packed;
}

/// As align_codes(), for codes of any width.
template <int kBits, std::size_t kVector>
HWY_INLINE Words align_planes(const PackedPlanes& packed) {
  constexpr int kLowBits = low_plane_bits(kBits);
  const Words high = align_codes<high_plane_bits(kBits), kVector>(packed.high);
  if constexpr (kLowBits == 0) {
    return high;
  } else {
    const Words mask = hn::Set(kWordTag, (1u << kLowBits) - 1u);
    return hn::OrAnd(hn::ShiftLeft<kLowBits>(high), align_codes<kLowBits, kVector>(packed.low),
                     mask);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::core
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
