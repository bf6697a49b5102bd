#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "compress_kernels/codec_family.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/specification.h"
#include "tests/support/specifications_to_test.h"

namespace ringpress::compress_kernels::specification_test {
namespace {

std::string normalized(const std::string& text) {
  const auto result = normalize_specification(text);
  EXPECT_TRUE(result.is_ok()) << result.status().message();
  return result.is_ok() ? result.value() : "";
}

/// The message for a specification that must be refused.
std::string refusal(const std::string& text) {
  const auto result = normalize_specification(text);
  EXPECT_FALSE(result.is_ok()) << text;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  return result.status().message();
}

::testing::AssertionResult names(const std::string& message,
                                 std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (message.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << '"' << message << "\" does not name " << part;
    }
  }
  return ::testing::AssertionSuccess();
}

TEST(Specification, SpellsOutEveryParameter) {
  EXPECT_EQ(normalized("none"), "none");
  EXPECT_EQ(normalized("fp16"), "fp16");
  EXPECT_EQ(normalized("q4"), "q4:block=128,grid=uniform,round=nearest");
  EXPECT_EQ(normalized("q4:scale=fit"), normalized("q4"));
  EXPECT_EQ(normalized("q8:scale=largest"), normalized("q8"));
  EXPECT_EQ(normalized("q4:scale=largest"),
            "q4:block=128,grid=uniform,round=nearest,scale=largest");
  EXPECT_EQ(normalized("q8:round=stochastic,block=1024"),
            "q8:block=1024,grid=uniform,round=stochastic");
  EXPECT_EQ(normalized("q1:grid=minmax"), "q1:block=128,grid=minmax,round=nearest");
}

TEST(Specification, NormalizedFormStaysAsItIs) {
  for (const std::string_view name : codec_names()) {
    const std::string once = normalized(std::string(name));
    EXPECT_EQ(normalized(once), once);
  }
}

TEST(Specification, ParametersThatDoNotGoTogetherAreRefusedWithOnesThatDo) {
  EXPECT_TRUE(names(refusal("q4:block=32,grid=lloyd"), {"block=32", "64 to 1024", "maybe 64"}));
  EXPECT_TRUE(names(refusal("q4:block=128,grid=lloyd,round=stochastic"),
                    {"block=128", "256 to 1024", "maybe 256"}));
  EXPECT_TRUE(names(refusal("q4:rotate=1"), {"rotate=1", "maybe grid=lloyd"}));
  for (const char* text : {"q8:scale=fit", "q1:scale=largest", "q4:grid=minmax,scale=fit",
                           "q4:grid=lloyd,scale=fit", "q4:round=stochastic,scale=fit"}) {
    EXPECT_TRUE(names(refusal(text), {"scale=", "q2 to q6", "maybe leave it out"})) << text;
  }
  EXPECT_TRUE(names(refusal("q4:grid=lloyd,rotate=0,round=stochastic"), {"maybe rotate=1"}));
}

TEST(Specification, UnknownCodecIsRefusedWithTheNearestName) {
  EXPECT_TRUE(names(refusal("fp116"), {"fp116", "fp16"}));
  EXPECT_TRUE(names(refusal("q4:round=or"), {"nearest or stochastic"}));
  EXPECT_TRUE(names(refusal("q4:grid=lloid"), {"lloyd, minmax or uniform", "maybe lloyd"}));
  EXPECT_TRUE(names(refusal("nome"), {"nome", "none"}));
  EXPECT_TRUE(names(refusal("q44"), {"q44", "q4"}));
  EXPECT_TRUE(names(refusal(""), {"\"\""}));
  EXPECT_TRUE(names(refusal("Q4"), {"Q4", "q4"}));
  EXPECT_TRUE(names(refusal(" q4"), {"\" q4\"", "maybe q4"}));
  EXPECT_TRUE(names(refusal(":block=64"), {"\":block=64\"", "known"}));
}

TEST(Specification, ParameterErrorsNameParameterValueAndWhatIsAllowed) {
  EXPECT_TRUE(names(refusal("q4:block=48"), {"block", "48", "power of two", "32", "1024"}));
  EXPECT_TRUE(names(refusal("q4:block=16"), {"block", "16"}));
  EXPECT_TRUE(names(refusal("q4:block=2048"), {"block", "2048"}));
  EXPECT_TRUE(names(refusal("q4:block=64k"), {"block", "64k"}));
  EXPECT_TRUE(names(refusal("q4:block=-64"), {"block", "-64"}));
  EXPECT_TRUE(names(refusal("q4:block=99999999999999999999999"), {"block"}));
  EXPECT_TRUE(names(refusal("q4:grid=loyd"), {"grid", "loyd", "uniform", "minmax"}));
  EXPECT_TRUE(names(refusal("q4:round=up"), {"round", "up", "nearest", "stochastic"}));
  EXPECT_TRUE(names(refusal("q4:blok=64"), {"blok", "block"}));
  EXPECT_TRUE(names(refusal("fp16:block=64"), {"fp16", "block=64"}));
}

TEST(Specification, AWrongValueGetsTheNearestValidOne) {
  EXPECT_TRUE(names(refusal("q4:block=48"), {"maybe 32?"}));
  EXPECT_TRUE(names(refusal("q4:block=500"), {"maybe 512?"}));
  EXPECT_TRUE(names(refusal("q4:block=1e9"), {"maybe 1024?"}));
  EXPECT_TRUE(names(refusal("topk:density=1e300"), {"maybe 0.5?"}));
  EXPECT_TRUE(names(refusal("powersgd:rank=99999999999999999999"), {"maybe 64?"}));
  EXPECT_TRUE(names(refusal("qsgd:bits=inf"), {"maybe 8?"}));
  EXPECT_TRUE(names(refusal("qsgd:bits=-inf"), {"maybe 1?"}));
  EXPECT_TRUE(names(refusal("q4:block=-64"), {"maybe 32?"}));
  EXPECT_TRUE(names(refusal("q4:block=64k"), {"maybe 64?"}));
  EXPECT_TRUE(names(refusal("q4:block=nan"), {"nan", "power of two"}));
  EXPECT_TRUE(names(refusal("q4:grid=loyd"), {"maybe lloyd?"}));
  EXPECT_TRUE(names(refusal("q4:round=nearst"), {"maybe nearest?"}));
  EXPECT_TRUE(names(refusal("q4:rotate=yes"), {"rotate", "must be 0 or 1"}));
}

/// Whatever a family takes: a number that makes no sense is answered with one that does, a word
/// with what is allowed, and with one that is near, if there is one.
TEST(Specification, EveryParameterOffersAValueThatItTakes) {
  for (const CodecEntry& codec : codec_list()) {
    for (const ParameterRule& rule : codec.family->parameters) {
      for (const char* value : {"-1", "1e30", "?", ""}) {
        if (accepts(rule, value)) continue;
        const std::string message =
            refusal(std::string(codec.name) + ":" + std::string(rule.name) + "=" + value);
        EXPECT_TRUE(
            names(message, {std::string(rule.name).c_str(), std::string(rule.allowed).c_str()}));
        const std::size_t begin = message.find("(maybe ");
        if (begin == std::string::npos && (value[0] == '?' || value[0] == '\0')) continue;
        ASSERT_NE(begin, std::string::npos) << message;
        const std::string offered = message.substr(begin + 7, message.find("?)") - begin - 7);
        EXPECT_TRUE(accepts(rule, offered)) << message;
      }
    }
  }
}

TEST(Specification, AWordThatIsNearNoNameGetsNoHint) {
  for (const char* word : {"auto", "x", "int8", "float32", "huffman", "?"}) {
    EXPECT_EQ(refusal(word).find("maybe"), std::string::npos) << refusal(word);
    EXPECT_TRUE(names(refusal(word), {"known: none, fp16"})) << refusal(word);
  }
}

TEST(Specification, AnUnknownNameGetsTheNearestOne) {
  EXPECT_TRUE(names(refusal("q9"), {"q9", "maybe q8?"}));
  EXPECT_TRUE(names(refusal("q44"), {"q44", "maybe q4?"}));
  EXPECT_TRUE(names(refusal("fp116"), {"fp116", "maybe fp16?"}));
  EXPECT_TRUE(names(refusal("non"), {"maybe none?"}));
  EXPECT_TRUE(names(refusal("sing"), {"maybe sign?"}));
  EXPECT_TRUE(names(refusal("powersdg"), {"maybe powersgd?"}));
  EXPECT_TRUE(names(refusal("lloyd"), {"maybe q4:grid=lloyd?"}));
  EXPECT_TRUE(names(refusal("e5m2"), {"maybe fp8:format=e5m2?"}));
  EXPECT_TRUE(names(refusal("q9,block=64"), {"q9", "maybe q8?"}));
}

TEST(Specification, ParametersFollowAColon) {
  for (const char* text : {"q4,block=64", "q4 block=64", "q4=64"}) {
    EXPECT_TRUE(names(refusal(text), {text, "follow a colon", "q4:block=64"}));
  }
}

TEST(Specification, MalformedListsAreRefused) {
  EXPECT_TRUE(names(refusal("q4:"), {"name=value"}));
  EXPECT_TRUE(names(refusal("q4:block"), {"block", "name=value"}));
  EXPECT_TRUE(names(refusal("q4:block=64,"), {"name=value"}));
  EXPECT_TRUE(names(refusal("q4:block=64,block=64"), {"block", "twice"}));
  EXPECT_TRUE(names(refusal("q4: block=64"), {" block"}));
  EXPECT_LT(refusal(std::string(100000, 'q')).size(), 300u);
}

TEST(MakeCodec, LossyCodecsRefuseOtherTypesAndReductions) {
  const auto integer = make_codec("q4", DType::kInt32, ReduceOp::kSum);
  EXPECT_EQ(integer.status().code(), Code::kUnsupported);
  EXPECT_TRUE(names(integer.status().message(), {"q4", "int32"}));
  const auto maximum = make_codec("fp16", DType::kFloat32, ReduceOp::kMax);
  EXPECT_EQ(maximum.status().code(), Code::kUnsupported);
  EXPECT_TRUE(names(maximum.status().message(), {"fp16", "max"}));
}

TEST(MakeCodec, NoneTakesEveryTypeAndReduction) {
  for (int type = 0; type < kDTypeCount; ++type) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      const auto dtype = static_cast<DType>(type);
      const auto codec = make_codec("none", dtype, static_cast<ReduceOp>(op));
      ASSERT_TRUE(codec.is_ok());
      EXPECT_TRUE(codec.value()->traits().identity);
      EXPECT_TRUE(codec.value()->traits().lossless);
      EXPECT_EQ(codec.value()->wire_bytes(10), 10 * dtype_size(dtype));
    }
  }
}

