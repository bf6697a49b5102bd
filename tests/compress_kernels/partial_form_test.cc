// What only partial sums of a ring have, codes of 9 and 10 bits and another grid than other forms:
// they keep the promises of all forms, on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/specification.h"
#include "tests/compress_kernels/codec_data.h"
#include "tests/compress_kernels/typed_cases.h"
#include "tests/support/specifications_to_test.h"

namespace ringpress::compress_kernels::testing::partial_form_test {
namespace {

constexpr Contributions kOwn{1, 64};
constexpr Contributions kFew{2, 64};    // q8: 9 bits.
constexpr Contributions kMany{12, 64};  // q8: 10 bits.
constexpr Contributions kAll{64, 64};

std::unique_ptr<Codec> make_on(const std::string& isa, const std::string& specification,
                               DType dtype) {
  EXPECT_TRUE(force_isa(isa).is_ok());
  auto codec = make_codec(specification, dtype, ReduceOp::kSum);
  EXPECT_TRUE(force_isa("").is_ok());
  EXPECT_TRUE(codec.is_ok()) << codec.status().message();
  return std::move(codec).value();
}

/// The narrowest and the widest codes, with their defaults and in all variants.
std::vector<std::string> specifications() {
  std::vector<std::string> found;
  for (const std::string& specification : specifications_to_test()) {
    const std::string name = specification.substr(0, specification.find(':'));
    if (name == "q2" || name == "q8") found.push_back(specification);
  }
  return found;
}

/// What one operation is given.
struct Case {
  std::size_t count = 0;
  Values kind = Values::kNormal;
  Contributions form;
  Contributions part;  // Of what a hop adds.
  bool residual = false;
  bool decoded = false;
};

/// What it left behind.
struct Outcome {
  std::vector<std::byte> wire;
  std::vector<std::byte> values;
  std::vector<float> residual;
};

class PartialForm : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  const std::string& specification() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  std::unique_ptr<Codec> make(const std::string& isa = "") const {
    return make_on(isa, specification(), dtype());
  }

  /// Encodes, or adds to two parts and encodes; a complete sum without error feedback is only
  /// decoded if that is asked for.
  Outcome encode(const Codec& codec, const Case& c,
                 const std::vector<std::byte>* part = nullptr) const {
    const auto values = to_elements(draw_floats(c.count, c.kind, 3), dtype());
    Outcome outcome;
    outcome.values.resize(c.decoded ? values.size() : 0);
    if (c.residual) outcome.residual = draw_floats(c.count, Values::kNormal, 4);
    GuardedBuffer wire(codec.wire_bytes(c.count, c.form), c.count % 7);
    const auto fill = [&](auto& args) {
      args.values = values.data();
      args.count = c.count;
      args.residual = c.residual ? outcome.residual.data() : nullptr;
      args.decoded = c.decoded ? outcome.values.data() : nullptr;
      args.wire = wire.data();
      args.random = {1, 2, 3, 24};
      args.form = c.form;
    };
    if (part == nullptr) {
      EncodeArgs args;
      fill(args);
      EXPECT_EQ(codec.encode(args), wire.bytes());
    } else {
      const std::byte* const parts[] = {part->data(), part->data()};
      DecodeAddEncodeArgs args;
      fill(args);
      args.wires = parts;
      args.wire_contributions = c.part.summed;
      args.own_position = c.count % 3;
      args.divisor = c.form.summed == c.form.world ? 3 : 1;
      if (c.form.summed == c.form.world && c.decoded && !c.residual) args.wire = nullptr;
      EXPECT_EQ(codec.decode_add_encode(args), args.wire == nullptr ? 0 : wire.bytes());
    }
    EXPECT_TRUE(wire.guards_intact());
    outcome.wire.assign(wire.data(), wire.data() + wire.bytes());
    return outcome;
  }

  std::vector<std::byte> decode(const Codec& codec, const Case& c,
                                const std::vector<std::byte>& wire) const {
    GuardedBuffer values(c.count * dtype_size(dtype()), c.count % 5);
    DecodeArgs args;
    args.wire = wire.data();
    args.wire_size = wire.size();
    args.count = c.count;
    args.values = values.data();
    args.form = c.form;
    codec.decode(args);
    EXPECT_TRUE(values.guards_intact());
    return {values.data(), values.data() + values.bytes()};
  }

