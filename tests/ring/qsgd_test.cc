// All-reduces of codes on a shared grid are exact: whatever the algorithm, the number of ranks and
// the order of the sums, every rank gets the value of the sum of all ranks' codes, bit for bit.
#include <limits>

#include "perf/accuracy/local_agreement.h"
#include "tests/contract/collective_contract.h"

namespace ringpress::testing {
namespace {

using Bytes = std::vector<std::byte>;

/// Number `index` of `count` packed ones, as compress_kernels/qsgd/lane_pack.h says.
std::uint32_t packed_number(const std::byte* bytes, std::size_t index, std::size_t count,
                            int width) {
  const auto bits = static_cast<std::size_t>(width);
  const std::size_t tile = index / kTileElements;
  const std::size_t i = index % kTileElements;
  const bool is_whole = (tile + 1) * kTileElements <= count;
  bytes += tile * kTileElements / 8 * bits;
  std::uint32_t number = 0;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    std::size_t position = i * bits + bit;
    if (is_whole) {
      const std::size_t in_lane = i / 32 * bits + bit;
      position = (in_lane / 32 * 32 + i % 32) * 32 + in_lane % 32;
    }
    const auto byte = std::to_integer<std::uint32_t>(bytes[position / 8]);
    number |= ((byte >> (position % 8)) & 1u) << bit;
  }
  return number;
}

/// The codec under test and what is known of its grids.
struct Grids {
  std::string codec;
  std::vector<int> bits;
  bool has_global_norm = false;

  std::uint32_t steps(std::size_t grid) const { return (1u << bits[grid]) - 1; }
};

const std::vector<Grids> kCodecs = {
    {"qsgd", {4}},
    {"qsgd:bits=8,norm=global", {8}, true},
    {"qsgd:bits=1,block=32", {1}},
    {"qsgd:bits=2,block=32,round=zero", {2}},
    {"qsgd-ms", {4, 8}},
    {"qsgd-ms:bits=6/10/16,norm=global", {6, 10, 16}, true},
};

/// What the ranks' codes of a tensor are, taken one by one.
class Oracle {
 public:
  Oracle(const CollectiveCase& c, const Grids& grids, const std::vector<std::vector<float>>& inputs,
         std::uint64_t sequence)
      : grids_(grids), codec_(codec_for(c)), count_(c.count), world_(inputs.size()) {
    std::vector<perf::RankValues> ranks;
    for (const auto& input : inputs) ranks.push_back({input.data()});
    tensor_.push_back(perf::LocalAgreement::of_tensor(*codec_, ranks, 0, count_));
    chunk_.push_back(perf::LocalAgreement::of_chunk(*codec_, ranks, count_, tensor_[0]));
    for (std::size_t rank = 0; rank < world_; ++rank) {
      Bytes wire(codec_->wire_bytes(count_, {1, world_}));
      EncodeArgs args;
      args.values = inputs[rank].data();
      args.count = count_;
      args.wire = wire.data();
      args.random = {0, sequence, static_cast<std::uint32_t>(rank), 0};
      args.form = {1, world_};
      args.agreed = agreed();
      codec_->encode(args);
      wires_.push_back(wire);
    }
  }

  std::int64_t code(std::size_t rank, std::size_t i) const {
    const std::uint32_t number = packed_number(wires_[rank].data(), i, count_, grids_.bits[0] + 1);
    return std::int64_t{number} - grids_.steps(0);
  }

  std::size_t level(std::size_t i) const {
    if (grids_.bits.size() == 1) return 0;
    const int round = codec_->agreement()->rounds() - 1;
    const std::byte* levels = agreed().chunk + codec_->agreement()->round_offset(round, count_);
    return packed_number(levels, i, count_, grids_.bits.size() == 2 ? 1 : 2);
  }

  float unit(std::size_t i) const {
    const auto block = static_cast<std::size_t>(block_size());
    const std::byte* norm =
        grids_.has_global_norm ? agreed().tensor : agreed().chunk + i / block * 2;
    std::uint16_t stored = 0;
    std::memcpy(&stored, norm, 2);
    const std::uint32_t bits = std::uint32_t{stored} << 16;
    float largest = 0;
    std::memcpy(&largest, &bits, 4);
    return largest / static_cast<float>(grids_.steps(level(i)));
  }

