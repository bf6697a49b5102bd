// The kernels of coordinate scales, run on fibers, make what the functions for host memory make,
// and a device's codec with scales makes the values of the host's.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compress_kernels/fiber_device.h"
#include "tests/compress_kernels/scales_comparison.h"

namespace ringpress::compress_kernels::testing::scales_agent_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

TEST(ScalesAgent, MakesTheBitsOfTheHostAtEveryBoundary) {
  std::uint32_t seed = 0;
  for (const char* const specification : {"q2", "q4", "q4:block=32", "q8:block=1024"}) {
    for (const DType dtype : kTypes) {
      for (const std::size_t count : {1, 7, 8, 255, 257, 1000, 2049, 5000}) {
        ScalesCase c{specification, dtype, count};
        c.seed = ++seed;
        c.offset = seed % 3;
        c.shards = 1 + seed % 3;
        c.has_lost = seed % 2 == 0;
        FiberDevice device({seed, 1 + seed % 2});
        ASSERT_EQ(compare_scales(c, device), "");
      }
    }
  }
}

TEST(ScalesAgent, MakesTheBitsOfTheHostInRandomCases) {
  std::mt19937 engine(7);
  FiberDevice device;
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(compare_scales(random_scales_case(3000, engine), device), "");
  }
}

/// Ranks that have no codes need not know of those who have, as long as these are all 0.
TEST(ScaledDeviceCodec, WithoutCodesMakesTheBytesOfTheCodecWithoutScales) {
  HostCodecDevice device;
  for (const char* const specification : kScaledSpecifications) {
    for (const DType dtype : kTypes) {
      for (const std::size_t count : {1, 1000, 5000}) {
        ScalesCase c{specification, dtype, count, 3};
        c.seed = static_cast<std::uint32_t>(count);
        c.has_lost = count == 5000;
        const auto plain = device.make_codec(specification, dtype, ReduceOp::kSum).value();
        const auto scaled =
            make_scaled_device_codec(device, specification, dtype, ReduceOp::kSum).value();
        const std::vector<std::uint8_t> zeros(count + c.shards);
        ScalesRun without(device, c), with(device, c);
        without.run_codec(*plain, nullptr);
        with.run_codec(*scaled, &zeros);
        EXPECT_EQ(compare_runs(with, without), "") << specification << " " << dtype_name(dtype);
      }
    }
  }
}

/// In a world of two there are no partial sums.
std::vector<MadeArray> decoded_of_host(const ScalesCase& c, const std::vector<float>& values,
                                       const std::vector<std::uint8_t>& codes) {
  const auto codec = make_scaled_codec(c.specification, c.dtype, ReduceOp::kSum).value();
  const std::vector<std::byte> own = to_elements(values, c.dtype);
  MadeArray decoded{"decoded", c.dtype, std::vector<std::byte>(own.size())};
  MadeArray residual{"residual", DType::kFloat32, to_elements(values, DType::kFloat32)};
  std::vector<std::byte> wire(codec->wire_bytes(c.count, {1, 2}));
  EncodeArgs args;
  args.values = own.data();
  args.count = c.count;
  args.residual = reinterpret_cast<float*>(residual.bytes.data());
  args.wire = wire.data();
  args.decoded = decoded.bytes.data();
  args.random = {1, 2, 3, 4096};
  args.form = {1, 2};
  args.scales = codes.data();
  codec->encode(args);
  return {decoded, residual};
}

TEST(ScaledDeviceCodec, MakesTheValuesOfTheHosts) {
  HostCodecDevice device;
  for (const char* const specification :
       {"q2", "q3", "q4", "q5", "q6", "q7", "q8", "q4:block=64", "q4:round=stochastic"}) {
    for (const DType dtype : kTypes) {
      for (const std::size_t count : {1, 2049, 10000}) {
        const ScalesCase c{specification, dtype, count};
        const std::vector<float> values = draw_floats(count, Values::kNormal, 3);
        std::vector<std::uint8_t> codes(count);
        for (std::size_t i = 0; i < count; ++i) {
          codes[i] = static_cast<std::uint8_t>(i * i % (scales::kLargestScale + 1U));
        }
        const std::vector<MadeArray> expected = decoded_of_host(c, values, codes);
        const auto codec =
            make_scaled_device_codec(device, specification, dtype, ReduceOp::kSum).value();
        const std::vector<std::byte> own = to_elements(values, dtype);
        std::vector<float> residual = values;
        std::vector<std::byte> decoded(own.size());
        std::vector<std::byte> wire(codec->codec().wire_bytes(count, {1, 2}));
        std::vector<std::byte> scratch(codec->scratch_bytes(1, count) + 64);
        EncodeArgs args;
        args.values = own.data();
        args.count = count;
        args.residual = residual.data();
        args.wire = wire.data();
        args.decoded = decoded.data();
        args.random = {1, 2, 3, 4096};
        args.form = {1, 2};
        args.scales = codes.data();
        ASSERT_TRUE(codec->encode(nullptr, {&args, 1}, scratch.data()).is_ok());
        EXPECT_EQ(first_difference(decoded.data(), expected[0].bytes.data(), count, dtype), count)
            << specification << " " << dtype_name(dtype) << " " << count;
        EXPECT_EQ(first_difference(reinterpret_cast<const std::byte*>(residual.data()),
                                   expected[1].bytes.data(), count, DType::kFloat32),
                  count);
      }
    }
  }
}

TEST(ScaledDeviceCodec, IsForCodecsThatTakeScales) {
  HostCodecDevice device;
  for (const char* const other : {"fp16", "q1", "q4:grid=minmax", "qsgd", "sign", "tern"}) {
    EXPECT_EQ(
        make_scaled_device_codec(device, other, DType::kFloat32, ReduceOp::kSum).status().code(),
        Code::kUnsupported)
        << other;
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::scales_agent_test
