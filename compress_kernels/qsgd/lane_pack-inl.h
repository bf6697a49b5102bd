// Whole tiles of packed numbers (lane_pack.h), one function for each width. Compiled once per
// target.
#if defined(COMPRESS_KERNELS_QSGD_LANE_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_QSGD_LANE_PACK_INL_H_
#undef COMPRESS_KERNELS_QSGD_LANE_PACK_INL_H_
#else
#define COMPRESS_KERNELS_QSGD_LANE_PACK_INL_H_
#endif

#include <array>
#include <utility>

#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/qsgd/grid.h"
#include "compress_kernels/qsgd/lane_pack.h"
#include "compress_kernels/qsgd/tile_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::qsgd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::kFloatTag, arrays::kLanes, arrays::kWordTag, arrays::load_any,
    arrays::store_any, arrays::Words;

static_assert(kPackLanes % kLanes == 0);

/// Where word `word` of the lanes from `lane` on lies.
HWY_INLINE std::byte* word_at(std::byte* bytes, std::size_t word, std::size_t lane) {
  return bytes + (word * kPackLanes + lane) * sizeof(std::uint32_t);
}
HWY_INLINE const std::byte* word_at(const std::byte* bytes, std::size_t word, std::size_t lane) {
  return bytes + (word * kPackLanes + lane) * sizeof(std::uint32_t);
}

/// The words of kLanes lanes, filled number by number.
template <int kWidth>
class LanePacker {
 public:
  HWY_INLINE LanePacker(std::byte* bytes, std::size_t lane) : bytes_(bytes), lane_(lane) {}

  /// Takes the number of row kRow; rows come in order.
  template <int kRow>
  HWY_INLINE void put(Words number) {
    constexpr int kShift = kRow * kWidth % 32;
    constexpr std::size_t kWord = kRow * kWidth / 32;
    word_ = kShift == 0 ? number : hn::Or(word_, hn::ShiftLeft<kShift>(number));
    if constexpr (kShift + kWidth >= 32) {
      store_any(word_, kWordTag, word_at(bytes_, kWord, lane_));
      if constexpr (kShift + kWidth > 32) word_ = hn::ShiftRight<32 - kShift>(number);
    }
  }

  /// As put(), of numbers that stand above 8 bits of fraction.
  template <int kRow>
  HWY_INLINE void put_high(Words number) {
    constexpr int kShift = kRow * kWidth % 32;
    constexpr std::size_t kWord = kRow * kWidth / 32;
    constexpr auto kMask = static_cast<std::uint32_t>(((std::uint64_t{1} << kWidth) - 1) << kShift);
    if constexpr (kShift == 0) {
      word_ = hn::ShiftRight<8>(number);
    } else if constexpr (kShift < 8) {
      word_ = hn::OrAnd(word_, hn::ShiftRight<8 - kShift>(number), hn::Set(kWordTag, kMask));
    } else {
      word_ = hn::OrAnd(word_, hn::ShiftLeft<kShift - 8>(number), hn::Set(kWordTag, kMask));
    }
    if constexpr (kShift + kWidth >= 32) {
      store_any(word_, kWordTag, word_at(bytes_, kWord, lane_));
      if constexpr (kShift + kWidth > 32) word_ = hn::ShiftRight<40 - kShift>(number);
    }
  }

 private:
  std::byte* bytes_;
  std::size_t lane_;
  Words word_ = hn::Zero(kWordTag);
};

/// The number of row kRow of kLanes lanes.
template <int kWidth, int kRow>
HWY_INLINE Words get_number(const std::byte* bytes, std::size_t lane) {
  constexpr int kShift = kRow * kWidth % 32;
  constexpr std::size_t kWord = kRow * kWidth / 32;
  Words number = hn::ShiftRight<kShift>(load_any(kWordTag, word_at(bytes, kWord, lane)));
  if constexpr (kShift + kWidth > 32) {
    const Words next = load_any(kWordTag, word_at(bytes, kWord + 1, lane));
    number = hn::Or(number, hn::ShiftLeft<32 - kShift>(next));
  }
  if constexpr (kShift + kWidth == 32) return number;
  return hn::And(number, hn::Set(kWordTag, (1u << kWidth) - 1u));
}