TEST(MakeCodec, TraitsSayWhatTheCodecDoes) {
  const auto traits = [](const std::string& specification, DType dtype) {
    return make_codec(specification, dtype, ReduceOp::kSum).value()->traits();
  };
  EXPECT_FALSE(traits("q4", DType::kFloat32).lossless);
  EXPECT_TRUE(traits("q4", DType::kFloat32).deterministic);
  EXPECT_FALSE(traits("q4:round=stochastic", DType::kFloat32).deterministic);
  EXPECT_FALSE(traits("fp16", DType::kBfloat16).lossless);
  EXPECT_TRUE(traits("fp16", DType::kFloat16).identity);
}

/// Bytes per value that performance models count on: codes plus one bfloat16 per block.
TEST(MakeCodec, WireBytesAreCodesAndScales) {
  const auto wire_bytes = [](const std::string& specification, std::size_t count) {
    return make_codec(specification, DType::kFloat32, ReduceOp::kSum).value()->wire_bytes(count);
  };
  EXPECT_EQ(wire_bytes("q4", 0), 0u);
  EXPECT_EQ(wire_bytes("q4", 1), 2u + 1u);
  EXPECT_EQ(wire_bytes("q4", 1024), 8u * 2u + 512u);
  EXPECT_EQ(wire_bytes("q3:block=32", 33), 2u * 2u + 13u);
  EXPECT_EQ(wire_bytes("q4:grid=minmax", 1024), 8u * 6u + 512u);
  EXPECT_EQ(wire_bytes("fp16", 5), 10u);
}

