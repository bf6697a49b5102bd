#include "nccl_plugin/session/calls/recurrences.h"

#include <gtest/gtest.h>

namespace ringpress::nccl_plugin {
namespace {

PlanRequest request_of(std::size_t count, DType dtype = DType::kFloat32) {
  PlanRequest request;
  request.count = count;
  request.world = 2;
  request.dtype = dtype;
  return request;
}

TEST(Recurrences, CountEarlierCallsOfAKind) {
  Recurrences recurrences;
  for (std::uint64_t earlier = 0; earlier < 3; ++earlier) {
    EXPECT_EQ(recurrences.count(request_of(1000)), earlier);
    EXPECT_EQ(recurrences.count(request_of(2000)), earlier);
    EXPECT_EQ(recurrences.count(request_of(1000, DType::kBfloat16)), earlier);
  }
  PlanRequest average = request_of(1000);
  average.op = ReduceOp::kAvg;
  EXPECT_EQ(recurrences.count(average), 0u);
}

/// Two ranks, one of which also sees calls that are never compressed: both know the same of others.
TEST(Recurrences, ForgetAlikeOnAllRanks) {
  Recurrences one, other;
  for (std::size_t count = 1; count <= 10000; ++count) {
    other.count(request_of(count, DType::kInt32));
    PlanRequest scaled = request_of(count);
    scaled.pre_multiplied = true;
    other.count(scaled);
    for (const std::size_t again : {count, std::size_t{7}}) {
      EXPECT_EQ(one.count(request_of(again)), other.count(request_of(again)));
    }
  }
  // One kind among thousands is known again soon after it was forgotten.
  EXPECT_GT(one.count(request_of(7)), 1000u);
  EXPECT_EQ(one.count(request_of(1)), 0u);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