template <int kWidth, int... kRow>
HWY_INLINE void pack_lanes(const std::uint32_t* HWY_RESTRICT numbers, std::size_t lane,
                           std::byte* HWY_RESTRICT bytes, std::integer_sequence<int, kRow...>) {
  LanePacker<kWidth> packer(bytes, lane);
  (packer.template put<kRow>(hn::Load(kWordTag, numbers + kRow * kPackLanes + lane)), ...);
}

template <int kWidth>
void pack_tile_of(const std::uint32_t* HWY_RESTRICT numbers, std::byte* HWY_RESTRICT bytes) {
  for (std::size_t lane = 0; lane < kPackLanes; lane += kLanes) {
    pack_lanes<kWidth>(numbers, lane, bytes, std::make_integer_sequence<int, kRows>());
  }
}

template <int kWidth, bool kAdd, int kRow>
HWY_INLINE void unpack_number(const std::byte* bytes, std::size_t lane, std::uint32_t largest,
                              std::uint32_t* numbers) {
  std::uint32_t* target = numbers + kRow * kPackLanes + lane;
  Words number = get_number<kWidth, kRow>(bytes, lane);
  if constexpr (kAdd) {
    const Words sum = hn::Add(hn::Load(kWordTag, target), number);
    number = hn::Min(sum, hn::Set(kWordTag, largest));
  }
  hn::Store(number, kWordTag, target);
}

template <int kWidth, bool kAdd, int... kRow>
HWY_INLINE void unpack_lanes(const std::byte* HWY_RESTRICT bytes, std::size_t lane,
                             std::uint32_t largest, std::uint32_t* HWY_RESTRICT numbers,
                             std::integer_sequence<int, kRow...>) {
  (unpack_number<kWidth, kAdd, kRow>(bytes, lane, largest, numbers), ...);
}

template <int kWidth, bool kAdd>
void unpack_tile_of(const std::byte* HWY_RESTRICT bytes, std::uint32_t largest,
                    std::uint32_t* HWY_RESTRICT numbers) {
  for (std::size_t lane = 0; lane < kPackLanes; lane += kLanes) {
    unpack_lanes<kWidth, kAdd>(bytes, lane, largest, numbers,
                               std::make_integer_sequence<int, kRows>());
  }
}

/// Sums of up to 1024 ranks need no more. Wider ones are left to the reference: each width costs
/// code, and in builds with sanitizers compilers take minutes over it.
#ifdef RINGPRESS_FEW_KERNELS
constexpr int kWidest = 6;
#else
constexpr int kWidest = 19;
#endif

using PackFunction = void (*)(const std::uint32_t* HWY_RESTRICT, std::byte* HWY_RESTRICT);
using UnpackFunction = void (*)(const std::byte* HWY_RESTRICT, std::uint32_t,
                                std::uint32_t* HWY_RESTRICT);

template <int... kWidthMinusOne>
constexpr std::array<PackFunction, kWidest> pack_functions(
    std::integer_sequence<int, kWidthMinusOne...>) {
  return {pack_tile_of<kWidthMinusOne + 1>...};
}
template <bool kAdd, int... kWidthMinusOne>
constexpr std::array<UnpackFunction, kWidest> unpack_functions(
    std::integer_sequence<int, kWidthMinusOne...>) {
  return {unpack_tile_of<kWidthMinusOne + 1, kAdd>...};
}

inline void pack(const std::uint32_t* numbers, int width, std::byte* bytes) {
  if (width > kWidest) return reference_kernels().pack(numbers, width, bytes);
  static constexpr auto kFunctions = pack_functions(std::make_integer_sequence<int, kWidest>());
  kFunctions[static_cast<std::size_t>(width - 1)](numbers, bytes);
}

inline void unpack(const std::byte* bytes, int width, std::uint32_t* numbers) {
  if (width > kWidest) return reference_kernels().unpack(bytes, width, numbers);
  static constexpr auto kFunctions =
      unpack_functions<false>(std::make_integer_sequence<int, kWidest>());
  kFunctions[static_cast<std::size_t>(width - 1)](bytes, 0, numbers);
}

inline void unpack_add(const std::byte* bytes, int width, std::uint32_t largest,
                       std::uint32_t* numbers) {
  if (width > kWidest) return reference_kernels().unpack_add(bytes, width, largest, numbers);
  static constexpr auto kFunctions =
      unpack_functions<true>(std::make_integer_sequence<int, kWidest>());
  kFunctions[static_cast<std::size_t>(width - 1)](bytes, largest, numbers);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::qsgd
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
