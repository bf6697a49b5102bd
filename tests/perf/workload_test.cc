#include "perf/all_reduce/workload.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {
namespace {

constexpr std::size_t kCount = 5000;

std::vector<double> own_values(const GeneratedWorkload::Shape& shape, std::size_t first) {
  std::vector<double> values(kCount);
  GeneratedWorkload(shape).own_values(first, values);
  return values;
}

/// Every value, every partial sum in either order, and the result survive the element type.
TEST(Workload, SumsAreExactInEveryTypeAndOrder) {
  for (const ElementType& type : element_types()) {
    for (const int ranks : {1, 2, 7, 64}) {
      GeneratedWorkload::Shape shape = {type, Operation::kSum, 0, ranks, 5};
      std::vector<double> forward(kCount, 0);
      for (shape.rank = 0; shape.rank < ranks; ++shape.rank) {
        const std::vector<double> values = own_values(shape, 0);
        for (std::size_t i = 0; i < kCount; ++i) forward[i] += values[i];
        std::vector<std::byte> elements(kCount * type.bytes);
        std::vector<double> stored(kCount);
        store_elements(type, forward, elements.data());
        load_elements(type, elements.data(), stored);
        ASSERT_EQ(stored, forward) << type.name << " with " << ranks;
      }
      std::vector<double> expected(kCount);
      GeneratedWorkload(shape).expected(0, expected);
      ASSERT_EQ(expected, forward) << type.name << " with " << ranks;
    }
  }
}

TEST(Workload, DependsOnSeedRankAndIndexAlone) {
  const ElementType& type = find_element_type("float");
  const GeneratedWorkload::Shape shape = {type, Operation::kSum, 1, 4, 9};
  const std::vector<double> whole = own_values(shape, 0);
  const std::vector<double> tail = own_values(shape, 100);
  for (std::size_t i = 0; i + 100 < kCount; ++i) ASSERT_EQ(tail[i], whole[i + 100]);
  GeneratedWorkload::Shape other = shape;
  other.rank = 2;
  EXPECT_NE(own_values(other, 0), whole);
  other = shape;
  other.seed = 10;
  EXPECT_NE(own_values(other, 0), whole);
}

TEST(Workload, ValuesAreBellShaped) {
  const std::vector<double> values =
      own_values({find_element_type("float"), Operation::kSum, 0, 4, 1}, 0);
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    ASSERT_LE(std::fabs(value), 1.0);
  }
  EXPECT_NEAR(sum / kCount, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / kCount), 0.2887, 0.02);
}

TEST(Workload, ProductsMaximaAndAveragesFollowTheirDefinition) {
  for (const Operation operation :
       {Operation::kProd, Operation::kMax, Operation::kMin, Operation::kAvg, Operation::kMulSum}) {
    GeneratedWorkload::Shape shape = {find_element_type("double"), operation, 0, 2, 3};
    const std::vector<double> first = own_values(shape, 0);
    shape.rank = 1;
    const std::vector<double> second = own_values(shape, 0);
    std::vector<double> expected(kCount);
    GeneratedWorkload(shape).expected(0, expected);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double a = first[i];
      const double b = second[i];
      switch (operation) {
        case Operation::kSum:
          break;
        case Operation::kProd:
          ASSERT_EQ(expected[i], a * b);
          break;
        case Operation::kMax:
          ASSERT_EQ(expected[i], std::max(a, b));
          break;
        case Operation::kMin:
          ASSERT_EQ(expected[i], std::min(a, b));
          break;
        case Operation::kAvg:
          ASSERT_EQ(expected[i], (a + b) / 2);
          break;
        case Operation::kMulSum:
          ASSERT_EQ(expected[i], 2 * a + 2 * b);
          break;
      }
    }
  }
}

TEST(Workload, InPlaceCallsStayFinite) {
  const ElementType half = find_element_type("half");
  const int calls = calls_until_overflow(half, Operation::kSum, 4);
  EXPECT_LT(4 * std::pow(4.0, calls), 65504);
  EXPECT_EQ(calls_until_overflow(half, Operation::kProd, 4), 1);
  EXPECT_GT(calls_until_overflow(half, Operation::kMax, 4), 1 << 20);
  EXPECT_GT(calls_until_overflow(find_element_type("int32"), Operation::kSum, 4), 1 << 20);
}

TEST(Workload, RecordedValuesRepeat) {
  const RecordedWorkload workload({1, 2, 3}, {10, 20, 30});
  std::vector<double> values(5);
  workload.own_values(2, values);
  EXPECT_EQ(values, (std::vector<double>{3, 1, 2, 3, 1}));
  workload.expected(3, values);
  EXPECT_EQ(values, (std::vector<double>{10, 20, 30, 10, 20}));
  EXPECT_THROW(RecordedWorkload({}, {}), terminal::Error);
  EXPECT_THROW(RecordedWorkload({1}, {1, 2}), terminal::Error);
}

}  // namespace
}  // namespace ringpress::perf
