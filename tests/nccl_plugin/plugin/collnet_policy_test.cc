// The decisions of the tuner plugin by themselves.
#include "nccl_plugin/plugin/collnet_policy.h"

#include <gtest/gtest.h>

#include "tests/support/rules_file.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

TEST(CollNetPolicy, KnowsNcclsChunks) {
  const auto chain = [](std::size_t bytes, int channels, std::size_t ranks_per_node = 1) {
    return nccl_chunk_bytes(CollNetRoute::kChain, bytes, ranks_per_node, channels);
  };
  EXPECT_EQ(chain(128 * kMiB, 8), 256 * kKiB);
  EXPECT_EQ(chain(128 * kMiB - 1, 8), 128 * kKiB);
  EXPECT_EQ(chain(8 * kMiB, 8), 128 * kKiB);
  EXPECT_EQ(chain(8 * kMiB - 1, 8), 64 * kKiB);
  EXPECT_EQ(chain(512 * kKiB, 8), 64 * kKiB);
  EXPECT_EQ(chain(512 * kKiB - 1, 8), 32 * kKiB);
  EXPECT_EQ(chain(128 * kMiB, 8, 2), 128 * kKiB);
  const auto direct = [](std::size_t bytes, int channels, std::size_t ranks_per_node) {
    return nccl_chunk_bytes(CollNetRoute::kDirect, bytes, ranks_per_node, channels);
  };
  EXPECT_EQ(direct(std::size_t{4096} * kMiB, 8, 8), 512 * kKiB);
  EXPECT_EQ(direct(std::size_t{4096} * kMiB - 1, 8, 8), 256 * kKiB);
  EXPECT_EQ(direct(16 * kMiB, 8, 8), 32 * kKiB);
}

// Few channels for small messages, so that little padding is sent; all for large ones.
TEST(CollNetPolicy, ChannelsPadLittle) {
  const CollNetPolicy policy(parse_settings({}, nullptr), {4, 4, 8});
  for (std::size_t bytes = 64 * kKiB; bytes <= 256 * kMiB; bytes = bytes * 9 / 8) {
    const int channels = policy.channels(CollNetRoute::kChain, bytes, 0);
    ASSERT_GE(channels, 1);
    ASSERT_LE(channels, 8);
    const std::size_t call = static_cast<std::size_t>(channels) *
                             nccl_chunk_bytes(CollNetRoute::kChain, bytes, 1, channels);
    const std::size_t sent = (bytes + call - 1) / call * call;
    EXPECT_LT(sent - bytes, 32 * kKiB + bytes / 8) << bytes;
    if (bytes >= 8 * kMiB) {
      EXPECT_EQ(channels, 8);
      EXPECT_GE(call, kMiB);
    }
  }
}

// Rules for a type hold for all: NCCL does not say which one a call has.
TEST(CollNetPolicy, FollowsRules) {
  const ringpress::test::RulesFile file(
      "allreduce,0,1048575,-1,-1,-1,-1,-1,-1,-1,none,-1,bfloat16\n"
      "allreduce,1048576,2097151,-1,-1,-1,-1,-1,-1,-1,q4,dp*\n"
      "allreduce,1048576,2097151,-1,-1,-1,3,-1,-1,-1,q4\n"
      "allreduce,1048576,2097151,-1,-1,-1,2,16,-1,-1,q4\n");
  const auto preference = [&file](const char* codec, std::size_t bytes) {
    const CollNetPolicy policy(
        parse_settings({{"RINGPRESS_RULES", file.path()}, {"RINGPRESS_CODEC", codec}}, nullptr),
        {16, 2, 8});
    return policy.preference(abi::Function::kAllReduce, bytes);
  };
  EXPECT_EQ(preference("q8", kMiB - 1), Preference::kAvoid);
  EXPECT_EQ(preference("none", kMiB), Preference::kCollNet);
  EXPECT_EQ(preference("none", 2 * kMiB), Preference::kAvoid);
  EXPECT_EQ(preference("q8", 2 * kMiB), Preference::kCollNet);
}

// As the engine would leave the pieces exact, whatever their type.
TEST(CollNetPolicy, KeepsToNcclWhatNoCodecMakesSmaller) {
  const auto policy = [](const char* codec) {
    return CollNetPolicy(parse_settings({{"RINGPRESS_CODEC", codec}}, nullptr), {16, 2, 8});
  };
  for (const char* const codec : {"q4", "fp16", "bf16", "sign", "topk", "lossless", "auto"}) {
    EXPECT_TRUE(policy(codec).wants_collnet()) << codec;
    EXPECT_EQ(policy(codec).why_none(), "") << codec;
  }
  for (const char* const codec : {"none", "powersgd", "randk"}) {
    EXPECT_FALSE(policy(codec).wants_collnet()) << codec;
    EXPECT_NE(policy(codec).why_none().find(codec), std::string::npos) << codec;
    EXPECT_NE(policy(codec).description().find(policy(codec).why_none()), std::string::npos);
  }
}

TEST(CollNetPolicy, KnowsWhatTheEnvironmentGuarantees) {
  EXPECT_EQ(least_channels({}), 0);
  EXPECT_EQ(least_channels({"8", nullptr, nullptr}), 8);
  EXPECT_EQ(least_channels({"8", "2", "1"}), 8);
  // The program may have set the largest number to one.
  EXPECT_EQ(least_channels({nullptr, "16", nullptr}), 0);
  EXPECT_EQ(least_channels({"2", "16", "32"}), 16);
  EXPECT_EQ(least_channels({nullptr, "16", "4"}), 4);
  for (const char* wrong : {"0x8", "-1", "08", "8x", ""}) {
    EXPECT_EQ(least_channels({wrong, wrong, wrong}), 0) << wrong;
  }
}

TEST(CollNetPolicy, TakesNoMoreChannelsThanItKnowsOf) {
  const auto channels = [](int least, int seen) {
    const CollNetPolicy policy(parse_settings({}, nullptr), {4, 4, least});
    return policy.channels(CollNetRoute::kChain, 256 * kMiB, seen);
  };
  EXPECT_EQ(channels(0, 0), 0);
  EXPECT_EQ(channels(0, 3), 3);
  EXPECT_EQ(channels(4, 3), 4);
  EXPECT_EQ(channels(4, 64), 8);
}

TEST(CollNetPolicy, DirectSharesAMessageAmongTheHeads) {
  const CollNetPolicy policy(parse_settings({}, nullptr), {32, 4, 8});
  EXPECT_EQ(policy.chunk_bytes(CollNetRoute::kDirect, 256 * kMiB, 8, 128 * kKiB), kMiB);
  EXPECT_EQ(policy.chunk_bytes(CollNetRoute::kChain, 256 * kMiB, 8, 128 * kKiB), 4 * kMiB);
  EXPECT_EQ(policy.channels(CollNetRoute::kDirect, 256 * kMiB, 0), 8);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin
