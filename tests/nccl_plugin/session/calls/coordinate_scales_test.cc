// Coordinate scales of calls: all ranks have the same, whatever differs between them, and they make
// small coordinates more accurate.
#include "nccl_plugin/session/calls/coordinate_scales.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin::coordinate_scales_test {
namespace {

using Floats = std::vector<float>;
using Environment = std::vector<std::pair<std::string, std::string>>;

/// Each eighth coordinate is ten times as large as the others.
float size_of(std::size_t coordinate) {
  return coordinate % 8 == 3 ? 10.0F : 1.0F;
}

struct ScaledJob {
  int world = 2;
  Environment environment = {};
  std::size_t steps = 12;
  std::vector<std::size_t> counts = {20000, 33000, 20000};
  Reduction reduction = {};
  bool has_sizes = true;           // Else coordinates are of one size.
  bool takes_new_buffers = false;  // On the last rank.
  std::size_t exact_count = 0;     // Of a call that is not compressed, after each; 0: no such call.
  /// May change a rank's values before a call.
  std::function<void(std::size_t step, int rank, std::span<float>)> change = {};
};

struct ScaledRank {
  std::vector<Floats> results;
  Statistics statistics;
};

Floats gradient_of(const ScaledJob& job, std::size_t step, std::size_t tensor, int rank) {
  Floats values = testing::random_gradient(job.counts[tensor], 100 * step + tensor, rank);
  for (std::size_t i = 0; i < values.size() && job.has_sizes; ++i) values[i] *= size_of(i);
  return values;
}

/// What has small coordinates in the job has large ones in this, and the other way round.
void make_exact_call(const ScaledJob& job, MeshCommunicator* communicator) {
  Floats values(job.exact_count);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 / size_of(i);
  const Status status = communicator->all_reduce(values.data(), values.data(), values.size(),
                                                 DType::kFloat32, {ReduceOp::kMax});
  ASSERT_TRUE(status.is_ok()) << status.message();
}

void run_steps(const ScaledJob& job, int rank, MeshCommunicator* communicator, ScaledRank* own) {
  std::vector<Floats> buffers(job.counts.size());
  std::vector<Floats> former;  // They stay, so that no address comes again.
  for (std::size_t step = 0; step < job.steps; ++step) {
    for (std::size_t tensor = 0; tensor < job.counts.size(); ++tensor) {
      const Floats values = gradient_of(job, step, tensor, rank);
      if (job.takes_new_buffers && rank + 1 == job.world) {
        former.push_back(std::move(buffers[tensor]));
        buffers[tensor] = Floats();
      }
      buffers[tensor].assign(values.begin(), values.end());
      if (job.change) job.change(step, rank, buffers[tensor]);
      Floats result(values.size());
      const Status status = communicator->all_reduce(buffers[tensor].data(), result.data(),
                                                     result.size(), DType::kFloat32, job.reduction);
      ASSERT_TRUE(status.is_ok()) << status.message();
      own->results.push_back(std::move(result));
      if (job.exact_count != 0) make_exact_call(job, communicator);
    }
  }
  own->statistics = communicator->statistics();
}

bool are_same_bytes(const std::vector<Floats>& a, const std::vector<Floats>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Floats& x, const Floats& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  });
}

/// All ranks end with the same bytes, and have done the same.
ScaledRank run(const ScaledJob& job) {
  Environment environment = job.environment;
  environment.emplace_back("RINGPRESS_WARMUP_STEPS", "0");
  const Settings settings = parse_settings(environment, nullptr);
  EXPECT_EQ(settings.mistake, "");
  const auto fabric = std::make_shared<testing::ThreadFabric>(job.world, false);
  std::vector<ScaledRank> ranks(static_cast<std::size_t>(job.world));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < job.world; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<testing::ThreadMesh>(fabric, rank), settings);
      run_steps(job, rank, &communicator, &ranks[static_cast<std::size_t>(rank)]);
    });
  }
  threads.clear();
  for (const ScaledRank& rank : ranks) {
    EXPECT_TRUE(are_same_bytes(rank.results, ranks[0].results));
    EXPECT_EQ(rank.statistics.scaled_calls, ranks[0].statistics.scaled_calls);
  }
  return ranks[0];
}

