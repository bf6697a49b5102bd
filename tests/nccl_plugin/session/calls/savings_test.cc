// A codec that makes a call no smaller leaves it as it is, and says so: nothing is lost for
// nothing.
#include "nccl_plugin/session/calls/savings.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "ringpress/internal/communicator.h"
#include "tests/support/communicator_ranks.h"
#include "tests/support/narrow_values.h"

namespace ringpress::nccl_plugin::savings_test {
namespace {

constexpr std::size_t kCount = 20000;
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

std::vector<std::string> all_codecs() {
  std::vector<std::string> codecs{"randk:density=1",  "randk:density=0.6",
                                  "powersgd:rank=64", "qsgd:bits=8",
                                  "q8:block=32",      "topk:density=0.2,value=16"};
  for (const std::string_view name : compress_kernels::codec_names()) codecs.emplace_back(name);
  return codecs;
}

/// Values that every type holds: small whole numbers, which `lossless` and sparse codecs can
/// shrink.
std::vector<std::byte> values_of(DType dtype) {
  std::vector<float> wide(kCount);
  for (std::size_t i = 0; i < kCount; ++i) wide[i] = static_cast<float>(i % 7) - 3;
  std::vector<std::byte> values(kCount * dtype_size(dtype));
  compress_kernels::narrow_values(wide.data(), kCount, dtype, values.data());
  return values;
}

void expect_smaller_or_left(Communicator& communicator, const std::string& codec, DType dtype) {
  const std::string what = codec + " of " + dtype_name(dtype);
  std::vector<std::byte> values = values_of(dtype);
  const Statistics before = communicator.statistics();
  ASSERT_TRUE(communicator.all_reduce(values.data(), values.data(), kCount, dtype, {}).is_ok());
  const Statistics after = communicator.statistics();
  if (after.compressed_calls > before.compressed_calls) {
    EXPECT_EQ(after.last_reason, "") << what;
    EXPECT_LT(after.wire_bytes - before.wire_bytes, after.raw_bytes - before.raw_bytes) << what;
    return;
  }
  const std::string reason = codec == "none"
                                 ? "RINGPRESS_CODEC=none"
                                 : codec + " makes " + dtype_name(dtype) + " no smaller";
  EXPECT_EQ(after.last_codec, "none") << what;
  EXPECT_EQ(after.last_reason, reason);
  EXPECT_GT(after.exact_calls.at(reason), 0U);
}

TEST(Savings, EveryCodecMakesATypeSmallerOrLeavesIt) {
  for (const int ranks : {2, 3}) {
    for (const std::string& codec : all_codecs()) {
      const auto body = [&codec](Communicator* communicator) {
        for (const DType dtype : kTypes) expect_smaller_or_left(*communicator, codec, dtype);
        return Status::ok();
      };
      const testing::RankEnvironment environment{{"RINGPRESS_CODEC", codec},
                                                 {"RINGPRESS_MIN_BYTES", "0"}};
      EXPECT_EQ(testing::failures_of(testing::run_communicators(ranks, environment, body)), "");
    }
  }
}

// Which of them it is, for as many ranks as make the difference.
TEST(Savings, AreKnownByKindAndRanks) {
  const auto saves = [](const char* name, DType dtype, int world,
                        CollectiveKind kind = CollectiveKind::kAllReduce) {
    const auto codec = compress_kernels::make_codec(name, dtype, ReduceOp::kSum);
    PlanRequest request{kind, kCount, dtype};
    request.world = world;
    return saves_bytes(*codec.value(), request);
  };
  for (const char* const name : {"fp16", "bf16"}) {
    EXPECT_TRUE(saves(name, DType::kFloat32, 2)) << name;
    EXPECT_FALSE(saves(name, DType::kFloat16, 2)) << name;
    EXPECT_FALSE(saves(name, DType::kBfloat16, 2)) << name;
  }
  // Sums of many codes need more bits than one.
  EXPECT_TRUE(saves("qsgd:bits=8", DType::kBfloat16, 8));
  EXPECT_FALSE(saves("qsgd:bits=8", DType::kBfloat16, 16384));
  EXPECT_TRUE(saves("qsgd:bits=8", DType::kBfloat16, 16384, CollectiveKind::kReduceScatter));
  EXPECT_FALSE(saves("none", DType::kFloat32, 2));
  EXPECT_TRUE(saves("lossless", DType::kBfloat16, 2));
}

// float16 holds neither such a sum nor such a small value; bfloat16 does.
TEST(Savings, NothingOverflowsForNothing) {
  const auto bits = [](float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  };
  const auto body = [&bits](Communicator* communicator) -> Status {
    std::vector<std::uint16_t> values(kCount, bits(0x1p100F));
    values[0] = bits(0x1p-100F);
    RINGPRESS_RETURN_IF_ERROR(
        communicator->all_reduce(values.data(), values.data(), kCount, DType::kBfloat16, {}));
    EXPECT_EQ(values[0], bits(0x1p-99F));
    EXPECT_EQ(values[1], bits(0x1p101F));
    return Status::ok();
  };
  const testing::RankEnvironment environment{{"RINGPRESS_CODEC", "fp16"}};
  EXPECT_EQ(testing::failures_of(testing::run_communicators(2, environment, body)), "");
}

}  // namespace
}  // namespace ringpress::nccl_plugin::savings_test
