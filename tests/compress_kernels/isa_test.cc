// Every instruction set makes the bits of the scalar reference: any codec, type, reduction, length,
// alignment and kind of values.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/specification.h"
#include "perf/accuracy/local_agreement.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/support/specifications_to_test.h"

namespace ringpress::compress_kernels::testing::isa_test {
namespace {

/// What is run, on each instruction set alike.
struct Case {
  std::string specification;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::size_t count = 0;
  Values kind = Values::kNormal;
  std::uint32_t seed = 0;
  std::size_t offset = 0;  // Misalignment of all buffers, in bytes.
  std::size_t parts = 0;
  std::size_t own_position = 0;
  std::size_t divisor = 1;
  double input_scale = 1;
  bool residual = false;
  bool decoded = false;
  bool in_place = false;
  bool in_a_world = false;  // Of at least parts + 1 ranks, which agree where the codec asks for it.
  RandomKey random;

  std::size_t world() const { return in_a_world ? parts + 1 + seed % 3 : 1; }
  /// Of what a hop makes.
  Contributions hop_form() const { return {in_a_world ? parts + 1 : 1, world()}; }
};

std::ostream& operator<<(std::ostream& stream, const Case& c) {
  return stream << c.specification << ' ' << dtype_name(c.dtype) << ' ' << reduce_op_name(c.op)
                << " count " << c.count << " kind " << static_cast<int>(c.kind) << " seed "
                << c.seed << " offset " << c.offset << " parts " << c.parts << " own "
                << c.own_position << " divisor " << c.divisor << " scale " << c.input_scale
                << " residual " << c.residual << " decoded " << c.decoded << " in place "
                << c.in_place << " in a world " << c.in_a_world;
}

/// A contribution of another rank.
Case part_of(const Case& c, std::size_t k) {
  Case part = c;
  part.seed = c.seed + 10 + static_cast<std::uint32_t>(k);
  part.residual = part.decoded = part.in_place = false;
  return part;
}

/// What the operations left behind.
struct Outcome {
  std::vector<std::byte> wire;
  std::vector<std::byte> values;
  std::vector<std::byte> residual;
  bool guards_intact = true;
};

std::vector<std::byte> bytes_of(const GuardedBuffer& buffer) {
  return {buffer.data(), buffer.data() + buffer.bytes()};
}

/// The buffers of one operation.
struct Buffers {
  GuardedBuffer values;
  GuardedBuffer decoded;
  GuardedBuffer residual;
  GuardedBuffer wire;

  Buffers(const Codec& codec, const Case& c)
      : values(c.count * dtype_size(c.dtype), c.offset),
        decoded(c.count * dtype_size(c.dtype), c.offset * 3 % 7),
        residual(c.residual ? c.count * sizeof(float) : 0, c.offset * 5 % 11),
        wire(std::max(codec.wire_bytes(c.count, {1, c.world()}),
                      codec.wire_bytes(c.count, c.hop_form())),
             c.offset * 7 % 13) {
    values.assign(draw_elements(c.count, c.dtype, c.kind, c.seed).data());
    if (!c.residual) return;
    std::vector<float> old = draw_floats(c.count, Values::kNormal, c.seed + 1);
    for (float& r : old) r *= 0.1f;
    residual.assign(old.data());
  }

  /// Arguments that EncodeArgs and DecodeAddEncodeArgs share.
  template <typename Args>
  Args arguments(const Case& c) {
    Args args;
    args.values = values.data();
    args.count = c.count;
    args.input_scale = c.input_scale;
    args.residual = c.residual ? residual.floats() : nullptr;
    args.wire = wire.data();
    if (c.decoded) args.decoded = c.in_place ? values.data() : decoded.data();
    args.random = c.random;
    return args;
  }

