// What check() finds in a result, with one rank: a communicator of this library's own.
#include "perf/all_reduce/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "perf/all_reduce/elements.h"

namespace ringpress::perf {
namespace {

constexpr std::size_t kCount = 40000;  // More than a block of those that are converted at a time.

class Check : public testing::Test {
 protected:
  Check() : buffer_(kCount * sizeof(float)) { fill(workload_, type_, kCount, buffer_); }

  /// Of a result that differs in one element.
  CheckResult check_with(std::size_t index, float value, Strictness strictness) {
    buffer_.write(index * sizeof value, &value, sizeof value);
    return check(workload_, type_, kCount, buffer_, strictness, group_);
  }
  double exact(std::size_t index) const {
    double value = 0;
    workload_.expected(index, {&value, 1});
    return value;
  }
  static ncclUniqueId id() {
    ncclUniqueId made;
    require(ncclGetUniqueId(&made), "ncclGetUniqueId");
    return made;
  }

  const ElementType type_ = find_element_type("float");
  const GeneratedWorkload workload_{{type_, Operation::kSum, 0, 1, 7}};
  Group group_{{"none", "none", ""}, id(), 0, 1};
  DeviceBuffer buffer_;
};

TEST_F(Check, ARightResultHasNoError) {
  const CheckResult found = check(workload_, type_, kCount, buffer_, Strictness::kExact, group_);
  EXPECT_EQ(found.wrong_elements, 0);
  EXPECT_EQ(found.relative_error, 0);
  EXPECT_TRUE(found.identical);
  EXPECT_EQ(found.magnitudes.largest_error, 0);
  std::vector<double> values(kCount);
  workload_.own_values(0, values);
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::fabs(value));
  EXPECT_EQ(found.magnitudes.largest_inputs, largest);
  EXPECT_EQ(found.magnitudes.largest_exact, largest);
}

TEST_F(Check, FindsTheLargestErrorWhereverItIs) {
  for (const std::size_t index : {std::size_t{0}, std::size_t{20000}, kCount - 1}) {
    const auto value = static_cast<float>(exact(index) + 0.5);
    const CheckResult found = check_with(index, value, Strictness::kExact);
    EXPECT_EQ(found.wrong_elements, 1);
    EXPECT_NEAR(found.magnitudes.largest_error, 0.5, 1e-6);
    check_with(index, static_cast<float>(exact(index)), Strictness::kExact);
  }
}

TEST_F(Check, LossIsAllowedButNotWhatIsNotFinite) {
  EXPECT_EQ(check_with(5, 123, Strictness::kFinite).wrong_elements, 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const CheckResult found = check_with(5, nan, Strictness::kFinite);
  EXPECT_EQ(found.wrong_elements, 1);
  EXPECT_TRUE(std::isnan(found.magnitudes.largest_error));
}

TEST_F(Check, OneRankHoldsWhatItHolds) {
  EXPECT_TRUE(holds_same_bytes(buffer_, buffer_.bytes(), group_));
}

}  // namespace
}  // namespace ringpress::perf
