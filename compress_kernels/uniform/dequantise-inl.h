// From packed codes and scales to values. Compiled once per target.
#if defined(COMPRESS_KERNELS_UNIFORM_DEQUANTISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_UNIFORM_DEQUANTISE_INL_H_
#undef COMPRESS_KERNELS_UNIFORM_DEQUANTISE_INL_H_
#else
#define COMPRESS_KERNELS_UNIFORM_DEQUANTISE_INL_H_
#endif

#include <hwy/cache_control.h>

#include "compress_kernels/core/unpack-inl.h"
#include "compress_kernels/core/vector_io-inl.h"
#include "compress_kernels/uniform/measure-inl.h"
#include "compress_kernels/uniform/tile.h"
#include "compress_kernels/uniform/uniform.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::uniform {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

using arrays::align_codes, arrays::align_planes, arrays::kStepElements, arrays::kStepVectors,
    arrays::load_planes, arrays::PackedPlanes;

/// What is done with decoded values: stored, added to others, or stored around the cache.
enum class Target { kStore, kAdd, kStream };

struct DequantiseArgs {
  core::Planes<const std::uint8_t> codes;  // Loads may reach 16 bytes past the last code.
  std::size_t elements = 0;                // A multiple of 16.
  const GroupScales* scales = nullptr;
  const float* addend = nullptr;  // kAdd only: values = addend + decoded. May be `values`.
  float* values = nullptr;        // Any alignment, but that of a vector for kStream.
};

/// Codes as floats, minus the middle of the uniform grid.
template <int kBits, Grid kGrid>
HWY_INLINE Floats convert_codes(Words aligned) {
  const Words mask = hn::Set(kWordTag, (1u << kBits) - 1u);
  // In [2^23, 2^24) the low bits of a float are a whole number.
  const Words number = hn::OrAnd(hn::Set(kWordTag, 0x4B000000u), aligned, mask);
  constexpr float kMiddle =
      kGrid == Grid::kUniform && kBits > 1 ? static_cast<float>((1 << (kBits - 1)) - 1) : 0.0f;
  return hn::Sub(hn::BitCast(kFloatTag, number), hn::Set(kFloatTag, 8388608.0f + kMiddle));
}

/// The uniform grid: what a code from extract_codes() stands for.
template <int kBits>
HWY_INLINE Floats value_of_code(Floats code, Floats unit) {
  if constexpr (kBits == 1) {
    return hn::Mul(hn::Sub(hn::Add(code, code), hn::Set(kFloatTag, 1.0f)), unit);
  } else {
    return hn::Mul(code, unit);
  }
}

template <int kBits, Grid kGrid, std::size_t kVector, Target kTarget>
HWY_INLINE void dequantise_vector(const DequantiseArgs& args, std::size_t i,
                                  const PackedPlanes& packed) {
  if constexpr (kVector < kStepVectors) {
    const std::size_t group = i / kGroupElements;
    const Floats unit = hn::Set(kFloatTag, args.scales->unit[group]);
    const Floats code = convert_codes<kBits, kGrid>(align_planes<kBits, kVector>(packed));
    Floats value;
    if constexpr (kGrid == Grid::kMinMax) {
      value = hn::Add(hn::Set(kFloatTag, args.scales->low[group]), hn::Mul(code, unit));
    } else {
      value = value_of_code<kBits>(code, unit);
    }
    const std::size_t index = i + kVector * kLanes;
    if constexpr (kTarget == Target::kAdd) {
      value = hn::Add(load_floats<float>(args.addend, index), value);
    }
    if constexpr (kTarget == Target::kStream) {
      hn::Stream(value, kFloatTag, args.values + index);
    } else {
      store_floats<float>(value, args.values, index);
    }
    dequantise_vector<kBits, kGrid, kVector + 1, kTarget>(args, i, packed);
  }
}

template <int kBits, Grid kGrid, Target kTarget>
void dequantise_tile(const DequantiseArgs& caller_args) {
  const DequantiseArgs args = caller_args;  // A copy that no store through a pointer can change.
  for (std::size_t i = 0; i < args.elements; i += kStepElements) {
    dequantise_vector<kBits, kGrid, 0, kTarget>(args, i, load_planes<kBits>(args.codes, i));
  }
}

using DequantiseFunction = void (*)(const DequantiseArgs&);

template <int kBits, Grid kGrid>
DequantiseFunction dequantise_function(Target target) {
  switch (target) {
    case Target::kStore:
      return dequantise_tile<kBits, kGrid, Target::kStore>;
    case Target::kAdd:
      return dequantise_tile<kBits, kGrid, Target::kAdd>;
    case Target::kStream:
      return dequantise_tile<kBits, kGrid, Target::kStream>;
  }
  return nullptr;
}

template <int kBits>
DequantiseFunction dequantise_function(Grid grid, Target target) {
  return grid == Grid::kUniform ? dequantise_function<kBits, Grid::kUniform>(target)
                                : dequantise_function<kBits, Grid::kMinMax>(target);
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::uniform
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
