// fp16, bf16 and the sums of "none" on compressible types for one target. Compiled once per target.
//
// All loops are of one shape: whole vectors, then single elements. The hop with one contribution
// (a step of the ring) keeps everything in registers; other hops sum in a tile of scratch.
#if defined(COMPRESS_KERNELS_CAST_CAST_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_CAST_CAST_SIMD_INL_H_
#undef COMPRESS_KERNELS_CAST_CAST_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_CAST_CAST_SIMD_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "compress_kernels/cast/cast.h"
#include "compress_kernels/core/float_arrays-inl.h"
#include "compress_kernels/core/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::cast {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;
namespace arrays = core::HWY_NAMESPACE;
using arrays::Floats, arrays::kFloatTag, arrays::kLanes;

/// Conversions take long enough for requests ahead of the loop to pay; plain float32 sums do not.
template <typename Wire>
inline constexpr bool kConverts = !std::is_same_v<Wire, float>;

/// Where results go, whatever produced them; all may be null but `wire` or `decoded`.
struct Output {
  void* wire = nullptr;
  void* decoded = nullptr;
  void* residual = nullptr;
};

/// Rounds x (kLanes values of element i and on) to the wire and updates the rest of the output.
template <typename Wire, typename T>
HWY_INLINE void finish_vector(Floats x, const Output& output, std::size_t i) {
  if (output.wire == nullptr) {
    arrays::store_floats<T>(x, output.decoded, i);
    return;
  }
  Floats old_residual = hn::Zero(kFloatTag);
  if (output.residual != nullptr) {
    old_residual = arrays::load_floats<float>(output.residual, i);
    x = hn::Add(x, old_residual);
  }
  arrays::store_floats<Wire>(x, output.wire, i);
  if (output.residual == nullptr && output.decoded == nullptr) return;
  const Floats value = arrays::load_floats<Wire>(output.wire, i);
  if (output.residual != nullptr) {
    const Floats difference = hn::Sub(x, value);
    const auto finite = hn::IsFinite(difference);
    arrays::store_floats<float>(hn::IfThenElse(finite, difference, old_residual), output.residual,
                                i);
  }
  if (output.decoded != nullptr) arrays::store_floats<T>(value, output.decoded, i);
}

template <typename Wire, typename T>
inline void finish_element(float x, const Output& output, std::size_t i) {
  if (output.wire == nullptr) {
    core::store_wide<T>(output.decoded, i, x);
    return;
  }
  if (output.residual != nullptr) x += core::load_element<float>(output.residual, i);
  core::store_wide<Wire>(output.wire, i, x);
  const float value = core::load_wide<Wire>(output.wire, i);
  if (output.residual != nullptr && core::is_finite(x - value)) {
    core::store_element<float>(output.residual, i, x - value);
  }
  if (output.decoded != nullptr) core::store_wide<T>(output.decoded, i, value);
}

template <typename Wire, typename T>
void encode_as(const EncodeArgs& args) {
  const Output output{args.wire, args.decoded, args.residual};
  const float scale = core::convert_scale<float>(args.input_scale);
  const Floats scales = hn::Set(kFloatTag, scale);
  std::size_t i = 0;
  for (; i + kLanes <= args.count; i += kLanes) {
    arrays::prefetch_ahead(arrays::at<T>(args.values, i));
    const Floats x = arrays::load_floats<T>(args.values, i);
    finish_vector<Wire, T>(args.input_scale == 1 ? x : hn::Mul(x, scales), output, i);
  }
  for (; i < args.count; ++i) {
    const float x = core::load_wide<T>(args.values, i);
    finish_element<Wire, T>(args.input_scale == 1 ? x : x * scale, output, i);
  }
}

/// Decodes whole vectors around the cache, as long as `values` is aligned, and returns how many
/// elements that were. Large arrays are not read soon: see uniform/decoder-inl.h.
template <typename Wire>
std::size_t stream_decoded(const DecodeArgs& args) {
  constexpr std::size_t kStreamBytes = std::size_t{256} << 10;
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(args.values) % (kLanes * sizeof(float)) == 0;
  if (!aligned || args.count * sizeof(float) < kStreamBytes) return 0;
  auto* values = static_cast<float*>(args.values);
  std::size_t i = 0;
  for (; i + kLanes <= args.count; i += kLanes) {
    hn::Stream(arrays::load_floats<Wire>(args.wire, i), kFloatTag, values + i);
  }
  hwy::FlushStream();
  return i;
}

