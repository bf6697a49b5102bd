// The reductions of two elements, and what is done to own values before and to sums after.
//
// Integers wrap around. Floating-point max and min return NaN if either operand is NaN. A product
// or sum of floats is one rounded operation.
#ifndef COMPRESS_KERNELS_CORE_REDUCE_H_
#define COMPRESS_KERNELS_CORE_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "compress_kernels/core/host_device.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::core {

/// a (op) b; kAvg adds, the division comes at the end.
template <ReduceOp kOp, typename T>
RINGPRESS_HOST_DEVICE inline T reduce(T a, T b) {
  if constexpr (kOp == ReduceOp::kMax) {
    if constexpr (std::is_integral_v<T>) return a < b ? b : a;
    return (a >= b || a != a) ? a : b;
  } else if constexpr (kOp == ReduceOp::kMin) {
    if constexpr (std::is_integral_v<T>) return b < a ? b : a;
    return (a <= b || a != a) ? a : b;
  } else if constexpr (std::is_integral_v<T>) {
    // In 64 unsigned bits, where wrapping is defined; narrower products cannot promote to int.
    const std::uint64_t x = static_cast<std::uint64_t>(a);
    const std::uint64_t y = static_cast<std::uint64_t>(b);
    return static_cast<T>(kOp == ReduceOp::kProd ? x * y : x + y);
  } else {
    return kOp == ReduceOp::kProd ? a * b : a + b;
  }
}

/// The quotient that ends an average. Integers truncate toward zero.
template <typename T>
RINGPRESS_HOST_DEVICE inline T divide(T sum, std::size_t divisor) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(sum) / static_cast<std::int64_t>(divisor));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(sum) / divisor);
  } else {
    return sum / static_cast<T>(divisor);
  }
}

/// The scale of a pre-multiplied sum in the type of the sums. For integers it is the whole number
/// nearest to zero from `scale`, limited to the range of int64; NaN counts as 0.
template <typename T>
inline T convert_scale(double scale) {
  if constexpr (std::is_integral_v<T>) {
    constexpr double kLimit = 9223372036854775808.0;  // 2^63
    if (!(scale == scale)) return 0;
    if (scale >= kLimit) return static_cast<T>(std::numeric_limits<std::int64_t>::max());
    if (scale <= -kLimit) return static_cast<T>(std::numeric_limits<std::int64_t>::min());
    return static_cast<T>(static_cast<std::int64_t>(scale));
  } else {
    return static_cast<T>(scale);
  }
}

/// value * scale, wrapping for integers.
template <typename T>
RINGPRESS_HOST_DEVICE inline T apply_scale(T value, T scale) {
  return reduce<ReduceOp::kProd, T>(value, scale);
}

template <ReduceOp kOp>
using OpTag = std::integral_constant<ReduceOp, kOp>;

/// Calls visitor(OpTag<op>).
template <typename Visitor>
decltype(auto) visit_op(ReduceOp op, Visitor&& visitor) {
  switch (op) {
    case ReduceOp::kProd:
      return visitor(OpTag<ReduceOp::kProd>{});
    case ReduceOp::kMax:
      return visitor(OpTag<ReduceOp::kMax>{});
    case ReduceOp::kMin:
      return visitor(OpTag<ReduceOp::kMin>{});
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      break;
  }
  return visitor(OpTag<ReduceOp::kSum>{});
}

/// Reduces `parts` encoded contributions with the own one, which is taken after the first
/// `own_position` of them. part(k) and own() give the values.
template <ReduceOp kOp, typename Part, typename Own>
auto reduce_in_order(std::size_t parts, std::size_t own_position, Part&& part, Own&& own) {
  auto sum = own_position == 0 ? own() : part(std::size_t{0});
  for (std::size_t position = 1; position <= parts; ++position) {
    const std::size_t index = position > own_position ? position - 1 : position;
    sum = reduce<kOp>(sum, position == own_position ? own() : part(index));
  }
  return sum;
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_REDUCE_H_
