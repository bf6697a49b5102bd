// The kernels of topk:select=chunk on fibers, on chunks of several tiles: agent_test.cc has the
// short ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "tests/compress_kernels/device_case.h"
#include "tests/compress_kernels/fiber_device.h"

namespace ringpress::compress_kernels::testing::chunk_topk_agent_test {
namespace {

using chunk_topk::kTile;

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};
const std::vector<std::string> kSpecifications = {
    "topk:select=chunk", "topk:select=chunk,density=0.5", "topk:select=chunk,density=0.00001",
    "topk:select=chunk,density=0.07,value=16"};

Case case_of(unsigned number) {
  Case c;
  c.specification = kSpecifications[number % kSpecifications.size()];
  c.dtype = kTypes[number % 3];
  c.kind = kAllValues[number % std::size(kAllValues)];
  c.seed = number;
  c.offset = number % 3 == 0 ? 0 : number;
  c.parts = number % 4;
  c.own_position = number % (c.parts + 1);
  c.divisor = number % 5 == 0 ? 3 : 1;
  c.is_encoded = number % 7 != 6;
  c.residual = number % 2 == 0 && c.is_encoded;
  c.decoded = number % 3 != 1 || !c.is_encoded;
  c.in_place = c.decoded && number % 6 == 0;
  return c;
}

void compare(const Case& c) {
  const auto agents = make_fiber_codec(c.specification, c.dtype, {c.seed, 1});
  ASSERT_TRUE(agents.is_ok()) << c;
  EXPECT_EQ(DeviceComparison(c, *agents.value()).run(), "");
}

/// Some blocks have several tiles, and take them in any order.
TEST(ChunkTopkAgent, AgreesAroundTiles) {
  unsigned number = 0;
  for (const std::size_t count :
       {kTile - 1, kTile, kTile + 1, 2 * kTile - 7, 3 * kTile + 77, 7 * kTile, 7 * kTile + 8000}) {
    for (int of_each = 0; of_each < 4; ++of_each) {
      Case c = case_of(number++);
      c.counts = {count};
      compare(c);
    }
  }
}

/// Shards of other lengths in one launch; more of them than one launch takes.
TEST(ChunkTopkAgent, TakesManyShards) {
  Case c = case_of(0);
  c.kind = Values::kSpecial;
  c.counts = {kTile + 5, 0, 3, 2 * kTile, 0, 40};
  compare(c);
  c.counts.assign(core::kMostShards + 2, 33);
  c.counts.back() = kTile + 1;
  c.offset = 3;
  compare(c);
}

/// What the kernels make of some values, beside the scalar reference.
void compare_values(const std::string& specification, const std::vector<float>& values) {
  Case c;
  c.specification = specification;
  c.counts = {values.size()};
  c.residual = c.decoded = true;
  const auto agents = make_fiber_codec(specification, DType::kFloat32, {3, 1}).value();
  const auto reference = make_reference(c);
  const Shards expected = make_shards(*reference, c);
  const Shards actual = make_shards(*reference, c);
  for (const Shards* shards : {&expected, &actual}) {
    (*shards)[0]->values.assign(values.data());
    std::memset((*shards)[0]->residual.data(), 0, (*shards)[0]->residual.bytes());
  }
  reference->encode(expected[0]->arguments<EncodeArgs>(c));
  const std::vector<EncodeArgs> args = {actual[0]->arguments<EncodeArgs>(c)};
  ScratchMemory scratch(*agents, args);
  ASSERT_TRUE(agents->encode(nullptr, args, scratch.data()).is_ok());
  const auto same = [](const GuardedBuffer& a, const GuardedBuffer& b) {
    return std::memcmp(a.data(), b.data(), a.bytes()) == 0 && a.guards_intact();
  };
  EXPECT_TRUE(same(actual[0]->wire, expected[0]->wire)) << specification;
  EXPECT_TRUE(same(actual[0]->residual, expected[0]->residual)) << specification;
  EXPECT_TRUE(same(actual[0]->decoded, expected[0]->decoded)) << specification;
}

TEST(ChunkTopkAgent, AgreesOnTiesZerosAndNan) {
  const std::size_t count = 2 * kTile + 500;
  std::vector<float> rising(count), poisoned = draw_floats(count, Values::kNormal, 1);
  for (std::size_t i = 0; i < count; ++i) rising[i] = static_cast<float>(i);
  for (const std::string& specification : kSpecifications) {
    compare_values(specification, std::vector<float>(count, 0.0f));
    compare_values(specification, std::vector<float>(count, -0.25f));
    compare_values(specification, std::vector<float>(count, std::nanf("")));
    compare_values(specification, rising);
    // As many as there is room for, and one more.
    const auto room = topk::selected_count(
        specification.find("density=0.07") != std::string::npos ? 0.07 : 0.01, count);
    std::vector<float> values = poisoned;
    for (std::size_t i = 0; i < room; ++i) values[3 * i] = INFINITY;
    compare_values(specification, values);
    values[1] = std::nanf("");
    compare_values(specification, values);
  }
}

/// Tiles whose bytes name too few elements, the same ones twice, or more than there are.
TEST(ChunkTopkAgent, DecodesAnyBytes) {
  std::mt19937 engine(4);
  for (unsigned number = 0; number < 60; ++number) {
    Case c = case_of(number);
    c.counts = {kTile + 1 + engine() % (2 * kTile)};
    c.residual = c.decoded = c.in_place = false;
    c.kind = Values::kNormal;
    const auto agents = make_fiber_codec(c.specification, c.dtype, {c.seed, 1}).value();
    const auto reference = make_reference(c);
    const Shards shards = make_shards(*reference, c);
    reference->encode(shards[0]->arguments<EncodeArgs>(c));
    GuardedBuffer& wire = shards[0]->wire;
    for (unsigned k = 0; k < 1 + number % 8; ++k) {
      wire.data()[engine() % wire.bytes()] ^= static_cast<std::byte>(1u << (engine() % 8));
      if (number % 3 == 0) wire.data()[engine() % 8] ^= static_cast<std::byte>(engine());
    }
    EXPECT_EQ(DeviceComparison(c, *agents).decode(shards), "");
  }
}

TEST(ChunkTopkAgent, WantsItsScratchMemory) {
  const auto agents = make_fiber_codec("topk:select=chunk", DType::kFloat32, {}).value();
  EXPECT_EQ(make_fiber_codec("q4", DType::kFloat32, {}).value()->scratch_bytes(3, 5000), 0u);
  EXPECT_GE(agents->scratch_bytes(1, 100), chunk_topk::kClasses * 4 + 100 * 4);
  std::vector<float> values(100, 1.0f);
  std::vector<std::byte> wire(agents->codec().wire_bytes(100));
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size();
  args.wire = wire.data();
  EXPECT_EQ(agents->encode(nullptr, {&args, 1}, nullptr).code(), Code::kInvalidUsage);
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::chunk_topk_agent_test
