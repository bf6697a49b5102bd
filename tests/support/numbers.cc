#include "tests/support/numbers.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>

namespace ringpress::testing {
namespace {

/// A floating-point format of 8 or 16 bits.
struct NarrowFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // Else only the code of all ones (but for the sign) is not a number.
};

double narrow_value(std::uint32_t code, const NarrowFormat& format) {
  const std::uint32_t mantissas = 1u << format.mantissa_bits;
  const std::uint32_t exponents = 1u << format.exponent_bits;
  const std::uint32_t mantissa = code % mantissas;
  const std::uint32_t exponent = code / mantissas % exponents;
  const double sign = code / mantissas / exponents == 0 ? 1 : -1;
  if (exponent == exponents - 1 && (format.has_infinity || mantissa == mantissas - 1)) {
    return format.has_infinity && mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                                                : std::numeric_limits<double>::quiet_NaN();
  }
  const int bias = static_cast<int>(exponents / 2) - 1;
  const int scale = static_cast<int>(exponent == 0 ? 1 : exponent) - bias - format.mantissa_bits;
  return sign * std::ldexp(mantissa + (exponent == 0 ? 0 : mantissas), scale);
}

/// The code of `value`, which must be exact in the format.
std::uint32_t narrow_code(double value, const NarrowFormat& format) {
  using Table = std::map<double, std::uint32_t>;
  thread_local std::map<int, Table> tables;  // By the format's widths.
  Table& table = tables[format.exponent_bits * 100 + format.mantissa_bits];
  if (table.empty()) {
    for (std::uint32_t code = 0; code >> (1 + format.exponent_bits + format.mantissa_bits) == 0;
         ++code) {
      const double exact = narrow_value(code, format);
      if (!std::isnan(exact)) table.emplace(exact, code);
    }
  }
  const auto found = table.find(value);
  if (found == table.end()) throw std::logic_error("not exact: " + std::to_string(value));
  return found->second;
}

template <typename T>
double load_as_double(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<double>(value);
}

template <typename T>
void store_double(void* to, double value) {
  const T stored = static_cast<T>(value);
  std::memcpy(to, &stored, sizeof stored);
}

/// The format of a narrow floating-point type.
NarrowFormat narrow_format(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {5, 10, true};
    case DType::kBfloat16:
      return {8, 7, true};
    case DType::kFloat8e4m3:
      return {4, 3, false};
    case DType::kFloat8e5m2:
      return {5, 2, true};
    case DType::kInt8:
    case DType::kUint8:
    case DType::kInt32:
    case DType::kUint32:
    case DType::kInt64:
    case DType::kUint64:
    case DType::kFloat32:
    case DType::kFloat64:
      break;
  }
  throw std::logic_error("not a narrow type");
}

}  // namespace

double read_number(const void* from, DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return load_as_double<std::int8_t>(from);
    case DType::kUint8:
      return load_as_double<std::uint8_t>(from);
    case DType::kInt32:
      return load_as_double<std::int32_t>(from);
    case DType::kUint32:
      return load_as_double<std::uint32_t>(from);
    case DType::kInt64:
      return load_as_double<std::int64_t>(from);
    case DType::kUint64:
      return load_as_double<std::uint64_t>(from);
    case DType::kFloat32:
      return load_as_double<float>(from);
    case DType::kFloat64:
      return load_as_double<double>(from);
    case DType::kFloat16:
    case DType::kBfloat16:
      return narrow_value(static_cast<std::uint32_t>(load_as_double<std::uint16_t>(from)),
                          narrow_format(dtype));
    case DType::kFloat8e4m3:
    case DType::kFloat8e5m2:
      return narrow_value(static_cast<std::uint32_t>(load_as_double<std::uint8_t>(from)),
                          narrow_format(dtype));
  }
  throw std::logic_error("unknown type");
}

void write_number(void* to, DType dtype, double value) {
  switch (dtype) {
    case DType::kInt8:
      return store_double<std::int8_t>(to, value);
    case DType::kUint8:
      return store_double<std::uint8_t>(to, value);
    case DType::kInt32:
      return store_double<std::int32_t>(to, value);
    case DType::kUint32:
      return store_double<std::uint32_t>(to, value);
    case DType::kInt64:
      return store_double<std::int64_t>(to, value);
    case DType::kUint64:
      return store_double<std::uint64_t>(to, value);
    case DType::kFloat32:
      return store_double<float>(to, value);
    case DType::kFloat64:
      return store_double<double>(to, value);
    case DType::kFloat16:
    case DType::kBfloat16:
      return store_double<std::uint16_t>(to, narrow_code(value, narrow_format(dtype)));
    case DType::kFloat8e4m3:
    case DType::kFloat8e5m2:
      return store_double<std::uint8_t>(to, narrow_code(value, narrow_format(dtype)));
  }
}

}  // namespace ringpress::testing
