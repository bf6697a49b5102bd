// The parameters of tests that hold for every codec and type.
#ifndef TESTS_COMPRESS_KERNELS_TYPED_CASES_H_
#define TESTS_COMPRESS_KERNELS_TYPED_CASES_H_

#include <string>
#include <tuple>
#include <vector>

#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::testing {

/// All specifications with all types. Under sanitizers, where that takes minutes, with one of them,
/// each with another one than the specification before it.
inline std::vector<std::tuple<std::string, DType>> with_types(
    const std::vector<std::string>& specifications) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
  std::vector<std::tuple<std::string, DType>> cases;
  for (const std::string& specification : specifications) {
#ifdef RINGPRESS_SANITIZED
    cases.emplace_back(specification, kTypes[cases.size() % 3]);
#else
    for (const DType dtype : kTypes) cases.emplace_back(specification, dtype);
#endif
  }
  return cases;
}

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_TYPED_CASES_H_