  Outcome outcome(const Case& c) const {
    const bool intact = values.guards_intact() && decoded.guards_intact() &&
                        residual.guards_intact() && wire.guards_intact();
    return {bytes_of(wire), bytes_of(c.in_place ? values : decoded), bytes_of(residual), intact};
  }
};

/// What all ranks of a case agree on.
class CaseAgreement {
 public:
  CaseAgreement(const Codec& codec, const Case& c) {
    if (c.world() == 1 || codec.agreement() == nullptr) return;
    inputs_.push_back(std::make_unique<Buffers>(codec, c));
    for (std::size_t k = 0; k < c.parts; ++k) {
      inputs_.push_back(std::make_unique<Buffers>(codec, part_of(c, k)));
    }
    std::vector<perf::RankValues> ranks;
    for (const auto& input : inputs_) ranks.push_back({input->values.data(), nullptr});
    if (c.residual) ranks.front().residual = inputs_.front()->residual.floats();
    const auto tensor = perf::LocalAgreement::of_tensor(codec, ranks, 0, c.count);
    const auto chunk = perf::LocalAgreement::of_chunk(codec, ranks, c.count, tensor);
    agreed_.push_back(tensor);
    agreed_.push_back(chunk);
  }

  /// True if the same bytes were agreed on.
  bool operator==(const CaseAgreement& other) const { return agreed_ == other.agreed_; }

  Agreed get() const {
    return agreed_.empty() ? Agreed{} : perf::LocalAgreement::agreed(agreed_[0], agreed_[1]);
  }