template <typename Wire, typename T>
void decode_as(const DecodeArgs& args) {
  std::size_t i = 0;
  if constexpr (std::is_same_v<T, float>) i = stream_decoded<Wire>(args);
  for (; i + kLanes <= args.count; i += kLanes) {
    arrays::store_floats<T>(arrays::load_floats<Wire>(args.wire, i), args.values, i);
  }
  for (; i < args.count; ++i) {
    core::store_wide<T>(args.values, i, core::load_wide<Wire>(args.wire, i));
  }
}

template <typename Wire>
void decode_add_as(const DecodeAddArgs& args) {
  std::size_t i = 0;
  for (; i + kLanes <= args.count; i += kLanes) {
    if constexpr (kConverts<Wire>) arrays::prefetch_ahead(arrays::at<float>(args.sum, i));
    const Floats sum = arrays::load_floats<float>(args.sum, i);
    arrays::store_floats<float>(hn::Add(sum, arrays::load_floats<Wire>(args.wire, i)), args.sum, i);
  }
  for (; i < args.count; ++i) {
    const float sum = core::load_element<float>(args.sum, i);
    core::store_element<float>(args.sum, i, sum + core::load_wide<Wire>(args.wire, i));
  }
}

/// The hop with one contribution: no scratch.
template <typename Wire, typename T>
void add_one_as(const DecodeAddEncodeArgs& args) {
  const Output output{args.wire, args.decoded, args.residual};
  const std::byte* part = args.wires[0];
  const float scale = core::convert_scale<float>(args.input_scale);
  const arrays::Divisor divisor(args.divisor);
  const Floats scales = hn::Set(kFloatTag, scale);
  std::size_t i = 0;
  for (; i + kLanes <= args.count; i += kLanes) {
    if constexpr (kConverts<Wire>) arrays::prefetch_ahead(arrays::at<T>(args.values, i));
    Floats own = arrays::load_floats<T>(args.values, i);
    if (args.input_scale != 1) own = hn::Mul(own, scales);
    const Floats sum = hn::Add(arrays::load_floats<Wire>(part, i), own);
    finish_vector<Wire, T>(args.divisor == 1 ? sum : divisor.divide(sum), output, i);
  }
  for (; i < args.count; ++i) {
    float own = core::load_wide<T>(args.values, i);
    if (args.input_scale != 1) own *= scale;
    const float sum = core::load_wide<Wire>(part, i) + own;
    const float x = args.divisor == 1 ? sum : core::divide(sum, args.divisor);
    finish_element<Wire, T>(x, output, i);
  }
}

/// Adds (or, first, stores) elements first .. first + count of one operand to `sum`.
template <typename Element>
void accumulate(const void* array, std::size_t first, std::size_t count, bool is_first,
                float* sum) {
  if (is_first) {
    arrays::load_elements<Element, false>(array, first, count, sum);
  } else {
    arrays::load_elements<Element, true>(array, first, count, sum);
  }
}

/// The same for own values, which are scaled.
template <typename T>
void accumulate_own(const DecodeAddEncodeArgs& args, std::size_t first, std::size_t count,
                    float* sum) {
  if (args.input_scale == 1) {
    accumulate<T>(args.values, first, count, args.own_position == 0, sum);
    return;
  }
  const float scale = core::convert_scale<float>(args.input_scale);
  for (std::size_t i = 0; i < count; ++i) {
    const float own = core::load_wide<T>(args.values, first + i) * scale;
    sum[i] = args.own_position == 0 ? own : sum[i] + own;
  }
}

