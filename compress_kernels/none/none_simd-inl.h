// "none" on the types and reductions that the cast kernels do not cover: plain loops over tiles,
// which the compiler vectorises. Compiled once per target.
#if defined(COMPRESS_KERNELS_NONE_NONE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_NONE_NONE_SIMD_INL_H_
#undef COMPRESS_KERNELS_NONE_NONE_SIMD_INL_H_
#else
#define COMPRESS_KERNELS_NONE_NONE_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/none/none.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::none {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

using core::Wide;

/// A run of elements: the tile that starts at `first`.
struct Span {
  std::size_t first = 0;
  std::size_t count = 0;
};

template <typename T>
inline void load_tile(const void* array, Span span, double scale, Wide<T>* HWY_RESTRICT values) {
  for (std::size_t i = 0; i < span.count; ++i) {
    values[i] = core::load_wide<T>(array, span.first + i);
  }
  if (scale == 1) return;
  const Wide<T> factor = core::convert_scale<Wide<T>>(scale);
  for (std::size_t i = 0; i < span.count; ++i) values[i] = core::apply_scale(values[i], factor);
}

template <typename T>
inline void store_tile(const Wide<T>* HWY_RESTRICT values, Span span, void* array) {
  for (std::size_t i = 0; i < span.count; ++i) {
    core::store_wide<T>(array, span.first + i, values[i]);
  }
}

template <typename T>
inline void divide_tile(std::size_t divisor, std::size_t count, T* HWY_RESTRICT values) {
  for (std::size_t i = 0; i < count; ++i) values[i] = core::divide(values[i], divisor);
}

/// sum[i] = sum[i] (op) part[i]
template <ReduceOp kOp, typename T>
inline void reduce_tile(const T* HWY_RESTRICT part, std::size_t count, T* HWY_RESTRICT sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = core::reduce<kOp>(sum[i], part[i]);
}

/// Calls Body::run<T, op>(parameters, args) for the type and the reduction of the parameters.
template <typename Body, typename T, typename Args>
inline void run_op(const NoneParameters& parameters, const Args& args) {
  switch (parameters.op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return Body::template run<T, ReduceOp::kSum>(parameters, args);
    case ReduceOp::kProd:
      return Body::template run<T, ReduceOp::kProd>(parameters, args);
    case ReduceOp::kMax:
      return Body::template run<T, ReduceOp::kMax>(parameters, args);
    case ReduceOp::kMin:
      return Body::template run<T, ReduceOp::kMin>(parameters, args);
  }
}

template <typename Body, typename Args>
inline void run(const NoneParameters& parameters, const Args& args) {
  switch (parameters.dtype) {
    case DType::kInt8:
      return run_op<Body, std::int8_t>(parameters, args);
    case DType::kUint8:
      return run_op<Body, std::uint8_t>(parameters, args);
    case DType::kInt32:
      return run_op<Body, std::int32_t>(parameters, args);
    case DType::kUint32:
      return run_op<Body, std::uint32_t>(parameters, args);
    case DType::kInt64:
      return run_op<Body, std::int64_t>(parameters, args);
    case DType::kUint64:
      return run_op<Body, std::uint64_t>(parameters, args);
    case DType::kFloat16:
      return run_op<Body, core::Float16>(parameters, args);
    case DType::kFloat32:
      return run_op<Body, float>(parameters, args);
    case DType::kFloat64:
      return run_op<Body, double>(parameters, args);
    case DType::kBfloat16:
      return run_op<Body, core::Bfloat16>(parameters, args);
    case DType::kFloat8e4m3:
      return run_op<Body, core::Float8e4m3>(parameters, args);
    case DType::kFloat8e5m2:
      return run_op<Body, core::Float8e5m2>(parameters, args);
  }
}