  float result(std::size_t i, ReduceOp op) const {
    std::int64_t sum = 0;
    for (std::size_t rank = 0; rank < world_; ++rank) sum += code(rank, i);
    const float value = static_cast<float>(sum) * unit(i);
    return op == ReduceOp::kAvg ? value / static_cast<float>(world_) : value;
  }

 private:
  Agreed agreed() const { return perf::LocalAgreement::agreed(tensor_[0], chunk_[0]); }
  int block_size() const { return grids_.codec.find("block=32") == std::string::npos ? 512 : 32; }

  const Grids& grids_;
  std::unique_ptr<Codec> codec_;
  std::size_t count_;
  std::size_t world_;
  std::vector<perf::LocalAgreement> tensor_;  // One.
  std::vector<perf::LocalAgreement> chunk_;   // One: of all elements.
  std::vector<Bytes> wires_;
};

class Qsgd : public ::testing::TestWithParam<Algorithm> {
 protected:
  CollectiveCase case_of(const Grids& grids, int world) const {
    CollectiveCase c;
    c.algorithm = GetParam();
    c.codec = grids.codec;
    c.world = world;
    c.count = 20037;
    return c;
  }
};

TEST_P(Qsgd, ResultIsTheValueOfTheSumOfAllCodesBitForBit) {
  for (const Grids& grids : kCodecs) {
    for (int world = 2; world <= 8; ++world) {
      CollectiveCase c = case_of(grids, world);
      c.chunk_elements = world % 2 == 0 ? 1024 : 4096;
      c.op = world % 3 == 0 ? ReduceOp::kSum : ReduceOp::kAvg;
      c.in_place = world % 4 == 0;
      const auto inputs = random_inputs(c, 31);
      const Oracle oracle(c, grids, inputs, 7);
      const auto results = all_reduce_results(c, inputs, nullptr, 7);
      expect_identical(results);
      for (std::size_t i = 0; i < c.count; ++i) {
        ASSERT_EQ(results[0][i], oracle.result(i, c.op)) << grids.codec << ' ' << world << ' ' << i;
      }
    }
  }
}

TEST_P(Qsgd, EveryRankKeepsWhatItsOwnCodeLost) {
  for (const Grids& grids : kCodecs) {
    const CollectiveCase c = case_of(grids, 3);
    const auto inputs = random_inputs(c, 32);
    const Oracle oracle(c, grids, inputs, 0);
    std::vector<std::vector<float>> residuals(3, std::vector<float>(c.count));
    all_reduce_results(c, inputs, &residuals);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      for (std::size_t i = 0; i < c.count; ++i) {
        const float decoded = static_cast<float>(oracle.code(rank, i)) * oracle.unit(i);
        ASSERT_EQ(residuals[rank][i], inputs[rank][i] - decoded) << grids.codec << ' ' << i;
      }
    }
  }
}

TEST_P(Qsgd, ValuesAtTheMaximumOnAllOf64RanksDoNotWrap) {
  for (const char* codec : {"qsgd:bits=8", "qsgd:bits=8,norm=global", "qsgd-ms:bits=7/9"}) {
    CollectiveCase c = case_of({codec, {}}, 64);
    c.count = 3000;
    for (const float value : {1.0f, -1.0f}) {
      const std::vector<std::vector<float>> inputs(64, std::vector<float>(c.count, value));
      const auto results = all_reduce_results(c, inputs);
      expect_identical(results);
      for (const float sum : results[0]) ASSERT_NEAR(sum, 64 * value, 1e-5) << codec;
    }
  }
}

