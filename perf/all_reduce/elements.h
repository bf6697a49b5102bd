// The element types and reductions of the NCCL API: names, conversions to and from double.
#ifndef PERF_ALL_REDUCE_ELEMENTS_H_
#define PERF_ALL_REDUCE_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ringpress/nccl.h"

namespace ringpress::perf {

struct ElementType {
  const char* name;  // nccl-tests' name.
  ncclDataType_t value;
  std::size_t bytes;
  bool is_float;
  bool is_signed;
  int significant_bits;  // Every integer up to 2^significant_bits is exact in this type.
  int largest_exponent;  // Floats: values stay below 2^(largest_exponent + 1).
};

/// Every type of the API, in its order.
std::span<const ElementType> element_types();
/// Throws terminal::Error, with the names that exist.
const ElementType& find_element_type(const std::string& name);

enum class Operation { kSum, kProd, kMax, kMin, kAvg, kMulSum };

struct OperationName {
  const char* name;
  Operation value;
};

std::span<const OperationName> operations();
/// Throws terminal::Error, with the names that exist.
const OperationName& find_operation(const std::string& name);

/// NCCL's operation of that name; ncclSum for kMulSum, whose operation a program makes itself.
ncclRedOp_t plain_operation(Operation operation);

/// Converts with rounding to nearest even. `elements` needs no alignment.
void store_elements(const ElementType& type, std::span<const double> values, std::byte* elements);
void load_elements(const ElementType& type, const std::byte* elements, std::span<double> values);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_ELEMENTS_H_