TEST(UnbiasedSpecification, IsTheFormWhoseErrorsHaveMeanZero) {
  const auto unbiased = [](const std::string& text) {
    return unbiased_specification(text).value();
  };
  EXPECT_EQ(unbiased("q4:block=64"),
            normalize_specification("q4:block=64,round=stochastic").value());
  EXPECT_EQ(unbiased("qsgd:round=zero"), normalize_specification("qsgd").value());
  EXPECT_EQ(unbiased("tern"), normalize_specification("tern").value());
  EXPECT_EQ(unbiased("lossless"), "lossless");
  EXPECT_EQ(unbiased("none"), "none");
  // Its levels are not at fixed distances: without a rotation nothing makes it unbiased.
  EXPECT_EQ(unbiased("q4:grid=lloyd,rotate=0"), "");
  EXPECT_EQ(unbiased("q4:scale=largest"), unbiased("q4"));
  for (const char* biased : {"sign", "topk", "powersgd", "bf16"}) EXPECT_EQ(unbiased(biased), "");
  EXPECT_EQ(unbiased_specification("q9").status().code(), Code::kInvalidArgument);
}

/// They would send zeros, whatever the values.
TEST(Specification, RefusesOneStepTowardsZero) {
  EXPECT_TRUE(names(refusal("qsgd:bits=1,round=zero"), {"bits=1", "2 to 8", "maybe 2?"}));
  EXPECT_TRUE(names(refusal("qsgd-ms:bits=1/4,round=zero"), {"bits=1/4", "2 to 8"}));
  EXPECT_TRUE(parse_specification("qsgd:bits=1").is_ok());
  EXPECT_TRUE(parse_specification("qsgd-ms:bits=1/4").is_ok());
}