TEST_P(Qsgd, NonFiniteValuesTakeTheirBlockWithThem) {
  for (const float poison : {std::nanf(""), INFINITY, -INFINITY}) {
    for (const Grids& grids : kCodecs) {
      const CollectiveCase c = case_of(grids, 3);
      auto inputs = random_inputs(c, 33);
      inputs[1][4321] = poison;
      std::vector<std::vector<float>> residuals(3, std::vector<float>(c.count, 0.25f));
      const auto results = all_reduce_results(c, inputs, &residuals);
      for (std::size_t rank = 0; rank < 3; ++rank) {
        for (std::size_t i = 0; i < c.count; ++i) {
          const std::size_t block = grids.codec.find("block=32") == std::string::npos ? 512 : 32;
          const bool is_lost = grids.has_global_norm || i / block == 4321 / block;
          ASSERT_EQ(std::isnan(results[rank][i]), is_lost) << grids.codec << ' ' << i;
          ASSERT_TRUE(std::isfinite(residuals[rank][i])) << grids.codec << ' ' << i;
          if (is_lost) {
            ASSERT_EQ(residuals[rank][i], 0.25f) << grids.codec << ' ' << i;
          }
        }
      }
    }
  }
}

/// The form that truncates is biased, and made for error feedback: over time nothing is lost.
TEST_P(Qsgd, ErrorFeedbackDeliversWhatTruncationDrops) {
  CollectiveCase c = case_of({"qsgd:bits=2,round=zero", {2}}, 3);
  c.count = 5000;
  const auto inputs = random_inputs(c, 34);
  const auto exact = exact_sum(inputs, c.op);
  std::vector<std::vector<float>> residuals(3, std::vector<float>(c.count));
  std::vector<double> total(c.count);
  constexpr int kSteps = 60;
  for (int step = 0; step < kSteps; ++step) {
    const auto results =
        all_reduce_results(c, inputs, &residuals, static_cast<std::uint64_t>(step));
    for (std::size_t i = 0; i < c.count; ++i) total[i] += results[0][i] / kSteps;
  }
  const auto once = all_reduce_results(c, inputs)[0];
  const double error = relative_error({total.begin(), total.end()}, exact);
  EXPECT_LT(error, 0.1);
  EXPECT_LT(error, 0.1 * relative_error(once, exact));
}

INSTANTIATE_TEST_SUITE_P(Ring, Qsgd, ::testing::Values(Algorithm::kRing));
INSTANTIATE_TEST_SUITE_P(Sra, Qsgd, ::testing::Values(Algorithm::kSra));

/// Bits that a rank sends per element and half of an all-reduce, as a partial sum of h takes
/// ceil(log2(2 h s + 1)): the figures that are known for a ring (scatter and gather).
struct Width {
  int bits;
  int world;
  double scatter;
  double gather;
};
constexpr Width kWidths[] = {{2, 2, 3.0, 4}, {2, 8, 4.9, 6},  {4, 2, 5.0, 6},  {4, 8, 7.0, 8},
                             {6, 2, 7.0, 8}, {6, 8, 9.0, 10}, {8, 2, 9.0, 10}, {8, 8, 11, 12}};

TEST(QsgdBytes, AreThoseOfTheNarrowestSumsWithinThreePercent) {
  for (const Width& width : kWidths) {
    CollectiveCase c;
    c.codec = "qsgd:bits=" + std::to_string(width.bits);
    c.world = width.world;
    c.chunk_elements = 65536;
    c.count = c.chunk_elements * static_cast<std::size_t>(width.world);
    const auto inputs = random_inputs(c, 35);
    std::uint64_t sent = 0;
    for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kSra}) {
      c.algorithm = algorithm;
      all_reduce_results(c, inputs, nullptr, 0, &sent);
      const double elements =
          static_cast<double>(c.count) * (width.world - 1) / width.world;  // Sent by one rank.
      const double bits = 8 * static_cast<double>(sent) / elements;
      // sra sends contributions of one rank only in its first half.
      const double scatter = algorithm == Algorithm::kRing ? width.scatter : width.bits + 1;
      EXPECT_LE(bits, 1.03 * (scatter + width.gather)) << c.codec << ' ' << width.world;
      EXPECT_GE(bits, 0.97 * (scatter + width.gather)) << c.codec << ' ' << width.world;
    }
  }
}

}  // namespace
}  // namespace ringpress::testing