 private:
  std::vector<std::unique_ptr<Buffers>> inputs_;
  std::vector<perf::LocalAgreement> agreed_;
};

Outcome run_encode(const Codec& codec, const Case& c, Agreed agreed) {
  Buffers buffers(codec, c);
  auto args = buffers.arguments<EncodeArgs>(c);
  args.form = {1, c.world()};
  args.agreed = agreed;
  const std::size_t written = codec.encode(args);
  Outcome outcome = buffers.outcome(c);
  outcome.wire.resize(written);
  return outcome;
}

Outcome run_decode(const Codec& codec, const Case& c, const std::vector<std::byte>& wire,
                   Agreed agreed) {
  Buffers buffers(codec, c);
  GuardedBuffer input(wire.size(), c.offset * 7 % 13);
  input.assign(wire.data());
  DecodeArgs args;
  args.wire = input.data();
  args.wire_size = wire.size();
  args.count = c.count;
  args.values = buffers.decoded.data();
  args.form = {1, c.world()};
  args.agreed = agreed;
  codec.decode(args);
  return buffers.outcome(c);
}

DType sum_type(DType dtype) {
  return is_compressible(dtype) ? DType::kFloat32 : dtype;
}

Outcome run_decode_add(const Codec& codec, const Case& c, const std::vector<std::byte>& wire,
                       Agreed agreed) {
  Buffers buffers(codec, c);
  GuardedBuffer input(wire.size(), c.offset * 7 % 13);
  input.assign(wire.data());
  const DType type = sum_type(c.dtype);
  GuardedBuffer sum(c.count * dtype_size(type), c.offset);
  sum.assign(draw_elements(c.count, type, Values::kNormal, c.seed + 2).data());
  DecodeAddArgs args;
  args.wire = input.data();
  args.wire_size = wire.size();
  args.count = c.count;
  args.sum = sum.data();
  args.form = {1, c.world()};
  args.agreed = agreed;
  codec.decode_add(args);
  Outcome outcome = buffers.outcome(c);
  outcome.values = bytes_of(sum);
  outcome.guards_intact = outcome.guards_intact && sum.guards_intact();
  return outcome;
}

/// The wires of `parts` other ranks, as the reference encodes them.
std::vector<std::vector<std::byte>> make_wires(const Codec& codec, const Case& c, Agreed agreed) {
  std::vector<std::vector<std::byte>> wires;
  for (std::size_t k = 0; k < c.parts; ++k) {
    wires.push_back(run_encode(codec, part_of(c, k), agreed).wire);
  }
  return wires;
}

Outcome run_hop(const Codec& codec, const Case& c, const std::vector<std::vector<std::byte>>& wires,
                Agreed agreed) {
  Buffers buffers(codec, c);
  std::vector<const std::byte*> pointers;
  std::vector<std::size_t> sizes;
  for (const auto& wire : wires) {
    pointers.push_back(wire.data());
    sizes.push_back(wire.size());
  }
  auto args = buffers.arguments<DecodeAddEncodeArgs>(c);
  args.wires = pointers;
  args.wire_sizes = sizes;
  args.own_position = c.own_position;
  args.divisor = c.divisor;
  args.form = c.hop_form();
  args.agreed = agreed;
  if (c.decoded && !c.residual && c.seed % 4 == 0) args.wire = nullptr;
  const std::size_t written = codec.decode_add_encode(args);
  Outcome outcome = buffers.outcome(c);
  if (args.wire != nullptr) outcome.wire.resize(written);
  return outcome;
}

std::unique_ptr<Codec> make_on(const std::string& isa, const Case& c) {
  EXPECT_TRUE(force_isa(isa).is_ok());
  auto codec = make_codec(c.specification, c.dtype, c.op);
  EXPECT_TRUE(force_isa("").is_ok());
  EXPECT_TRUE(codec.is_ok()) << codec.status().message();
  return std::move(codec).value();
}

/// Where elements travel as they are, which NaN a sum makes may differ; all others must agree byte
/// by byte.
bool same_wire(const Codec& codec, const Case& c, const std::vector<std::byte>& a,
               const std::vector<std::byte>& b) {
  const std::string& name = codec.specification();
  if (a == b) return true;
  if (!codec.traits().lossless && name != "fp16" && name != "bf16") return false;
  const auto values_of = [&](const std::vector<std::byte>& wire) {
    std::vector<std::byte> values(c.count * dtype_size(c.dtype));
    DecodeArgs args;
    args.wire = wire.data();
    args.wire_size = wire.size();
    args.count = c.count;
    args.values = values.data();
    codec.decode(args);
    return values;
  };
  return first_difference(values_of(a).data(), values_of(b).data(), c.count, c.dtype) == c.count;
}

void expect_same(const Codec& codec, const Case& c, const Outcome& actual, const Outcome& expected,
                 DType values_type, const std::string& what) {
  SCOPED_TRACE(what);
  EXPECT_TRUE(actual.guards_intact) << c;
  EXPECT_TRUE(same_wire(codec, c, actual.wire, expected.wire)) << c;
  EXPECT_EQ(first_difference(actual.values.data(), expected.values.data(), c.count, values_type),
            c.count)
      << c;
  EXPECT_EQ(actual.residual, expected.residual) << c;
}

void compare_isas(const Case& c) {
  const auto reference = make_on("scalar", c);
  const CaseAgreement agreement(*reference, c);
  const Agreed agreed = agreement.get();
  const Outcome encoded = run_encode(*reference, c, agreed);
  const Outcome decoded = run_decode(*reference, c, encoded.wire, agreed);
  const Outcome added = run_decode_add(*reference, c, encoded.wire, agreed);
  const auto wires = make_wires(*reference, c, agreed);
  const Outcome hopped = run_hop(*reference, c, wires, agreed);
  for (const std::string& isa : available_isas()) {
    const auto codec = make_on(isa, c);
    SCOPED_TRACE(isa);
    EXPECT_EQ(CaseAgreement(*codec, c), agreement) << c;
    expect_same(*codec, c, run_encode(*codec, c, agreed), encoded, c.dtype, "encode");
    expect_same(*codec, c, run_decode(*codec, c, encoded.wire, agreed), decoded, c.dtype, "decode");
    expect_same(*codec, c, run_decode_add(*codec, c, encoded.wire, agreed), added,
                sum_type(c.dtype), "decode_add");
    expect_same(*codec, c, run_hop(*codec, c, wires, agreed), hopped, c.dtype, "decode_add_encode");
  }
}

/// The defaults, a variant, or a variant with another block where blocks may be chosen.
std::string draw_specification(const CodecEntry& entry) {
  std::string text(entry.name);
  const CodecFamily& family = *entry.family;
  if (family.variants.empty() || *rc::gen::inRange(0, 5) == 0) return text;
  text += ":" + *rc::gen::elementOf(family.variants);
  const auto block = text.find("block=");
  if (block == std::string::npos || *rc::gen::arbitrary<bool>()) return text;
  const auto end = text.find(',', block);
  const std::string other = text.substr(0, block) + "block=" +
                            std::to_string(*rc::gen::element(32, 64, 128, 256, 512, 1024)) +
                            (end == std::string::npos ? "" : text.substr(end));
  return parse_specification(other).is_ok() ? other : text;
}

/// Such codecs take no residual.
bool is_lossless(const CodecEntry& entry) {
  const auto codec = make_codec(std::string(entry.name), DType::kFloat32, ReduceOp::kSum);
  return codec.value()->traits().lossless;
}

Case draw_case() {
  Case c;
  const CodecEntry entry = *rc::gen::elementOf(codec_list());
  c.specification = draw_specification(entry);
  c.dtype = *rc::gen::element(DType::kFloat32, DType::kFloat16, DType::kBfloat16);
  c.op = *rc::gen::element(ReduceOp::kSum, ReduceOp::kAvg);
  c.residual = *rc::gen::arbitrary<bool>() && !is_lossless(entry);
  c.divisor = *rc::gen::element<std::size_t>(1, 1, 2, 3, 7, 8);
  if (entry.family->takes_everything) {
    c.dtype = static_cast<DType>(*rc::gen::inRange(0, kDTypeCount));
    c.op = static_cast<ReduceOp>(*rc::gen::inRange(0, kReduceOpCount));
    c.residual = false;
    c.input_scale = *rc::gen::element(1.0, 1.0, 3.0, -0.5);
  }
  c.count = *rc::gen::element<std::size_t>(0, 1024, 4096) +
            static_cast<std::size_t>(*rc::gen::inRange(0, 1200));
  c.kind = *rc::gen::elementOf(std::vector<Values>(std::begin(kAllValues), std::end(kAllValues)));
  c.seed = *rc::gen::arbitrary<std::uint32_t>();
  c.offset = static_cast<std::size_t>(*rc::gen::inRange(0, 64));
  c.parts = static_cast<std::size_t>(*rc::gen::inRange(0, 8));
  c.own_position = static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(c.parts) + 1));
  c.decoded = *rc::gen::arbitrary<bool>();
  c.in_place = c.decoded && *rc::gen::arbitrary<bool>();
  c.in_a_world = *rc::gen::arbitrary<bool>();
  c.random.seed = *rc::gen::arbitrary<std::uint64_t>();
  c.random.step = *rc::gen::arbitrary<std::uint64_t>();
  c.random.stream = *rc::gen::arbitrary<std::uint32_t>();
  c.random.first_element = *rc::gen::arbitrary<std::uint64_t>() >> *rc::gen::inRange(1, 60);
  return c;
}

