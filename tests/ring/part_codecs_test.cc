// sra among tensors whose parts have codecs of their own.
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/contract/collective_contract.h"

namespace ringpress::testing {
namespace {

struct NamedPart {
  std::size_t end = 0;
  std::string codec;
};

using ByRank = std::vector<std::vector<float>>;  // By rank.

struct TwoCalls {
  ByRank results;
  ByRank residuals;
};

/// For one thread: what several ranks share is found before they start.
class CodecList {
 public:
  explicit CodecList(ReduceOp op) : op_(op) {}

  const Codec* find(const std::string& specification) {
    auto& codec = codecs_[specification];
    if (codec == nullptr) {
      codec = compress_kernels::make_codec(specification, DType::kFloat32, op_).value();
    }
    return codec.get();
  }

 private:
  const ReduceOp op_;
  std::map<std::string, std::unique_ptr<Codec>> codecs_;
};

/// Two calls, so that the second has what the first left over. No parts: c.codec for all.
TwoCalls reduce_twice(const CollectiveCase& c, const std::vector<NamedPart>& named) {
  const ByRank inputs = random_inputs(c, 7);
  const auto world = static_cast<std::size_t>(c.world);
  TwoCalls outcome{ByRank(world, std::vector<float>(c.count)),
                   ByRank(world, std::vector<float>(c.count))};
  CodecList codecs(c.op);
  std::vector<CodecPart> parts;
  for (const NamedPart& part : named) parts.push_back({part.end, codecs.find(part.codec)});
  const Codec* const codec = codecs.find(c.codec);
  const auto sra = ring::make_collective(Algorithm::kSra);
  const auto run = [&](ThreadMesh* mesh) -> Status {
    const auto rank = static_cast<std::size_t>(mesh->rank());
    for (std::uint64_t sequence = 0; sequence < 2; ++sequence) {
      auto context = context_for(c, mesh, codec, CollectiveKind::kAllReduce, sequence);
      context.parts = parts;
      context.residual = outcome.residuals[rank].data();
      std::vector<float>& result = outcome.results[rank];
      if (c.in_place) result = inputs[rank];
      const float* const send = c.in_place ? result.data() : inputs[rank].data();
      RINGPRESS_RETURN_IF_ERROR(sra->all_reduce(context, {send, result.data(), c.count}));
    }
    return Status::ok();
  };
  run_ranks(c.world, run, c.one_host);
  return outcome;
}

/// Parts of random sizes, the last of which ends with the tensor.
std::vector<NamedPart> random_parts(std::size_t count, const std::vector<std::string>& codecs) {
  std::vector<NamedPart> parts;
  std::size_t end = 0;
  while (end < count) {
    end = std::min(count, end + kTileElements * *rc::gen::inRange<std::size_t>(1, 12));
    parts.push_back({end, *rc::gen::elementOf(codecs)});
  }
  return parts;
}

// In each part every rank gets, and keeps, what it would if the whole tensor had that part's codec.
TEST(PartCodecs, EachPartIsReducedAsItsCodecReducesTheWhole) {
  const std::vector<std::string> codecs{"fp16", "bf16", "q2", "q3:block=32", "q4", "q8"};
  EXPECT_TRUE(rc::check("parts", [&] {
    CollectiveCase c;
    c.codec = "q4";
    c.world = *rc::gen::inRange(2, 6);
    c.count = *rc::gen::inRange<std::size_t>(1, 60000);
    c.chunk_elements = *rc::gen::element<std::size_t>(0, 1024, 4096);
    c.in_place = *rc::gen::arbitrary<bool>();
    c.one_host = *rc::gen::arbitrary<bool>();
    c.op = *rc::gen::element(ReduceOp::kSum, ReduceOp::kAvg);
    const std::vector<NamedPart> parts = random_parts(c.count, codecs);
    const TwoCalls mixed = reduce_twice(c, parts);
    expect_identical(mixed.results);
    std::map<std::string, TwoCalls> whole;
    std::size_t first = 0;
    for (const NamedPart& part : parts) {
      CollectiveCase alone = c;
      alone.codec = part.codec;
      if (whole.count(part.codec) == 0) whole[part.codec] = reduce_twice(alone, {});
      const TwoCalls& expected = whole[part.codec];
      for (std::size_t rank = 0; rank < mixed.results.size(); ++rank) {
        for (std::size_t i = first; i < part.end; ++i) {
          RC_ASSERT(mixed.results[rank][i] == expected.results[rank][i]);
          RC_ASSERT(mixed.residuals[rank][i] == expected.residuals[rank][i]);
        }
      }
      first = part.end;
    }
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

// Those whose frames are longer for each chunk that is encoded, and whose bits are random.
TEST(PartCodecs, SumsAreWithinTheBoundsOfTheirCodecs) {
  const std::vector<NamedPart> parts{{4096, "q8:grid=lloyd"},
                                     {5120, "q8:round=stochastic"},
                                     {7168, "none"},
                                     {20480, "q6:grid=lloyd"},
                                     {40000, "q8:grid=minmax"}};
  for (const int world : {2, 3, 4}) {
    CollectiveCase c;
    c.codec = "q4";
    c.world = world;
    c.count = 40000;
    c.chunk_elements = 0;
    const TwoCalls outcome = reduce_twice(c, parts);
    expect_identical(outcome.results);
    const std::vector<double> exact = exact_sum(random_inputs(c, 7), c.op);
    std::size_t first = 0;
    for (const NamedPart& part : parts) {
      const std::vector<float> sum(outcome.results[0].begin() + static_cast<int>(first),
                                   outcome.results[0].begin() + static_cast<int>(part.end));
      const std::vector<double> wanted(exact.begin() + static_cast<int>(first),
                                       exact.begin() + static_cast<int>(part.end));
      EXPECT_LE(relative_error(sum, wanted), 0.1) << part.codec << ", " << world << " ranks";
      first = part.end;
    }
  }
}

TEST(PartCodecs, ANonFiniteValueSparesTheOtherParts) {
  CollectiveCase c;
  c.codec = "q4";
  c.world = 3;
  c.count = 9000;
  CodecList codecs(c.op);
  const Codec* const codec = codecs.find(c.codec);
  const std::vector<CodecPart> parts{{4096, codecs.find("q3")}, {9000, codecs.find("q8")}};
  ByRank inputs = random_inputs(c, 11);
  inputs[1][4321] = INFINITY;
  ByRank results(3, std::vector<float>(c.count)), residuals(3, std::vector<float>(c.count));
  const auto sra = ring::make_collective(Algorithm::kSra);
  run_ranks(c.world, [&](ThreadMesh* mesh) -> Status {
    const auto rank = static_cast<std::size_t>(mesh->rank());
    auto context = context_for(c, mesh, codec, CollectiveKind::kAllReduce, 0);
    context.parts = parts;
    context.residual = residuals[rank].data();
    return sra->all_reduce(context, {inputs[rank].data(), results[rank].data(), c.count});
  });
  expect_identical(results);
  EXPECT_FALSE(std::isfinite(results[0][4321]));
  for (const std::size_t i : {0UL, 4095UL, 8999UL}) EXPECT_TRUE(std::isfinite(results[0][i])) << i;
  for (const auto& residual : residuals) {
    for (const float value : residual) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(PartCodecs, ARingRefusesThem) {
  CollectiveCase c;
  c.codec = "q4";
  c.count = 2048;
  CodecList codecs(c.op);
  const std::vector<CodecPart> parts{{1024, codecs.find("q3")}, {2048, codecs.find("q8")}};
  const auto ring = ring::make_collective(Algorithm::kRing);
  ThreadMesh mesh(std::make_shared<ThreadFabric>(2), 0);
  auto context = context_for(c, &mesh, codecs.find("q4"), CollectiveKind::kAllReduce, 0);
  context.parts = parts;
  std::vector<float> values(c.count);
  const Status status = ring->all_reduce(context, {values.data(), values.data(), c.count});
  EXPECT_EQ(status.code(), Code::kUnsupported);
}

}  // namespace
}  // namespace ringpress::testing
