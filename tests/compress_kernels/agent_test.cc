// The agents of CUDA kernels, run on fibers, make the bytes of the scalar reference: every codec
// that has them, type, length around groups, blocks and tiles, alignment and kind of values.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/specification.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/compress_kernels/device_case.h"
#include "tests/compress_kernels/fiber_device.h"
#include "tests/compress_kernels/random_case.h"
#include "tests/compress_kernels/staged_codec.h"
#include "tests/support/specifications_to_test.h"

namespace ringpress::compress_kernels::testing::agent_test {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBfloat16};

/// Runs a case on fibers.
void compare(const Case& c) {
  auto agents = make_fiber_codec(c.specification, c.dtype, {c.seed, 1 + c.seed % 2});
  ASSERT_TRUE(agents.is_ok()) << c;
  EXPECT_EQ(DeviceComparison(c, *agents.value()).run(), "");
}

bool has_agent(const std::string& specification) {
  return make_device_plan(specification, DType::kFloat32).is_ok();
}

/// Under sanitizers, where fibers take minutes, each codec has a fifth of the cases, another one
/// than the codec before it.
bool is_left_out([[maybe_unused]] unsigned number, [[maybe_unused]] unsigned codec) {
#ifdef RINGPRESS_SANITIZED
  return (number + codec) % 5 != 0;
#else
  return false;
#endif
}

bool is_lossless(const Case& c) {
  return make_codec(c.specification, c.dtype, ReduceOp::kSum).value()->traits().lossless;
}

/// The outputs of a case, chosen by the bits of a number.
void choose_outputs(Case& c, unsigned number) {
  c.residual = (number & 1) != 0 && !is_lossless(c);
  c.decoded = (number & 2) != 0;
  c.in_place = c.decoded && (number & 4) != 0;
}

/// Lengths around lanes' groups, blocks, rows and tiles.
TEST(Agent, AgreesAtEveryBoundary) {
  unsigned codec = 0;
  for (const std::string& specification : specifications_to_test()) {
    if (!has_agent(specification)) continue;
    unsigned number = 0;
    ++codec;
    for (const std::size_t edge : {0, 8, 32, 64, 128, 256, 1024, 2048}) {
      for (int difference = -1; difference <= 1; ++difference, ++number) {
        if ((edge == 0 && difference < 0) || is_left_out(number, codec)) continue;
        Case c;
        c.specification = specification;
        c.dtype = kTypes[number % 3];
        c.counts = {edge + static_cast<std::size_t>(difference)};
        c.kind = number % 2 == 0 ? Values::kSpecial : Values::kNormal;
        c.seed = number;
        c.offset = number % 4 == 0 ? 0 : number;
        c.parts = 2;
        c.own_position = number % 3;
        c.divisor = number % 5 == 0 ? 3 : 1;
        choose_outputs(c, number);
        compare(c);
        if (HasFailure()) return;
      }
    }
  }
}

/// All shards of a slice in one launch, some of them empty.
TEST(Agent, TakesManyShards) {
  for (const char* specification :
       {"q4", "q3", "fp8", "tern", "fp16", "q4:grid=lloyd", "qsgd-ms"}) {
    Case c;
    c.specification = specification;
    c.counts = {1024, 0, 1025, 3, 2500, 1024, 0};
    c.seed = 3;
    c.residual = c.decoded = true;
    compare(c);
    c.counts.assign(core::kMostShards + 3, 40);  // More than one launch takes.
    c.offset = 5;
    compare(c);
  }
}

TEST(Agent, AgreesOnEveryKindOfValues) {
  unsigned codec = 0;
  for (const std::string& specification : specifications_to_test()) {
    if (!has_agent(specification)) continue;
    unsigned number = 0;
    ++codec;
    for (const DType dtype : kTypes) {
      for (const Values kind : kAllValues) {
        if (is_left_out(number++, codec)) continue;
        Case c;
        c.specification = specification;
        c.dtype = dtype;
        c.counts = {2 * kTileElements + 200};
        c.kind = kind;
        c.seed = 20 + number;
        c.parts = 1;
        c.own_position = number % 2;
        choose_outputs(c, number);
        compare(c);
        if (HasFailure()) return;
      }
    }
  }
}

/// A hop of a ring: parts of so many contributions each, from so many ranks.
struct Ring {
  std::size_t parts;
  std::size_t part_summed;
  std::size_t world;
};

/// Partial sums of a ring have more bits than what they are made of and than what becomes of them,
/// or another grid.
void compare_partial_sums(const std::string& specification) {
  constexpr Ring kRings[] = {{1, 1, 8}, {5, 1, 8}, {2, 3, 16}, {1, 2, 3}, {2, 30, 90}};
  std::uint32_t number = 0;
  for (const Ring& ring : kRings) {
    Case c;
    c.specification = specification;
    c.dtype = kTypes[number % 3];
    c.counts = {kTileElements + 77};
    c.seed = ++number;
    c.offset = ring.parts;
    c.parts = ring.parts;
    c.part_summed = ring.part_summed;
    c.world = ring.world;
    c.own_position = number % 2;
    c.residual = number % 2 == 0;
    c.decoded = number % 3 == 0;
    compare(c);
  }
}

TEST(Agent, AgreesOnPartialSums) {
  for (int bits = 1; bits <= 8; ++bits) {
    for (const char* grid : {"uniform", "minmax", "lloyd"}) {
      compare_partial_sums("q" + std::to_string(bits) + ":grid=" + grid);
    }
  }
  for (const char* bits : {"1", "4", "8"}) compare_partial_sums("qsgd:bits=" + std::string(bits));
  compare_partial_sums("qsgd:norm=global");
  compare_partial_sums("qsgd-ms:bits=1/2/3/4,block=64");
  compare_partial_sums("qsgd-ms:norm=global,round=zero");
  compare_partial_sums("q2:round=stochastic");
  compare_partial_sums("q2:partial=same");
  compare_partial_sums("q8:grid=lloyd,round=stochastic");
}

