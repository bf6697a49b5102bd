// The values of topk (value_code.h), a vector at a time. Compiled once per target.
#if defined(COMPRESS_KERNELS_TOPK_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_TOPK_VALUES_INL_H_
#undef COMPRESS_KERNELS_TOPK_VALUES_INL_H_
#else
#define COMPRESS_KERNELS_TOPK_VALUES_INL_H_
#endif

#include <algorithm>

#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/topk/topk.h"
#include "compress_kernels/topk/value_code.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::topk {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::kFloatTag, arrays::kLanes, arrays::kWordTag, arrays::Words;

// All words that are compared here are below 2^31.
using ValueTag = hn::RebindToSigned<arrays::WordTag>;
using ValueWords = hn::Vec<ValueTag>;
constexpr ValueTag kValueTag;
constexpr hn::Rebind<std::uint8_t, arrays::FloatTag> kByteTag;
constexpr hn::Rebind<std::uint16_t, arrays::FloatTag> kHalfTag;

HWY_INLINE ValueWords set_word(std::uint32_t word) {
  return hn::Set(kValueTag, static_cast<std::int32_t>(word));
}
HWY_INLINE ValueWords magnitude_words(Floats values) {
  return hn::And(hn::BitCast(kValueTag, values), set_word(core::kMagnitudeMask));
}
HWY_INLINE ValueWords sign_words(Floats values) {
  return hn::BitCast(kValueTag,
                     hn::And(hn::BitCast(kWordTag, values), hn::Set(kWordTag, core::kSignBit)));
}

Extent extent_of(const float* values, std::size_t count) {
  const ValueWords infinity = set_word(core::kInfinityBits);
  ValueWords largest = hn::Zero(kValueTag);
  ValueWords smallest = infinity;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const ValueWords magnitude = magnitude_words(hn::LoadU(kFloatTag, values + i));
    const auto finite = hn::Lt(magnitude, infinity);
    largest = hn::Max(largest, hn::IfThenElseZero(finite, magnitude));
    const auto counts = hn::And(finite, hn::Gt(magnitude, hn::Zero(kValueTag)));
    smallest = hn::Min(smallest, hn::IfThenElse(counts, magnitude, infinity));
  }
  Extent extent;
  extent.largest = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(kValueTag, largest)));
  extent.smallest = static_cast<std::uint32_t>(hn::GetLane(hn::MinOfLanes(kValueTag, smallest)));
  for (; i < count; ++i) {
    const std::uint32_t magnitude = core::magnitude_bits(values[i]);
    if (magnitude == 0 || magnitude >= core::kInfinityBits) continue;
    extent.largest = std::max(extent.largest, magnitude);
    extent.smallest = std::min(extent.smallest, magnitude);
  }
  return extent;
}

/// encode_value() of each lane, in 32 bits.
HWY_INLINE ValueWords encode_vector(Floats values, const Grid& grid) {
  const ValueWords magnitude = magnitude_words(values);
  const ValueWords low = set_word(grid.low);
  const Floats steps = hn::ConvertTo(kFloatTag, hn::Sub(magnitude, low));
  const Floats scaled = hn::Mul(steps, hn::Set(kFloatTag, grid.inverse));
  const Floats limited = hn::Min(scaled, hn::Set(kFloatTag, static_cast<float>(kSteps)));
  ValueWords code = hn::Add(hn::NearestInt(limited), hn::Set(kValueTag, 1));
  // Below the grid: its first step, or zero.
  const auto far = hn::Lt(hn::Add(magnitude, set_word(kOctave)), low);
  const ValueWords below = hn::IfThenZeroElse(far, hn::Set(kValueTag, 1));
  code = hn::IfThenElse(hn::Lt(magnitude, low), below, code);
  code = hn::IfThenElseZero(hn::Gt(magnitude, hn::Zero(kValueTag)), code);
  const auto is_zero = hn::Eq(code, hn::Zero(kValueTag));
  const ValueWords sign =
      hn::BitCast(kValueTag, hn::ShiftRight<24>(hn::BitCast(kWordTag, sign_words(values))));
  code = hn::IfThenZeroElse(is_zero, hn::Or(code, sign));
  const auto finite = hn::Lt(magnitude, set_word(core::kInfinityBits));
  return hn::IfThenElse(finite, code, set_word(kNanCode));
}

/// decode_value() of each lane.
HWY_INLINE Floats decode_vector(ValueWords code, const Grid& grid) {
  const ValueWords magnitude = hn::And(code, set_word(0x7Fu));
  const ValueWords steps = hn::Sub(magnitude, hn::Set(kValueTag, 1));
  ValueWords bits = hn::Add(set_word(grid.low), hn::Mul(steps, set_word(grid.step)));
  const ValueWords sign = hn::ShiftLeft<24>(hn::And(code, set_word(0x80u)));
  bits = hn::Or(bits, sign);
  bits = hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(kValueTag)), bits);
  const auto is_nan = hn::Eq(magnitude, set_word(kNanCode));
  return hn::BitCast(kFloatTag, hn::IfThenElse(is_nan, set_word(core::kCanonicalNanBits), bits));
}