RC_GTEST_PROP(Isa, MakesTheBitsOfTheReference, ()) {
  const Case c = draw_case();
  compare_isas(c);
  RC_ASSERT(!::testing::Test::HasFailure());
}

/// Every codec of the list, with lengths around vectors, packs, blocks and tiles.
TEST(Isa, AgreesAtEveryBoundary) {
  for (const CodecEntry& entry : codec_list()) {
    for (const std::size_t edge : {0, 16, 32, 64, 128, 1024, 2048}) {
      for (int difference = -1; difference <= 1; ++difference) {
        if (edge == 0 && difference < 0) continue;
        Case c;
        c.specification = std::string(entry.name);
        c.count = edge + static_cast<std::size_t>(difference);
        c.kind = Values::kSpecial;
        c.seed = static_cast<std::uint32_t>(c.count);
        c.offset = 1;
        c.parts = 2;
        c.own_position = 1;
        c.residual = !entry.family->takes_everything && !is_lossless(entry);
        c.decoded = true;
        compare_isas(c);
        c.in_a_world = true;
        compare_isas(c);
        if (HasFailure()) return;
      }
    }
  }
}

// So many cases are left to one where all is ten times slower.
#ifdef RINGPRESS_SANITIZED
constexpr unsigned kOneOf = 5;
constexpr std::size_t kLargest = 200001;
#else
constexpr unsigned kOneOf = 1;
constexpr std::size_t kLargest = 1300001;  // No cache keeps it.
#endif