  std::vector<float> decode_add(const Codec& codec, const Case& c,
                                const std::vector<std::byte>& wire) const {
    std::vector<float> sum = draw_floats(c.count, Values::kNormal, 5);
    DecodeAddArgs args;
    args.wire = wire.data();
    args.wire_size = wire.size();
    args.count = c.count;
    args.sum = sum.data();
    args.form = c.form;
    codec.decode_add(args);
    return sum;
  }

  void expect_same(const Case& c, const Outcome& actual, const Outcome& expected) const {
    EXPECT_TRUE(actual.wire == expected.wire);
    EXPECT_EQ(actual.residual, expected.residual);
    if (!c.decoded) return;
    EXPECT_EQ(first_difference(actual.values.data(), expected.values.data(), c.count, dtype()),
              c.count);
  }

  void compare(const Codec& codec, const Codec& reference, const Case& c) const {
    const Outcome expected = encode(reference, c);
    expect_same(c, encode(codec, c), expected);
    const auto decoded = decode(reference, c, expected.wire);
    EXPECT_EQ(
        first_difference(decode(codec, c, expected.wire).data(), decoded.data(), c.count, dtype()),
        c.count);
    const auto added = decode_add(reference, c, expected.wire);
    const auto actual = decode_add(codec, c, expected.wire);
    EXPECT_EQ(first_difference(reinterpret_cast<const std::byte*>(actual.data()),
                               reinterpret_cast<const std::byte*>(added.data()), c.count,
                               DType::kFloat32),
              c.count);
    Case part = c;
    part.form = c.part;
    const auto wire = encode(reference, part).wire;
    expect_same(c, encode(codec, c, &wire), encode(reference, c, &wire));
  }

  /// What a partial sum of these values decodes to.
  std::vector<float> transmit(const std::vector<float>& x, std::vector<float>* residual) const {
    const auto codec = make();
    const auto values = to_elements(x, dtype());
    std::vector<std::byte> wire(codec->wire_bytes(x.size(), kMany));
    EncodeArgs args;
    args.values = values.data();
    args.count = x.size();
    args.residual = residual == nullptr ? nullptr : residual->data();
    args.wire = wire.data();
    args.form = kMany;
    codec->encode(args);
    const auto decoded = decode(*codec, {x.size(), Values::kNormal, kMany, {}}, wire);
    return to_floats(decoded.data(), x.size(), dtype());
  }

  /// Values of a partial sum that share a scale.
  std::size_t block_of_sums() const {
    const auto parsed = parse_specification(specification()).value();
    const std::size_t block = parsed.values.number("block");
    if (parsed.codec.name != "q2" || parsed.values.text("grid") != "uniform") return block;
    const bool unbiased = parsed.values.text("round") == "stochastic";
    return std::max<std::size_t>(block, unbiased ? 256 : 64);
  }

