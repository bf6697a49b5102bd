// Where coordinate scales are all but free.
#include <gtest/gtest.h>

#include "tuner/factory.h"

namespace ringpress::scales_cost_test {
namespace {

constexpr std::size_t kBytes = 16 << 20;

Calibration with_link(double bytes_per_second) {
  const CodecSpeed none{"none", 1, 0, {}, {}, {0, 1e-10}};
  const CodecSpeed q4{"q4", 0.13, 0.1, {1e-6, 2e-10}, {1e-6, 1e-10}, {1e-6, 4e-10}};
  return {{50e-6, bytes_per_second}, {none, q4}, {}};
}

bool are_cheap(double bytes_per_second, int world = 4) {
  return tuner::are_scales_cheap({kBytes, world}, with_link(bytes_per_second),
                                 {1, Algorithm::kSra, 0})
      .value();
}

TEST(ScalesCost, IsNothingWhereTheLinkIsTheLimit) {
  for (const int world : {2, 4, 16}) {
    EXPECT_TRUE(are_cheap(12.5e6, world)) << world;
    EXPECT_FALSE(are_cheap(12.5e9, world)) << world;
  }
}

/// Not now this and now that.
TEST(ScalesCost, HasOneBound) {
  bool was_cheap = true;
  int changes = 0;
  for (double rate = 1e6; rate < 1e11; rate *= 1.1) {
    if (are_cheap(rate) != was_cheap) ++changes;
    was_cheap = are_cheap(rate);
  }
  EXPECT_EQ(changes, 1);
}

TEST(ScalesCost, NamesALinkThatIsNone) {
  EXPECT_FALSE(tuner::are_scales_cheap({kBytes, 4}, with_link(0), {1, Algorithm::kSra, 0}).is_ok());
}

}  // namespace
}  // namespace ringpress::scales_cost_test