struct EncodeScaled {
  template <typename T, ReduceOp>
  static void run(const NoneParameters&, const EncodeArgs& args) {
    alignas(64) Wide<T> tile[kTileElements];
    for (std::size_t first = 0; first < args.count; first += kTileElements) {
      const Span span{first, std::min(kTileElements, args.count - first)};
      load_tile<T>(args.values, span, args.input_scale, tile);
      store_tile<T>(tile, span, args.wire);
      if (args.decoded != nullptr) store_tile<T>(tile, span, args.decoded);
    }
  }
};

struct DecodeAdd {
  template <typename T, ReduceOp kOp>
  static void run(const NoneParameters&, const DecodeAddArgs& args) {
    // Sums of the compressible types are kept in float32, those of all others in their own type.
    using Sum =
        std::conditional_t<std::is_same_v<T, core::Float16> || std::is_same_v<T, core::Bfloat16>,
                           float, T>;
    alignas(64) Wide<T> sum[kTileElements];
    alignas(64) Wide<T> part[kTileElements];
    for (std::size_t first = 0; first < args.count; first += kTileElements) {
      const Span span{first, std::min(kTileElements, args.count - first)};
      load_tile<Sum>(args.sum, span, 1, sum);
      load_tile<T>(args.wire, span, 1, part);
      reduce_tile<kOp>(part, span.count, sum);
      store_tile<Sum>(sum, span, args.sum);
    }
  }
};

struct DecodeAddEncode {
  template <typename T, ReduceOp kOp>
  static void run(const NoneParameters&, const DecodeAddEncodeArgs& args) {
    alignas(64) Wide<T> sum[kTileElements];
    alignas(64) Wide<T> part[kTileElements];
    for (std::size_t first = 0; first < args.count; first += kTileElements) {
      const Span span{first, std::min(kTileElements, args.count - first)};
      load_operand<T>(args, 0, span, sum);
      for (std::size_t position = 1; position <= args.wires.size(); ++position) {
        load_operand<T>(args, position, span, part);
        reduce_tile<kOp>(part, span.count, sum);
      }
      if (args.divisor != 1) divide_tile(args.divisor, span.count, sum);
      if (args.wire != nullptr) store_tile<T>(sum, span, args.wire);
      if (args.decoded != nullptr) store_tile<T>(sum, span, args.decoded);
    }
  }

  template <typename T>
  static void load_operand(const DecodeAddEncodeArgs& args, std::size_t position, Span span,
                           Wide<T>* values) {
    if (position == args.own_position) {
      load_tile<T>(args.values, span, args.input_scale, values);
    } else {
      const std::size_t index = position > args.own_position ? position - 1 : position;
      load_tile<T>(args.wires[index], span, 1, values);
    }
  }
};

inline void copy(const void* from, void* to, std::size_t bytes) {
  if (to != nullptr && to != from) std::memmove(to, from, bytes);
}

inline void encode(const NoneParameters& parameters, const EncodeArgs& args) {
  RINGPRESS_EXPECTS(args.residual == nullptr, "none: an exact reduction has no residual");
  if (args.input_scale != 1) return run<EncodeScaled>(parameters, args);
  copy(args.values, args.wire, encoded_bytes(parameters, args.count));
  copy(args.values, args.decoded, encoded_bytes(parameters, args.count));
}

inline void decode(const NoneParameters& parameters, const DecodeArgs& args) {
  copy(args.wire, args.values, encoded_bytes(parameters, args.count));
}

inline void decode_add(const NoneParameters& parameters, const DecodeAddArgs& args) {
  run<DecodeAdd>(parameters, args);
}

inline void decode_add_encode(const NoneParameters& parameters, const DecodeAddEncodeArgs& args) {
  RINGPRESS_EXPECTS(args.residual == nullptr, "none: an exact reduction has no residual");
  run<DecodeAddEncode>(parameters, args);
}

inline const KernelTable<NoneParameters>& kernels() {
  static constexpr KernelTable<NoneParameters> kTable{encode, decode, decode_add,
                                                      decode_add_encode};
  return kTable;
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::none
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