template <typename Wire, typename T>
void add_tile_as(const DecodeAddEncodeArgs& args, std::size_t first, std::size_t count,
                 float* sum) {
  for (std::size_t position = 0; position <= args.wires.size(); ++position) {
    if (position == args.own_position) {
      accumulate_own<T>(args, first, count, sum);
      continue;
    }
    const std::size_t index = position > args.own_position ? position - 1 : position;
    accumulate<Wire>(args.wires[index], first, count, position == 0, sum);
  }
  if (args.divisor != 1) arrays::divide_floats(args.divisor, count, sum);
  const Output output{args.wire, args.decoded, args.residual};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    finish_vector<Wire, T>(hn::Load(kFloatTag, sum + i), output, first + i);
  }
  for (; i < count; ++i) finish_element<Wire, T>(sum[i], output, first + i);
}

template <typename Wire, typename T>
void decode_add_encode_as(const DecodeAddEncodeArgs& args) {
  if (args.wires.size() == 1) {
    add_one_as<Wire, T>(args);
    return;
  }
  HWY_ALIGN float sum[kTileElements];
  for (std::size_t first = 0; first < args.count; first += kTileElements) {
    add_tile_as<Wire, T>(args, first, std::min(kTileElements, args.count - first), sum);
  }
}

template <typename Wire>
void encode_from(DType dtype, const EncodeArgs& args) {
  if (dtype == DType::kFloat16) return encode_as<Wire, core::Float16>(args);
  if (dtype == DType::kBfloat16) return encode_as<Wire, core::Bfloat16>(args);
  encode_as<Wire, float>(args);
}

template <typename Wire>
void decode_to(DType dtype, const DecodeArgs& args) {
  if (dtype == DType::kFloat16) return decode_as<Wire, core::Float16>(args);
  if (dtype == DType::kBfloat16) return decode_as<Wire, core::Bfloat16>(args);
  decode_as<Wire, float>(args);
}

template <typename Wire>
void decode_add_encode_from(DType dtype, const DecodeAddEncodeArgs& args) {
  if (dtype == DType::kFloat16) return decode_add_encode_as<Wire, core::Float16>(args);
  if (dtype == DType::kBfloat16) return decode_add_encode_as<Wire, core::Bfloat16>(args);
  decode_add_encode_as<Wire, float>(args);
}

inline void copy(const void* from, void* to, std::size_t bytes) {
  if (to != nullptr && to != from) std::memmove(to, from, bytes);
}

inline void encode(const CastParameters& parameters, const EncodeArgs& args) {
  if (parameters.wire == parameters.dtype && args.residual == nullptr && args.input_scale == 1) {
    copy(args.values, args.wire, encoded_bytes(parameters, args.count));
    copy(args.values, args.decoded, encoded_bytes(parameters, args.count));
    return;
  }
  if (parameters.wire == DType::kFloat16) return encode_from<core::Float16>(parameters.dtype, args);
  if (parameters.wire == DType::kBfloat16)
    return encode_from<core::Bfloat16>(parameters.dtype, args);
  encode_from<float>(parameters.dtype, args);
}

inline void decode(const CastParameters& parameters, const DecodeArgs& args) {
  if (parameters.wire == parameters.dtype) {
    return copy(args.wire, args.values, encoded_bytes(parameters, args.count));
  }
  if (parameters.wire == DType::kFloat16) return decode_to<core::Float16>(parameters.dtype, args);
  if (parameters.wire == DType::kBfloat16) return decode_to<core::Bfloat16>(parameters.dtype, args);
  decode_to<float>(parameters.dtype, args);
}

inline void decode_add(const CastParameters& parameters, const DecodeAddArgs& args) {
  if (parameters.wire == DType::kFloat16) return decode_add_as<core::Float16>(args);
  if (parameters.wire == DType::kBfloat16) return decode_add_as<core::Bfloat16>(args);
  decode_add_as<float>(args);
}

inline void decode_add_encode(const CastParameters& parameters, const DecodeAddEncodeArgs& args) {
  const DType dtype = parameters.dtype;
  if (parameters.wire == DType::kFloat16) return decode_add_encode_from<core::Float16>(dtype, args);
  if (parameters.wire == DType::kBfloat16) {
    return decode_add_encode_from<core::Bfloat16>(dtype, args);
  }
  decode_add_encode_from<float>(dtype, args);
}

inline const KernelTable<CastParameters>& kernels() {
  static constexpr KernelTable<CastParameters> kTable{encode, decode, decode_add,
                                                      decode_add_encode};
  return kTable;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::cast
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
