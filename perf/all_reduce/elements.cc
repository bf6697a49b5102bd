#include "perf/all_reduce/elements.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/hint.h"

namespace ringpress::perf {
namespace {

constexpr std::array<ElementType, 12> kElementTypes = {{
    {"int8", ncclInt8, 1, false, true, 7, 0},
    {"uint8", ncclUint8, 1, false, false, 8, 0},
    {"int32", ncclInt32, 4, false, true, 31, 0},
    {"uint32", ncclUint32, 4, false, false, 32, 0},
    {"int64", ncclInt64, 8, false, true, 53, 0},
    {"uint64", ncclUint64, 8, false, false, 53, 0},
    {"half", ncclFloat16, 2, true, true, 11, 15},
    {"float", ncclFloat32, 4, true, true, 24, 127},
    {"double", ncclFloat64, 8, true, true, 53, 1023},
    {"bfloat16", ncclBfloat16, 2, true, true, 8, 127},
    {"fp8_e4m3", ncclFloat8e4m3, 1, true, true, 4, 8},
    {"fp8_e5m2", ncclFloat8e5m2, 1, true, true, 3, 15},
}};

constexpr std::array<OperationName, 6> kOperations = {{
    {"sum", Operation::kSum},
    {"prod", Operation::kProd},
    {"max", Operation::kMax},
    {"min", Operation::kMin},
    {"avg", Operation::kAvg},
    {"mulsum", Operation::kMulSum},
}};

/// The shape of a float that C++ has no type for.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  unsigned sign_bit() const { return 1U << (exponent_bits + mantissa_bits); }
  unsigned top_exponent() const { return (1U << exponent_bits) - 1; }
  unsigned nan_bits() const { return sign_bit() - 1; }
};

constexpr SmallFloat kHalf = {5, 10, true};
constexpr SmallFloat kBfloat16 = {8, 7, true};
constexpr SmallFloat kE4m3 = {4, 3, false};
constexpr SmallFloat kE5m2 = {5, 2, true};

double decode(const SmallFloat& shape, unsigned bits) {
  const unsigned magnitude = bits & (shape.sign_bit() - 1);
  const unsigned exponent = magnitude >> shape.mantissa_bits;
  const unsigned mantissa = magnitude & ((1U << shape.mantissa_bits) - 1);
  const double sign = (bits & shape.sign_bit()) != 0 ? -1.0 : 1.0;
  if (!shape.has_infinity && magnitude == shape.nan_bits()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (shape.has_infinity && exponent == shape.top_exponent()) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const unsigned implicit = exponent == 0 ? 0U : 1U << shape.mantissa_bits;
  const int scale = static_cast<int>(exponent == 0 ? 1U : exponent) - shape.bias();
  return sign * std::ldexp(static_cast<double>(mantissa + implicit), scale - shape.mantissa_bits);
}

unsigned encode(const SmallFloat& shape, double value) {
  const unsigned sign = std::signbit(value) ? shape.sign_bit() : 0U;
  if (std::isnan(value)) return shape.nan_bits();
  const unsigned infinity =
      shape.has_infinity ? shape.top_exponent() << shape.mantissa_bits : shape.nan_bits();
  if (value == 0) return sign;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | infinity;
  const int lowest = 1 - shape.bias();
  const int exponent = std::max(std::ilogb(magnitude), lowest);
  // Units in the last place; 2^(mantissa_bits + 1) of them carry into the next exponent by
  // themselves.
  const auto units =
      static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, shape.mantissa_bits - exponent)));
  const unsigned bits = units + (static_cast<unsigned>(exponent - lowest) << shape.mantissa_bits);
  return sign | std::min(bits, infinity);
}

template <typename Integer>
void store_small(const SmallFloat& shape, std::span<const double> values, std::byte* elements) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = static_cast<Integer>(encode(shape, values[i]));
    std::memcpy(elements + i * sizeof bits, &bits, sizeof bits);
  }
}

template <typename Integer>
void load_small(const SmallFloat& shape, const std::byte* elements, std::span<double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Integer bits;
    std::memcpy(&bits, elements + i * sizeof bits, sizeof bits);
    values[i] = decode(shape, bits);
  }
}

