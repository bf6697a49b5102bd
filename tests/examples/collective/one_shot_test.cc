#include "tests/examples/collective/one_shot.h"

#include "tests/contract/collective_contract_tests.h"
#include "tuner/factory.h"

namespace ringpress::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Example, CollectiveContract,
                         ::testing::Values(CollectiveUnderTest{
                             examples::kOneShotTraits, [](std::vector<int>) {
                               return std::make_unique<examples::OneShot>();
                             }}));

TEST(OneShot, HasTheCostThatItsRowSays) {
  const CodecSpeed codec = {"codec", 0.25, 0.1, {1e-6, 1e-9}, {2e-6, 2e-9}, {3e-6, 3e-9}};
  const Links links = {{1e-4, 1e8}, {}};
  const CallCost cost =
      tuner::predict_call({4'000'000, 4}, links, codec, examples::kOneShotTraits, 1).value();
  EXPECT_EQ(cost.algorithm, examples::kOneShot);
  EXPECT_EQ(cost.wire_bytes, 3'000'000u);
  EXPECT_DOUBLE_EQ(cost.latency_seconds, 1e-4);
  EXPECT_DOUBLE_EQ(cost.wire_seconds, 3e6 / 1e8);
  // Four shards encoded, one tensor decoded, three added.
  EXPECT_DOUBLE_EQ(cost.codec_seconds, 4e-6 + 4e-3 + 8e-6 + 8e-3 + 24e-6 + 24e-3);
}

TEST(OneShot, SendsAsMuchAsItsRowSays) {
  CollectiveCase c;
  c.algorithm = examples::kOneShot;
  c.make = [](std::vector<int>) { return std::make_unique<examples::OneShot>(); };
  c.codec = "q8";
  c.world = 4;
  c.count = 64 * kTileElements;
  std::uint64_t sent_bytes = 0;
  all_reduce_results(c, random_inputs(c, 1), nullptr, 0, &sent_bytes);
  const std::size_t frames = 3 * 64;
  const auto encoded = static_cast<double>(codec_for(c)->wire_bytes(c.count));
  const Load load = examples::kOneShotTraits.reduce_load({4, 1, true, true});
  EXPECT_EQ(static_cast<double>(sent_bytes - frames * sizeof(FrameHeader)), load.sent * encoded);
}

TEST(OneShot, RefusesWhatItsRowDoesNotHave) {
  const CodecSpeed codec = {"codec", 0.25, 0.1, {}, {}, {}};
  const Links links = {{1e-4, 1e8}, {}};
  const CallShape half = {4'000'000, 4, 1, CollectiveKind::kReduceScatter};
  EXPECT_EQ(tuner::predict_call(half, links, codec, examples::kOneShotTraits, 1).status().code(),
            Code::kUnsupported);
  EXPECT_EQ(examples::OneShot().all_gather({}, {}).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace ringpress::testing
