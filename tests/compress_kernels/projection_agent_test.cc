// The kernels of projecting codecs, run on fibers, make what the scalar reference makes: what is
// projected, the result, the residual and the state, over several all-reduces.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/compress_kernels/fiber_device.h"
#include "tests/compress_kernels/projection_comparison.h"

namespace ringpress::compress_kernels::testing::projection_agent_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

void compare(const ProjectionCase& c) {
  FiberDevice device({c.seed, 1 + c.seed % 2});
  EXPECT_EQ(compare_projections(c, device), "");
}

/// Every choice of the arguments, by the bits of a number.
ProjectionCase make_case(const std::string& specification, std::size_t count, unsigned number) {
  ProjectionCase c;
  c.specification = specification;
  c.count = count;
  c.dtype = kTypes[number % 3];
  c.kind = number % 4 == 3 ? Values::kSpecial : Values::kNormal;
  c.seed = number + 1;
  c.offset = number % 5 == 0 ? 0 : number;
  c.world = 1 + number % 3;
  c.is_average = (number & 2) != 0;
  c.residual = number % 7 != 0;
  c.in_place = (number & 1) != 0;
  c.drops = (number & 4) != 0;
  c.step_without = number % 6 == 5 ? 2 : 99;
  return c;
}

TEST(ProjectionAgent, RandomSlicesAgreeAtEveryBoundary) {
  unsigned number = 0;
  for (const char* specification :
       {"randk:density=0.01", "randk:density=0.3", "randk:density=0.4,unbiased=1"}) {
    for (const std::size_t count : {0, 1, 2, 7, 8, 9, 31, 33, 255, 256, 257, 1000, 2049}) {
      compare(make_case(specification, count, number++));
      if (HasFailure()) return;
    }
  }
  compare(make_case("randk:density=1", 300, 2));
}

/// Matrices of all ranks, with and without an incomplete row, and tensors that hold none.
TEST(ProjectionAgent, MatricesAgreeAtEveryBoundary) {
  unsigned number = 0;
  for (const char* rank : {"1", "2", "7"}) {
    for (const std::size_t count : {0, 1, 9, 30, 289, 1009, 1024, 4200, 65 * 67}) {
      compare(make_case("powersgd:rank=" + std::string(rank), count, number++));
      if (HasFailure()) return;
    }
  }
}

/// More than is in shared memory, or in a tile, at a time.
TEST(ProjectionAgent, LargeMatricesAgree) {
  ProjectionCase wide = make_case("powersgd:rank=3", 130 * 600, 4);
  wide.layers = {{0, 130 * 600, 130, 600, false}};
  wide.world = 1;
  compare(wide);
  ProjectionCase high = make_case("powersgd:rank=18", 100 * 97, 9);
  high.layers = {{0, 100 * 97, 100, 97, false}};
  high.world = 1;
  high.steps = 2;
  compare(high);
}

TEST(ProjectionAgent, LayersAgree) {
  for (unsigned number = 0; number < 4; ++number) {
    ProjectionCase c = make_case("powersgd:rank=2", 1000, number);
    c.layers = {{10, 400, 20, 20, false}, {410, 300, 0, 0, true}, {715, 240, 12, 20, false}};
    compare(c);
  }
}

TEST(ProjectionAgent, AgreesOnEveryKindOfValues) {
  unsigned number = 0;
  for (const char* specification : {"randk:density=0.1", "powersgd:rank=2"}) {
    for (const DType dtype : kTypes) {
      for (const Values kind : kAllValues) {
        ProjectionCase c = make_case(specification, 500, number++);
        c.dtype = dtype;
        c.kind = kind;
        c.steps = 4;
        compare(c);
      }
    }
  }
}

/// As tests/gpu/ does it.
TEST(ProjectionAgent, AgreesOnRandomCases) {
  std::mt19937 engine(17);
  for (const std::string& specification : projection_specifications()) {
    compare(random_projection(specification, 700, engine));
  }
}

TEST(ProjectionAgent, SaysWhatItDoesNotTake) {
  FiberDevice device;
  EXPECT_EQ(device.make_projection("q4", DType::kFloat32, ReduceOp::kSum).status().code(),
            Code::kUnsupported);
  EXPECT_EQ(device.make_projection("randk:x=1", DType::kFloat32, ReduceOp::kSum).status().code(),
            Code::kInvalidArgument);
  auto agents = device.make_projection("randk", DType::kFloat32, ReduceOp::kSum).value();
  std::vector<float> values(10), own(11);
  float* const rounds[] = {own.data()};
  DeviceProjectArgs args;
  args.call.shape.count = 9;
  args.call.values = reinterpret_cast<std::byte*>(values.data()) + 2;
  args.call.own = rounds;
  EXPECT_EQ(agents->project(nullptr, 0, args).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::projection_agent_test
