// A device's projections beside the scalar reference's, and cases for that, drawn at random. Knows
// nothing of GoogleTest.
#ifndef TESTS_COMPRESS_KERNELS_PROJECTION_COMPARISON_H_
#define TESTS_COMPRESS_KERNELS_PROJECTION_COMPARISON_H_

#include <cstddef>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "compress_kernels/device_plan.h"
#include "compress_kernels/specification.h"
#include "tests/compress_kernels/host_memory_device.h"
#include "tests/compress_kernels/projection_case.h"
#include "tests/compress_kernels/random_case.h"
#include "tests/support/specifications_to_test.h"

namespace ringpress::compress_kernels::testing {

/// What the ranks of a case got otherwise than those of the reference, in one step; "": nothing.
inline std::string difference(const ProjectionCase& c, const ProjectionRanks& device,
                              const ProjectionRanks& reference) {
  std::string text;
  for (std::size_t rank = 0; rank < c.world; ++rank) {
    const ProjectionRank& own = device.rank(rank);
    const char* const differs = own.difference(reference.rank(rank), c.dtype);
    if (differs != nullptr) text += " rank " + std::to_string(rank) + ": another " + differs;
    if (!own.guards_intact()) text += " written beyond an end";
  }
  return text;
}

/// "" or what differs, and where.
inline std::string compare_projections(const ProjectionCase& c, Device& device) {
  const ReduceOp op = c.is_average ? ReduceOp::kAvg : ReduceOp::kSum;
  HostMemoryDevice host;
  auto kernels = device.make_projection(c.specification, c.dtype, op);
  if (!kernels.is_ok()) return kernels.status().message();
  ProjectionRanks on_device(c, device, std::move(kernels).value());
  ProjectionRanks reference(c, host, host.make_projection(c.specification, c.dtype, op).value());
  for (std::size_t step = 0; step < c.steps; ++step) {
    const Status expected = reference.run(step);
    const Status status = on_device.run(step);
    std::string wrong = expected.message() + status.message();
    if (wrong.empty()) wrong = difference(c, on_device, reference);
    if (wrong.empty()) continue;
    std::ostringstream text;
    text << "step " << step << ':' << wrong << ": " << c << '\n';
    return text.str();
  }
  return "";
}

/// What there are kernels for.
inline std::vector<std::string> projection_specifications() {
  std::vector<std::string> all = specifications_to_test();
  std::erase_if(all, [](const std::string& specification) {
    return !make_projection_plan(specification, DType::kFloat32).is_ok();
  });
  return all;
}

inline ProjectionCase random_projection(const std::string& specification, std::size_t most,
                                        std::mt19937& engine) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
  ProjectionCase c;
  c.specification = specification;
  c.dtype = kTypes[engine() % 3];
  c.count = random_count(most, engine);
  c.kind = kAllValues[engine() % std::size(kAllValues)];
  c.seed = engine() % 1000000;
  c.offset = engine() % 2 == 0 ? 0 : engine() % 16;
  c.world = 1 + engine() % 3;
  c.is_average = engine() % 2 == 0;
  c.residual = engine() % 4 != 0;
  c.in_place = engine() % 2 == 0;
  c.drops = engine() % 2 == 0;
  c.step_without = engine() % 4;
  return c;
}

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_PROJECTION_COMPARISON_H_