Environment with_scales(const std::string& codec, Environment more = {}) {
  more.insert(more.begin(), {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_EF", "scales"}});
  return more;
}

/// Of small coordinates of the last step's first tensor, over their norm.
double error_of_small(const ScaledJob& job, const ScaledRank& rank) {
  const std::size_t step = job.steps - 1;
  const Floats& result = rank.results[step * job.counts.size()];
  std::vector<double> exact(result.size());
  for (int peer = 0; peer < job.world; ++peer) {
    const Floats values = gradient_of(job, step, 0, peer);
    for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += double{values[i]};
  }
  double lost = 0, whole = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (size_of(i) > 1) continue;
    lost += std::pow(double{result[i]} - exact[i], 2);
    whole += std::pow(exact[i], 2);
  }
  return std::sqrt(lost / whole);
}

TEST(CoordinateScales, RanksEndWithTheSameBytes) {
  for (int world = 2; world <= 4; ++world) {
    for (const char* const algorithm : {"sra", "ring", "hier"}) {
      for (const char* const codec : {"q4", "q3:block=64"}) {
        ScaledJob job{world, with_scales(codec, {{"RINGPRESS_ALGO", algorithm}})};
        job.reduction.op = world == 3 ? ReduceOp::kAvg : ReduceOp::kSum;
        const ScaledRank scaled = run(job);
        EXPECT_GT(scaled.statistics.scaled_calls, 3U * 6) << world << algorithm << codec;
        EXPECT_EQ(scaled.statistics.compressed_calls, 3U * 12);
      }
    }
  }
}

TEST(CoordinateScales, SmallCoordinatesAreMoreAccurateForNoByte) {
  for (const char* const codec : {"q3", "q4", "q5"}) {
    ScaledJob job{2, with_scales(codec)};
    const ScaledRank scaled = run(job);
    EXPECT_GT(scaled.statistics.scaled_calls, 3U * 6) << codec;
    const double with = error_of_small(job, scaled);
    job.environment = {{"RINGPRESS_CODEC", codec}};
    const ScaledRank plain = run(job);
    EXPECT_EQ(plain.statistics.scaled_calls, 0U);
    EXPECT_EQ(plain.statistics.wire_bytes, scaled.statistics.wire_bytes) << codec;
    EXPECT_LT(with, 0.75 * error_of_small(job, plain)) << codec;
  }
}

/// Addresses say nothing.
TEST(CoordinateScales, ARankWithNewBuffersHasTheSame) {
  ScaledJob job{3, with_scales("q4")};
  job.takes_new_buffers = true;
  EXPECT_GT(run(job).statistics.scaled_calls, 3U * 6);
}

TEST(CoordinateScales, WhatHasNoSizesGoesWithout) {
  ScaledJob job{2, with_scales("q4"), 24};
  job.has_sizes = false;
  EXPECT_LT(run(job).statistics.scaled_calls, 3U * 4);
}

/// Neither is one call learnt from for another, nor is more read than it has.
TEST(CoordinateScales, ExactCallsBetweenAreNotLearntFrom) {
  ScaledJob job{2, with_scales("q4")};
  const ScaledRank alone = run(job);
  for (const std::size_t count : {std::size_t{8}, job.counts[0], job.counts[1]}) {
    job.exact_count = count;
    const ScaledRank rank = run(job);
    EXPECT_EQ(rank.statistics.scaled_calls, alone.statistics.scaled_calls) << count;
    EXPECT_TRUE(are_same_bytes(rank.results, alone.results)) << count;
  }
}

TEST(CoordinateScales, ANotANumberIsSeenAndForgotten) {
  ScaledJob job{3, with_scales("q4"), 16};
  job.change = [](std::size_t step, int rank, std::span<float> values) {
    if (step == 10 && rank == 1) values[5000] = std::numeric_limits<float>::quiet_NaN();
    if (step == 11) values[6000] = 1e6F;
  };
  const ScaledRank rank = run(job);
  job.change = {};
  const double undisturbed = error_of_small(job, run(job));
  EXPECT_FALSE(std::isfinite(rank.results[10 * 3][5000]));
  for (const float value : rank.results[15 * 3]) ASSERT_TRUE(std::isfinite(value));
  EXPECT_LT(error_of_small(job, rank), 1.3 * undisturbed);
}

TEST(CoordinateScales, GoWithPlainCodecsOnHostMemoryAlone) {
  for (const Environment& environment :
       {with_scales("topk"), with_scales("qsgd"), with_scales("q4:grid=minmax"),
        with_scales("sign"), with_scales("randk:density=0.1"), with_scales("none"),
        with_scales("q1"), with_scales("q4", {{"RINGPRESS_ADJUST_STEPS", "5"}}),
        with_scales("q4", {{"RINGPRESS_LAZY", "2"}}), with_scales("q4", {{"RINGPRESS", "observe"}}),
        with_scales("q4", {{"RINGPRESS", "lossless"}})}) {
    ScaledJob job{2, environment};
    EXPECT_EQ(run(job).statistics.scaled_calls, 0U) << environment[0].second;
  }
}

TEST(CoordinateScales, TakeAsMuchMemoryAsResidualsMay) {
  ScaledJob job{2, with_scales("q4", {{"RINGPRESS_EF_MAX_BYTES", "110000"}})};
  const ScaledRank rank = run(job);
  EXPECT_GT(rank.statistics.scaled_calls, 6U) << "one tensor has them";
  EXPECT_LT(rank.statistics.scaled_calls, 12U);
  EXPECT_LE(rank.statistics.residual_bytes, 2U * 110000);
  job.environment = with_scales("q4");
  constexpr std::size_t kValues = 20000 + 33000 + 20000;
  EXPECT_EQ(run(job).statistics.residual_bytes, kValues * (sizeof(float) + sizeof(float) + 1));
}

/// A tensor of the steps, as the session makes calls.
class LearntTensor {
 public:
  CoordinateScales::Chosen call(unsigned step) {
    sequence_->begin_call();
    const TensorCall call{CollectiveKind::kAllReduce, kCount, DType::kFloat32, ReduceOp::kSum};
    sequence_->tell(call, {CallUser::kScales});
    const CoordinateScales::Chosen chosen = scales_.choose(call, 128);
    Floats result = testing::random_gradient(kCount, step, 0);
    for (std::size_t i = 0; i < kCount; ++i) result[i] *= size_of(i);
    CoordinateScales::learn(chosen, result.data());
    return chosen;
  }
  std::vector<std::byte> save() const {
    StateBytes to;
    sequence_->save_shapes(to);
    scales_.save(to);
    return to.bytes();
  }
  bool load(std::span<const std::byte> bytes) {
    StateView from(bytes);
    sequence_->load_shapes(from);
    scales_.load(from);
    return from.is_ok() && from.left() == 0;
  }
  const CoordinateScales& scales() const { return scales_; }

 private:
  static constexpr std::size_t kCount = 1000;
  const std::shared_ptr<CallSequence> sequence_ = std::make_shared<CallSequence>();
  CoordinateScales scales_{sequence_, 0};
};

TEST(CoordinateScales, GoOnFromAState) {
  LearntTensor unbroken;
  for (unsigned step = 0; step < 108; ++step) unbroken.call(step);
  LearntTensor resumed;
  ASSERT_TRUE(resumed.load(unbroken.save()));
  EXPECT_EQ(resumed.scales().hash(), unbroken.scales().hash());
  EXPECT_EQ(resumed.scales().bytes(), unbroken.scales().bytes());
  for (unsigned step = 108; step < 300; ++step) {
    const CoordinateScales::Chosen expected = unbroken.call(step), found = resumed.call(step);
    ASSERT_NE(expected.codes, nullptr);
    ASSERT_EQ(found.hash, expected.hash) << step;
  }
  EXPECT_EQ(resumed.scales().hash(), unbroken.scales().hash());
  resumed.call(7);
  EXPECT_NE(resumed.scales().hash(), unbroken.scales().hash());
}

TEST(CoordinateScales, AStateThatMakesNoSenseIsOfUseOrRefused) {
  LearntTensor tensor;
  for (unsigned step = 0; step < 10; ++step) tensor.call(step);
  const std::vector<std::byte> real = tensor.save();
  for (std::size_t at = 0; at < real.size(); at += at < 400 ? 1 : 37) {
    for (const unsigned value : {0U, 1U, 0x7FU, 0xFFU}) {
      std::vector<std::byte> changed = real;
      changed[at] = static_cast<std::byte>(value);
      LearntTensor other;
      if (!other.load(changed)) continue;
      for (unsigned step = 0; step < 12; ++step) other.call(step);
    }
    LearntTensor cut;
    EXPECT_FALSE(cut.load(std::span(real).first(at)));
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::coordinate_scales_test
