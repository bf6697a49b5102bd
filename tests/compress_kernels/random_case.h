// Cases for a device's codecs, drawn at random.
#ifndef TESTS_COMPRESS_KERNELS_RANDOM_CASE_H_
#define TESTS_COMPRESS_KERNELS_RANDOM_CASE_H_

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/device_plan.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/specification.h"
#include "tests/compress_kernels/device_case.h"
#include "tests/support/specifications_to_test.h"

namespace ringpress::compress_kernels::testing {

/// What there are kernels for, with other rounding of partial sums too.
inline std::vector<std::string> device_specifications() {
  std::vector<std::string> all = specifications_to_test();
  all.insert(all.end(), {"q2:round=stochastic", "q2:partial=same", "q5:grid=minmax"});
  std::erase_if(all, [](const std::string& specification) {
    return !make_device_plan(specification, DType::kFloat32).is_ok();
  });
  return all;
}

/// Values of a length around what kernels treat differently, at most `most`.
inline std::size_t random_count(std::size_t most, std::mt19937& engine) {
  constexpr std::size_t kEdges[] = {0, 8, 64, 256, kTileElements, 2 * kTileElements};
  const std::size_t edge = kEdges[engine() % std::size(kEdges)];
  switch (engine() % 3) {
    case 0:
      return engine() % (most + 1);
    case 1:
      return std::min(most, edge + engine() % 3);
    default:
      return std::min(most, (1 + engine() % 8) * kTileElements);
  }
}

inline Case random_case(const std::string& specification, std::size_t most, std::mt19937& engine) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
  Case c;
  c.specification = specification;
  c.dtype = kTypes[engine() % 3];
  c.counts.resize(1 + engine() % 4);
  for (std::size_t& count : c.counts) count = random_count(most, engine);
  c.kind = kAllValues[engine() % std::size(kAllValues)];
  c.seed = engine() % 1000000;
  c.offset = engine() % 2 == 0 ? 0 : engine() % 16;
  c.parts = engine() % 5;
  c.own_position = engine() % (c.parts + 1);
  c.divisor = engine() % 3 == 0 ? 1 + engine() % 8 : 1;
  if (engine() % 2 == 0 && c.parts > 0) {  // A ring, which may end here.
    c.part_summed = 1 + engine() % 20;
    c.world = c.parts * c.part_summed + 1 + engine() % 2;
  }
  c.is_encoded = engine() % 8 != 0;
  const bool is_lossless =
      make_codec(specification, c.dtype, ReduceOp::kSum).value()->traits().lossless;
  c.residual = c.is_encoded && !is_lossless && engine() % 2 == 0;
  c.decoded = !c.is_encoded || engine() % 2 == 0;
  c.in_place = c.decoded && engine() % 2 == 0;
  return c;
}

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_RANDOM_CASE_H_