/// Whole tiles with the usual parameters and at most one contribution have kernels of their own,
/// one for each width, type and output.
TEST(Isa, AgreesOnWholeTiles) {
  unsigned number = 0;
  for (const CodecEntry& entry : codec_list()) {
    if (entry.bits == 0 || entry.bits >= 16) continue;
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
      for (const Values kind : kAllValues) {
        for (const int outputs : {0, 1, 2, 3}) {
          if (++number % kOneOf != 0) continue;
          Case c;
          c.specification = std::string(entry.name);
          c.dtype = dtype;
          c.count = 3 * kTileElements + 200;
          c.kind = kind;
          c.seed = 5;
          c.offset = outputs % 2 == 0 ? 0 : 3;
          c.parts = 1;
          c.own_position = static_cast<std::size_t>(outputs % 2);
          c.residual = outputs == 1 && !is_lossless(entry);
          c.decoded = outputs >= 2;
          c.in_place = outputs == 3;
          c.in_a_world = outputs % 2 == 1;
          compare_isas(c);
          if (HasFailure()) return;
        }
      }
    }
  }
}

/// Large arrays and wires are written around the cache, by other code.
TEST(Isa, AgreesOnLargeArrays) {
  struct Size {
    const char* specification;
    DType dtype;
    std::size_t count;
  };
  for (const Size& size :
       {Size{"q4", DType::kFloat32, 70001}, Size{"q3", DType::kFloat16, 140001},
        Size{"fp16", DType::kFloat32, 70001}, Size{"q7", DType::kFloat32, kLargest}}) {
    for (const std::size_t offset : {0, 1}) {
      Case c;
      c.specification = size.specification;
      c.dtype = size.dtype;
      c.count = size.count;
      c.offset = offset;
      c.parts = 1;
      c.own_position = 1;
      compare_isas(c);
    }
  }
}

/// What a block decodes to that has nothing but a NaN to say: the NaNs of sums are the processor's.
TEST(Isa, NonFiniteBlocksDecodeToOneNan) {
  constexpr std::size_t kCount = 3000;
  std::vector<float> x(kCount, 1.0f);
  for (std::size_t i = 0; i < kCount; i += 31) x[i] = i % 2 == 0 ? NAN : -INFINITY;
  for (const std::string& specification : specifications_to_test()) {
    if (!specification.starts_with("q") || specification.starts_with("qsgd")) continue;
    std::vector<std::byte> expected;
    for (const std::string& isa : available_isas()) {
      Case c;
      c.specification = specification;
      const auto codec = make_on(isa, c);
      std::vector<std::byte> wire(codec->wire_bytes(kCount));
      EncodeArgs encode;
      encode.values = x.data();
      encode.count = kCount;
      encode.wire = wire.data();
      codec->encode(encode);
      std::vector<std::byte> values(kCount * sizeof(float));
      codec->decode({wire.data(), kCount, values.data(), wire.size()});
      if (expected.empty()) expected = values;
      EXPECT_EQ(values, expected) << specification << " on " << isa;
    }
  }
}

TEST(Isa, ScalarComesFirstAndUnknownNamesAreRefused) {
  EXPECT_EQ(available_isas().front(), "scalar");
  const Status status = force_isa("mmx");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("mmx"), std::string::npos);
  EXPECT_NE(status.message().find("scalar"), std::string::npos);
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::isa_test