void write_codes(const float* values, std::size_t count, std::byte* wire, float* decoded) {
  const Scale scale = scale_of(extent_of(values, count));
  core::store_element(wire, 0, scale);
  const Grid grid = grid_of(scale);
  wire += kScaleBytes;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const ValueWords code = encode_vector(hn::LoadU(kFloatTag, values + i), grid);
    arrays::store_any(hn::TruncateTo(kByteTag, hn::BitCast(kWordTag, code)), kByteTag, wire + i);
    hn::StoreU(decode_vector(code, grid), kFloatTag, decoded + i);
  }
  for (; i < count; ++i) {
    const std::uint8_t code = encode_value(values[i], grid);
    core::store_element(wire, i, code);
    decoded[i] = decode_value(code, grid);
  }
}

void read_codes(const std::byte* wire, std::size_t count, float* values) {
  const Grid grid = grid_of(core::load_element<Scale>(wire, 0));
  wire += kScaleBytes;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto bytes = arrays::load_any(kByteTag, wire + i);
    const ValueWords code = hn::BitCast(kValueTag, hn::PromoteTo(kWordTag, bytes));
    hn::StoreU(decode_vector(code, grid), kFloatTag, values + i);
  }
  for (; i < count; ++i) {
    values[i] = decode_value(core::load_element<std::uint8_t>(wire, i), grid);
  }
}

/// decode_wide_value() of each lane.
HWY_INLINE Floats decode_wide_vector(Words code) {
  const Floats values = hn::BitCast(kFloatTag, hn::ShiftLeft<16>(code));
  const auto finite = hn::Lt(magnitude_words(values), set_word(core::kInfinityBits));
  const Words nan = hn::Set(kWordTag, core::kCanonicalNanBits);
  return hn::IfThenElse(hn::RebindMask(kFloatTag, finite), values, hn::BitCast(kFloatTag, nan));
}

/// encode_wide_value() of each lane, in 32 bits.
HWY_INLINE Words encode_wide_vector(Floats values) {
  const ValueWords magnitude = magnitude_words(values);
  const ValueWords odd = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(kValueTag, 1));
  // At most 0x7F7FFFFF + 0x8000: no sign comes up.
  const ValueWords rounded = hn::ShiftRight<16>(
      hn::Add(hn::Add(hn::Min(magnitude, set_word(core::kInfinityBits)), set_word(0x7FFFu)), odd));
  const ValueWords code = hn::Min(rounded, set_word(core::kLargestBfloat16));
  const auto finite = hn::Lt(magnitude, set_word(core::kInfinityBits));
  const Words sign = hn::ShiftRight<16>(hn::BitCast(kWordTag, sign_words(values)));
  const Words whole = hn::Or(hn::BitCast(kWordTag, code), sign);
  return hn::IfThenElse(hn::RebindMask(kWordTag, finite), whole,
                        hn::Set(kWordTag, std::uint32_t{core::kBfloat16Nan}));
}

void write_wide(const float* values, std::size_t count, std::byte* wire, float* decoded) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Words code = encode_wide_vector(hn::LoadU(kFloatTag, values + i));
    arrays::store_any(hn::TruncateTo(kHalfTag, code), kHalfTag, wire + 2 * i);
    hn::StoreU(decode_wide_vector(code), kFloatTag, decoded + i);
  }
  for (; i < count; ++i) {
    const std::uint16_t code = encode_wide_value(values[i]);
    core::store_element(wire, i, code);
    decoded[i] = decode_wide_value(code);
  }
}

void read_wide(const std::byte* wire, std::size_t count, float* values) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto halves = arrays::load_any(kHalfTag, wire + 2 * i);
    hn::StoreU(decode_wide_vector(hn::PromoteTo(kWordTag, halves)), kFloatTag, values + i);
  }
  for (; i < count; ++i) {
    values[i] = decode_wide_value(core::load_element<std::uint16_t>(wire, i));
  }
}

void write_values(int value_bits, const float* values, std::size_t count, std::byte* wire,
                  float* decoded) {
  if (value_bits == 16) {
    write_wide(values, count, wire, decoded);
  } else {
    write_codes(values, count, wire, decoded);
  }
}

void read_values(int value_bits, const std::byte* wire, std::size_t count, float* values) {
  if (value_bits == 16) {
    read_wide(wire, count, values);
  } else {
    read_codes(wire, count, values);
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::topk
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
