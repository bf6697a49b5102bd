// Every codec of the list, by both algorithms: whatever values come, wherever they stand and
// whoever brings them, all ranks end with the same bytes, what is not finite stays so, and
// residuals stay finite.
#include <cstring>
#include <limits>

#include "compress_kernels/specification.h"
#include "ringpress/internal/projection.h"
#include "tests/contract/collective_contract.h"

namespace ringpress::testing {
namespace {

constexpr int kWorld = 5;  // A ring of fewer has no partial sums.
constexpr std::size_t kCount = 3 * 1024 + 2 * 1024 + 77;

float negative_nan() {
  return -std::numeric_limits<float>::quiet_NaN();
}

const float kSpecials[] = {std::numeric_limits<float>::quiet_NaN(),
                           negative_nan(),
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::max(),
                           std::numeric_limits<float>::denorm_min(),
                           -0.0f};

/// First, in the middle and last of a block of any size, of a tile, of a shard, of the tensor.
constexpr std::size_t kPositions[] = {0, 1024 + 16, 2047, kCount - 1};

struct Placement {
  float value = 0;
  std::size_t position = 0;
  bool on_all_ranks = false;
};

std::vector<Placement> placements() {
  std::vector<Placement> all;
  for (const float value : kSpecials) {
    for (const std::size_t position : kPositions) {
      for (const bool on_all_ranks : {false, true}) all.push_back({value, position, on_all_ranks});
    }
  }
  return all;
}

class SpecialValues : public ::testing::TestWithParam<std::tuple<std::string, Algorithm>> {
 protected:
  /// One all-reduce by every rank; residuals are changed.
  std::vector<std::vector<float>> results(const std::vector<std::vector<float>>& inputs,
                                          std::vector<std::vector<float>>* residuals) const {
    CollectiveCase c;
    c.codec = std::get<0>(GetParam());
    c.algorithm = std::get<1>(GetParam());
    c.world = kWorld;
    c.count = kCount;
    const bool takes_residual = !codec_for(c)->traits().lossless || c.codec == "none";
    return all_reduce_results(c, inputs, takes_residual ? residuals : nullptr);
  }
};

TEST_P(SpecialValues, ComeOutAlikeOnEveryRank) {
  CollectiveCase c;
  c.world = kWorld;
  c.count = kCount;
  const auto plain = random_inputs(c, 1);
  for (const Placement& placement : placements()) {
    auto inputs = plain;
    for (int rank = 0; rank < kWorld; ++rank) {
      if (rank != 1 && !placement.on_all_ranks) continue;
      inputs[static_cast<std::size_t>(rank)][placement.position] = placement.value;
    }
    std::vector<std::vector<float>> residuals(kWorld, std::vector<float>(kCount));
    const auto sums = results(inputs, &residuals);
    expect_identical(sums);
    if (!std::isfinite(placement.value)) {
      EXPECT_FALSE(std::isfinite(sums[0][placement.position]))
          << placement.value << " at " << placement.position;
    } else if (std::abs(placement.value) < 1) {
      for (const float sum : sums[0]) ASSERT_TRUE(std::isfinite(sum)) << placement.value;
    }
    for (const auto& residual : residuals) {
      for (const float lost : residual) ASSERT_TRUE(std::isfinite(lost)) << placement.value;
    }
    ASSERT_FALSE(HasFailure()) << placement.value << " at " << placement.position
                               << (placement.on_all_ranks ? " on all ranks" : " on one rank");
  }
}

/// Counts around those of blocks and tiles, down to fewer elements than ranks.
TEST_P(SpecialValues, AnyCountComesOutAlikeOnEveryRank) {
  for (const std::size_t count : {1U, 2U, 31U, 127U, 129U, 1023U, 1024U, 1025U, 2049U, 4095U}) {
    CollectiveCase c;
    c.codec = std::get<0>(GetParam());
    c.algorithm = std::get<1>(GetParam());
    c.world = kWorld;
    c.count = count;
    const auto sums = all_reduce_results(c, random_inputs(c, count));
    expect_identical(sums);
    for (const float sum : sums[0]) ASSERT_TRUE(std::isfinite(sum)) << count;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& codec : compress_kernels::codec_list()) all.emplace_back(codec.name);
  return all;
}

std::string case_name(const ::testing::TestParamInfo<SpecialValues::ParamType>& info) {
  std::string name = std::get<0>(info.param) + "_" + algorithm_name(std::get<1>(info.param));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Codecs, SpecialValues,
                         ::testing::Combine(::testing::ValuesIn(names()),
                                            ::testing::Values(Algorithm::kRing, Algorithm::kSra)),
                         case_name);

}  // namespace
}  // namespace ringpress::testing