  /// The squared error of an encoding, over the squared norm of the values.
  double error(const Codec& codec, Contributions form) const {
    const Case c{4096, Values::kNormal, form, {}};
    const auto x =
        to_floats(to_elements(draw_floats(c.count, c.kind, 3), dtype()).data(), c.count, dtype());
    const auto y = to_floats(decode(codec, c, encode(codec, c).wire).data(), c.count, dtype());
    double error = 0;
    double norm = 0;
    for (std::size_t i = 0; i < c.count; ++i) {
      error += std::pow(double{y[i]} - x[i], 2);
      norm += double{x[i]} * x[i];
    }
    return error / norm;
  }
};

TEST_P(PartialForm, AllInstructionSetsMakeTheSame) {
  const auto reference = make("scalar");
  for (const std::string& isa : available_isas()) {
    const auto codec = make(isa);
    std::size_t number = 0;
    for (const std::size_t count :
         {0u, 1u, 7u, 31u, 33u, 64u, 127u, 1023u, 1024u, 1025u, 2100u, 4096u}) {
      for (const auto& [part, form] :
           {std::pair(kOwn, kFew), std::pair(kFew, kMany), std::pair(kMany, kAll)}) {
        Case c{count, kAllValues[number++ % std::size(kAllValues)], form, part};
        c.residual = number % 2 == 0;
        c.decoded = number % 3 != 0;
        SCOPED_TRACE(isa + ", count " + std::to_string(count) + ", summed " +
                     std::to_string(form.summed));
        compare(*codec, *reference, c);
        if (HasFailure()) return;
      }
    }
  }
}

/// Wires from 1 MB on are written around the cache.
TEST_P(PartialForm, LargeArraysAreTheSame) {
  if (specification() != "q8" || dtype() != DType::kFloat32) return;
  for (const std::string& isa : available_isas()) {
    compare(*make(isa), *make("scalar"), {1000003, Values::kNormal, kMany, kFew});
  }
}

/// A bit quarters the squared error; less than that where scales of 8 bits make a part of it.
TEST_P(PartialForm, EachBitMakesItMoreAccurate) {
  if (dtype() != DType::kFloat32) return;  // Else rounding to the type is most of the error.
  const auto codec = make();
  if (!specification().starts_with("q8")) return;
  EXPECT_EQ(codec->wire_bytes(1024, kFew), codec->wire_bytes(1024) + 1024 / 8);
  EXPECT_EQ(codec->wire_bytes(1024, kMany), codec->wire_bytes(1024) + 1024 / 4);
  EXPECT_LT(error(*codec, kFew), 0.4 * error(*codec, kOwn));
  EXPECT_LT(error(*codec, kMany), 0.25 * error(*codec, kOwn));
}

/// Two bits: the levels of partial sums make up for what the uniform grid lacks.
TEST_P(PartialForm, AnotherGridIsMoreAccurateForNoMoreBytes) {
  const auto parsed = parse_specification(specification()).value();
  if (parsed.codec.name != "q2" || parsed.values.text("grid") != "uniform") return;
  if (dtype() != DType::kFloat32) return;
  const auto codec = make();
  EXPECT_LE(static_cast<double>(codec->wire_bytes(4096, kFew)),
            1.02 * static_cast<double>(codec->wire_bytes(4096)));
  EXPECT_LT(error(*codec, kFew), 0.7 * error(*codec, kOwn));
}

TEST_P(PartialForm, NonFiniteBlocksComeOutNonFiniteAndLeaveTheirResidual) {
  for (const float poison : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (const std::size_t position : {0u, 700u, 1999u}) {
      auto x = draw_floats(2000, Values::kNormal, 5);
      x[position] = poison;
      std::vector<float> residual(x.size(), 0.25f);
      const auto y = transmit(x, &residual);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const bool shares_scale = i / block_of_sums() == position / block_of_sums();
        ASSERT_EQ(std::isfinite(y[i]), !shares_scale) << i;
        ASSERT_TRUE(std::isfinite(residual[i])) << i;
      }
      EXPECT_EQ(residual[position], 0.25f);
    }
  }
}

TEST_P(PartialForm, ZerosDecodeToZeros) {
  for (const float y : transmit(std::vector<float>(1500), nullptr)) ASSERT_EQ(y, 0.0f);
}

/// Whatever the bytes, each instruction set makes the same of them.
TEST_P(PartialForm, ArbitraryBytesDecodeAlike) {
  const auto reference = make("scalar");
  for (const std::size_t count : {1u, 100u, 1500u}) {
    const Case c{count, Values::kNormal, kMany, {}};
    std::mt19937 engine(static_cast<std::mt19937::result_type>(count));
    std::vector<std::byte> wire(reference->wire_bytes(count, c.form));
    for (std::byte& byte : wire) byte = static_cast<std::byte>(engine());
    const auto expected = decode(*reference, c, wire);
    for (const std::string& isa : available_isas()) {
      const auto decoded = decode(*make(isa), c, wire);
      EXPECT_EQ(first_difference(decoded.data(), expected.data(), count, dtype()), count) << isa;
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<PartialForm::ParamType>& info) {
  std::string name = std::get<0>(info.param) + "_" + dtype_name(std::get<1>(info.param));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Codecs, PartialForm, ::testing::ValuesIn(with_types(specifications())),
                         name_of);

}  // namespace
}  // namespace ringpress::compress_kernels::testing::partial_form_test