template <typename T>
void store_plain(std::span<const double> values, std::byte* elements) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T element = static_cast<T>(values[i]);
    std::memcpy(elements + i * sizeof element, &element, sizeof element);
  }
}

template <typename T>
void load_plain(const std::byte* elements, std::span<double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, elements + i * sizeof element, sizeof element);
    values[i] = static_cast<double>(element);
  }
}

template <typename List>
std::string names_of(const List& list) {
  std::string names;
  for (const auto& entry : list) names += std::string(names.empty() ? "" : ", ") + entry.name;
  return names;
}

template <typename List>
const auto& find_by_name(const List& list, const std::string& name, const char* what) {
  for (const auto& entry : list) {
    if (name == entry.name) return entry;
  }
  std::vector<std::string_view> names;
  for (const auto& entry : list) names.emplace_back(entry.name);
  throw terminal::Error(std::string("unknown ") + what + " \"" + name + "\"" +
                        terminal::hint_at(name, names) + "; known: " + names_of(list) + ", all");
}

}  // namespace

std::span<const ElementType> element_types() {
  return kElementTypes;
}
std::span<const OperationName> operations() {
  return kOperations;
}

const ElementType& find_element_type(const std::string& name) {
  return find_by_name(kElementTypes, name, "data type");
}

const OperationName& find_operation(const std::string& name) {
  return find_by_name(kOperations, name, "operation");
}

void store_elements(const ElementType& type, std::span<const double> values, std::byte* elements) {
  switch (static_cast<int>(type.value)) {
    case ncclInt8:
      return store_plain<std::int8_t>(values, elements);
    case ncclUint8:
      return store_plain<std::uint8_t>(values, elements);
    case ncclInt32:
      return store_plain<std::int32_t>(values, elements);
    case ncclUint32:
      return store_plain<std::uint32_t>(values, elements);
    case ncclInt64:
      return store_plain<std::int64_t>(values, elements);
    case ncclUint64:
      return store_plain<std::uint64_t>(values, elements);
    case ncclFloat16:
      return store_small<std::uint16_t>(kHalf, values, elements);
    case ncclFloat32:
      return store_plain<float>(values, elements);
    case ncclFloat64:
      return store_plain<double>(values, elements);
    case ncclBfloat16:
      return store_small<std::uint16_t>(kBfloat16, values, elements);
    case ncclFloat8e4m3:
      return store_small<std::uint8_t>(kE4m3, values, elements);
    case ncclFloat8e5m2:
      return store_small<std::uint8_t>(kE5m2, values, elements);
  }
}

void load_elements(const ElementType& type, const std::byte* elements, std::span<double> values) {
  switch (static_cast<int>(type.value)) {
    case ncclInt8:
      return load_plain<std::int8_t>(elements, values);
    case ncclUint8:
      return load_plain<std::uint8_t>(elements, values);
    case ncclInt32:
      return load_plain<std::int32_t>(elements, values);
    case ncclUint32:
      return load_plain<std::uint32_t>(elements, values);
    case ncclInt64:
      return load_plain<std::int64_t>(elements, values);
    case ncclUint64:
      return load_plain<std::uint64_t>(elements, values);
    case ncclFloat16:
      return load_small<std::uint16_t>(kHalf, elements, values);
    case ncclFloat32:
      return load_plain<float>(elements, values);
    case ncclFloat64:
      return load_plain<double>(elements, values);
    case ncclBfloat16:
      return load_small<std::uint16_t>(kBfloat16, elements, values);
    case ncclFloat8e4m3:
      return load_small<std::uint8_t>(kE4m3, elements, values);
    case ncclFloat8e5m2:
      return load_small<std::uint8_t>(kE5m2, elements, values);
  }
}

ncclRedOp_t plain_operation(Operation operation) {
  switch (operation) {
    case Operation::kSum:
      return ncclSum;
    case Operation::kProd:
      return ncclProd;
    case Operation::kMax:
      return ncclMax;
    case Operation::kMin:
      return ncclMin;
    case Operation::kAvg:
      return ncclAvg;
    case Operation::kMulSum:
      break;
  }
  return ncclSum;
}

}  // namespace ringpress::perf
