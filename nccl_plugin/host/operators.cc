#include "nccl_plugin/host/operators.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {
namespace {

template <typename T>
T load(const void* scalar) {
  T value;
  std::memcpy(&value, scalar, sizeof value);  // Any alignment.
  return value;
}

/// A binary floating-point format of at most 16 bits.
struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // The largest exponent means infinity or NaN. Else only all ones is NaN.
};

double decode_small_float(std::uint32_t bits, const SmallFormat& format) {
  const std::uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const std::uint32_t largest = (1u << format.exponent_bits) - 1;
  const std::uint32_t exponent = (bits >> format.mantissa_bits) & largest;
  const bool negative = (bits >> (format.exponent_bits + format.mantissa_bits)) != 0;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -format.mantissa_bits);
  double magnitude = 0;
  if (exponent == largest && format.has_infinity) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == largest && mantissa == (1u << format.mantissa_bits) - 1) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, 1 - bias);
  } else {
    magnitude = std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
  }
  return negative ? -magnitude : magnitude;
}

template <typename Integer>
Result<double> read_integer(const void* scalar) {
  constexpr std::uint64_t kLargestExact = std::uint64_t{1} << 53;
  const Integer value = load<Integer>(scalar);
  const std::uint64_t magnitude =
      value < 0 ? -static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  if (magnitude > kLargestExact) {
    return Status(Code::kUnsupported, "the scalar " + std::to_string(value) +
                                          " of a pre-multiplied sum is beyond 2^53");
  }
  return static_cast<double>(value);
}

}  // namespace

Result<double> read_scalar(const void* scalar, DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return static_cast<double>(load<std::int8_t>(scalar));
    case DType::kUint8:
      return static_cast<double>(load<std::uint8_t>(scalar));
    case DType::kInt32:
      return static_cast<double>(load<std::int32_t>(scalar));
    case DType::kUint32:
      return static_cast<double>(load<std::uint32_t>(scalar));
    case DType::kInt64:
      return read_integer<std::int64_t>(scalar);
    case DType::kUint64:
      return read_integer<std::uint64_t>(scalar);
    case DType::kFloat16:
      return decode_small_float(load<std::uint16_t>(scalar), {5, 10, true});
    case DType::kFloat32:
      return static_cast<double>(load<float>(scalar));
    case DType::kFloat64:
      return load<double>(scalar);
    case DType::kBfloat16:
      return decode_small_float(load<std::uint16_t>(scalar), {8, 7, true});
    case DType::kFloat8e4m3:
      return decode_small_float(load<std::uint8_t>(scalar), {4, 3, false});
    case DType::kFloat8e5m2:
      return decode_small_float(load<std::uint8_t>(scalar), {5, 2, true});
  }
  return Status(Code::kInternal, "unknown type of scalar");
}

int UserOperators::add(double scale, DType dtype) {
  return insert({dtype, scale, nullptr});
}

int UserOperators::add_deferred(const void* scalar, DType dtype) {
  return insert({dtype, 1, scalar});
}

int UserOperators::insert(const Operator& user_operator) {
  // One count for the whole process: an operator of another communicator is unknown here instead
  // of being mistaken for one of ours.
  static std::atomic<std::uint32_t> made{0};
  constexpr std::uint32_t kValues = static_cast<std::uint32_t>(ncclMaxRedOp) - ncclNumOps;
  const std::lock_guard lock(mutex_);
  for (;;) {
    const int op = static_cast<int>(ncclNumOps + made.fetch_add(1) % kValues);
    if (operators_.emplace(op, user_operator).second) return op;
  }
}

Status UserOperators::remove(int op) {
  const std::lock_guard lock(mutex_);
  if (operators_.erase(op) == 1) return Status::ok();
  return Status(Code::kInvalidArgument, "op " + std::to_string(op) +
                                            " was not made for this communicator, or is destroyed");
}

Result<Reduction> UserOperators::resolve(int op, DType dtype) const {
  const std::lock_guard lock(mutex_);
  const auto found = operators_.find(op);
  if (found == operators_.end()) {
    return Status(Code::kInvalidArgument, "op " + std::to_string(op) +
                                              " is neither a built-in operator nor one made for "
                                              "this communicator");
  }
  const Operator& user_operator = found->second;
  if (user_operator.dtype != dtype) {
    return Status(Code::kInvalidArgument, std::string("op was made for ") +
                                              dtype_name(user_operator.dtype) +
                                              ", but datatype is " + dtype_name(dtype));
  }
  Reduction reduction{ReduceOp::kSum, user_operator.scale, true};
  if (user_operator.scalar != nullptr) {
    RINGPRESS_ASSIGN_OR_RETURN(reduction.input_scale, read_scalar(user_operator.scalar, dtype));
  }
  return reduction;
}

}  // namespace ringpress::nccl_plugin::host