TEST(TakesErrorFeedback, NotWhereAnEncodingMayLoseEverything) {
  const auto takes = [](const std::string& text) { return takes_error_feedback(text).value(); };
  for (const char* codec :
       {"q4", "q1", "q1:grid=minmax", "q1:grid=lloyd", "q2:grid=lloyd,round=stochastic",
        "q2:grid=minmax,round=stochastic", "q3:round=stochastic", "qsgd", "sign", "topk",
        "powersgd", "randk:code=qsgd"}) {
    EXPECT_TRUE(takes(codec)) << codec;
  }
  for (const char* codec :
       {"tern", "tern:clip=2.5", "q1:round=stochastic", "q1:grid=lloyd,round=stochastic",
        "q1:grid=minmax,round=stochastic", "q2:round=stochastic", "qsgd:bits=1", "qsgd-ms:bits=1/4",
        "randk:code=qsgd,bits=1", "randk:unbiased=1", "randk:code=q4,unbiased=1"}) {
    EXPECT_FALSE(takes(codec)) << codec;
  }
  EXPECT_EQ(takes_error_feedback("q9").status().code(), Code::kInvalidArgument);
}

TEST(FeedbackNeed, IsWhatACallLoses) {
  const auto need = [](const std::string& text) { return feedback_need(text).value(); };
  for (const char* codec :
       {"topk", "sign", "q1", "q2", "powersgd", "randk", "randk:density=0.9", "qsgd:round=zero"}) {
    EXPECT_EQ(need(codec), FeedbackNeed::kNeeded) << codec;
  }
  // All values, by the codec of their sums.
  EXPECT_EQ(need("randk:density=1"), FeedbackNeed::kNone);
  EXPECT_EQ(need("randk:density=1,code=q4"), need("q4"));
  EXPECT_EQ(need("randk:density=1,code=q4"), FeedbackNeed::kAdvised);
}

/// The squared norm of what is kept after so many calls with the same values, over theirs.
double residual_after(const Codec& codec, std::size_t calls) {
  constexpr std::size_t kCount = 1000;  // Ends in a short block.
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i * i)));
  }
  std::vector<float> residual(kCount);
  std::vector<std::byte> wire(codec.wire_bytes(kCount));
  EncodeArgs args;
  args.values = values.data();
  args.count = kCount;
  args.residual = residual.data();
  args.wire = wire.data();
  for (args.random.step = 0; args.random.step < calls; ++args.random.step) codec.encode(args);
  const auto squared_norm = [](const std::vector<float>& array) {
    return std::inner_product(array.begin(), array.end(), array.begin(), 0.0);
  };
  return squared_norm(residual) / squared_norm(values);
}

/// topk keeps the most, 2600: most values wait for a hundred calls.
TEST(TakesErrorFeedback, WhatIsKeptDoesNotGrowWithoutEnd) {
  std::vector<std::string> all = specifications_to_test();
  for (const char* bits : {"1", "2", "3"}) {
    for (const char* grid : {"uniform", "minmax", "lloyd"}) {
      for (const char* round : {"nearest", "stochastic"}) {
        all.push_back(std::string("q") + bits + ":grid=" + grid + ",round=" + round);
      }
    }
  }
  for (const std::string& text : all) {
    const auto codec = make_codec(text, DType::kFloat32, ReduceOp::kSum).value();
    if (!takes_error_feedback(text).value() || codec->traits().lossless) continue;
    if (codec->projection() != nullptr) continue;
    EXPECT_LE(residual_after(*codec, 200), 5000) << text;
  }
}

TEST(Specification, ExamplesSayInWordsWhenToUseACodecAndInBytesWhatItKeeps) {
  for (const CodecEntry& codec : codec_list()) {
    for (const CodecExample& example : codec.family->examples) {
      EXPECT_NE(example.when_to_use.find(' '), std::string_view::npos) << example.specification;
      const bool names_bytes = example.memory.find("bytes") != std::string_view::npos;
      EXPECT_TRUE(example.memory == "none" || names_bytes) << example.specification;
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::specification_test