TEST(Agent, EndsAReduceScatterWithoutEncoding) {
  for (const std::string& specification : specifications_to_test()) {
    if (!has_agent(specification)) continue;
    for (const DType dtype : kTypes) {
      Case c;
      c.specification = specification;
      c.dtype = dtype;
      c.counts = {kTileElements + 41};
      c.offset = 3;
      c.parts = 4;
      c.own_position = 4;
      c.divisor = 5;
      c.decoded = true;
      c.is_encoded = false;
      compare(c);
    }
  }
}

/// Any bytes decode to what the reference makes of them, without reading beyond the end.
TEST(Agent, DecodesAnyBytes) {
  std::mt19937 engine(5);
  for (const std::string& specification : specifications_to_test()) {
    if (!has_agent(specification)) continue;
    for (const std::size_t count : {1, 7, 300, 1500}) {
      Case c;
      c.specification = specification;
      c.counts = {count};
      c.dtype = kTypes[count % 3];
      c.offset = count % 5;
      const auto agents = make_fiber_codec(specification, c.dtype, {c.seed, 1}).value();
      const Shards shards = make_shards(agents->codec(), c);
      // Exactly as long as it has to be: a sanitizer sees what is beyond.
      std::vector<std::byte> wire(agents->codec().wire_bytes(count));
      for (std::byte& b : wire) b = static_cast<std::byte>(engine());
      shards[0]->wire.assign(wire.data());
      EXPECT_EQ(DeviceComparison(c, *agents).decode(shards), "");
      std::vector<std::byte> values(count * dtype_size(c.dtype));
      const DecodeArgs args{.wire = wire.data(), .count = count, .values = values.data()};
      EXPECT_TRUE(agents->decode(nullptr, {&args, 1}, nullptr).is_ok());
    }
  }
}

/// As tests/gpu/ does it: through memory of a device.
TEST(Agent, AgreesOnRandomCases) {
  std::mt19937 engine(11);
  constexpr std::size_t kBytes = 4 << 20;
  FiberDevice device({3, 2});
  auto* const memory = static_cast<std::byte*>(device.allocate(kBytes).value());
  for (const std::string& specification : device_specifications()) {
    const Case c = random_case(specification, 5000, engine);
    auto agents = device.make_codec(specification, c.dtype, ReduceOp::kSum).value();
    StagedCodec staged(device, std::move(agents), memory, kBytes);
    EXPECT_EQ(DeviceComparison(c, staged).run(), "");
  }
}

/// A codec that writes a byte too many.
class OverrunningCodec final : public DeviceCodec {
 public:
  explicit OverrunningCodec(std::unique_ptr<Codec> codec) : codec_(std::move(codec)) {}
  const Codec& codec() const override { return *codec_; }
  Status supports(Contributions, std::size_t) const override { return Status::ok(); }
  Status encode(Stream, std::span<const EncodeArgs> shards, std::byte*) override {
    for (const EncodeArgs& args : shards) args.wire[codec_->encode(args)] = std::byte{0};
    return Status::ok();
  }
  Status decode_add_encode(Stream, const DecodeAddEncodeArgs& args, std::byte*) override {
    codec_->decode_add_encode(args);
    return Status::ok();
  }
  Status decode(Stream, std::span<const DecodeArgs> shards, std::byte*) override {
    for (const DecodeArgs& args : shards) codec_->decode(args);
    return Status::ok();
  }

 private:
  std::unique_ptr<Codec> codec_;
};

TEST(Agent, AnOverrunOnADeviceIsNoticed) {
  constexpr std::size_t kBytes = 1 << 20;
  FiberDevice device;
  auto* const memory = static_cast<std::byte*>(device.allocate(kBytes).value());
  Case c;
  c.specification = "q4";
  c.counts = {100};
  StagedCodec staged(device, std::make_unique<OverrunningCodec>(make_reference(c)), memory, kBytes);
  EXPECT_NE(DeviceComparison(c, staged).run(), "");
}

TEST(Agent, SaysWhatItDoesNotTake) {
  EXPECT_EQ(make_device_plan("topk:density=0.01", DType::kFloat32).status().code(),
            Code::kUnsupported);
  EXPECT_EQ(make_device_plan("q4", DType::kInt32).status().code(), Code::kUnsupported);
  EXPECT_EQ(make_device_plan("q44", DType::kFloat32).status().code(), Code::kInvalidArgument);

  const auto codec = make_fiber_codec("q2", DType::kFloat32, {}).value();
  float value = 0;
  std::byte wire[16];
  EncodeArgs args;
  args.values = &value;
  args.count = 1;
  args.wire = wire;
  args.input_scale = 2;
  EXPECT_EQ(codec->encode(nullptr, {&args, 1}, nullptr).code(), Code::kUnsupported);
  args.input_scale = 1;
  args.values = reinterpret_cast<const std::byte*>(&value) + 2;
  EXPECT_EQ(codec->encode(nullptr, {&args, 1}, nullptr).code(), Code::kUnsupported);
  DecodeAddEncodeArgs hop;
  const std::vector<const std::byte*> wires(core::kMostWires + 1, wire);
  hop.wires = wires;
  hop.count = 1;
  EXPECT_EQ(codec->decode_add_encode(nullptr, hop, nullptr).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::agent_test
