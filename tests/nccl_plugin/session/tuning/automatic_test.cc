// Automatic mode in a communicator whose ranks are on different hosts, as a training job uses it.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "nccl_plugin/session/mesh_peers.h"
#include "nccl_plugin/session/tuning/calibration_file.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin {
namespace {

using testing::ThreadFabric;
using testing::ThreadMesh;

constexpr int kJobRanks = 3;

/// Buckets of a step, in elements.
using Buckets = std::vector<std::size_t>;

struct RankRecord {
  std::vector<std::vector<float>> results;  // Of all calls.
  Statistics statistics;
  std::string failure;
};

/// Every step's: made once.
const std::vector<float>& gradient(std::size_t count, int rank) {
  thread_local std::map<std::pair<std::size_t, int>, std::vector<float>> made;
  std::vector<float>& values = made[{count, rank}];
  if (values.empty()) values = testing::random_gradient(count, count, rank);
  return values;
}

std::vector<float> exact_sum(std::size_t count) {
  std::vector<float> sum(count);
  for (int rank = 0; rank < kJobRanks; ++rank) {
    const std::vector<float>& own = gradient(count, rank);
    for (std::size_t i = 0; i < count; ++i) sum[i] += own[i];
  }
  return sum;
}

double relative_error(const std::vector<float>& values, const std::vector<float>& exact) {
  double lost = 0, whole = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    lost += std::pow(double{values[i]} - exact[i], 2);
    whole += std::pow(double{exact[i]}, 2);
  }
  return std::sqrt(lost / whole);
}

void make_steps(Communicator& communicator, const std::vector<Buckets>& steps, RankRecord* record) {
  for (const Buckets& step : steps) {
    for (const std::size_t count : step) {
      std::vector<float> values = gradient(count, communicator.rank());
      const Status status = communicator.all_reduce(values.data(), values.data(), count,
                                                    DType::kFloat32, Reduction());
      if (!status.is_ok()) {
        record->failure = status.message();
        return;
      }
      record->results.push_back(std::move(values));
    }
  }
}

std::vector<RankRecord> run_job(const std::vector<Buckets>& steps, const std::string& name = "",
                                const std::string& value = "") {
  const Settings settings = parse_settings(
      {{"RINGPRESS_GRADIENTS", "all"}, {"RINGPRESS_CACHE", "off"}, {name, value}}, nullptr);
  const auto fabric = std::make_shared<ThreadFabric>(kJobRanks, false);
  std::vector<RankRecord> records(kJobRanks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kJobRanks; ++rank) {
    threads.emplace_back([&, rank] {
      RankRecord& record = records[static_cast<std::size_t>(rank)];
      MeshCommunicator communicator(std::make_unique<ThreadMesh>(fabric, rank), settings);
      make_steps(communicator, steps, &record);
      record.statistics = communicator.statistics();
    });
  }
  threads.clear();
  return records;
}

void repeat(std::size_t times, const Buckets& step, std::vector<Buckets>* steps) {
  steps->insert(steps->end(), times, step);
}

void expect_right(const std::vector<Buckets>& steps, const std::vector<RankRecord>& records) {
  std::size_t call = 0;
  for (const Buckets& step : steps) {
    for (const std::size_t count : step) {
      for (const RankRecord& record : records) {
        ASSERT_LT(call, record.results.size()) << record.failure;
        ASSERT_EQ(record.results[call], records[0].results[call]) << "call " << call;
      }
      if (call % 7 == 0) {  // What one encoding loses, and what an earlier one has left over.
        EXPECT_LE(relative_error(records[0].results[call], exact_sum(count)), 0.8) << call;
      }
      ++call;
    }
  }
}

TEST(Automatic, RanksAgreeWhateverTheProgramDoes) {
  const Buckets before{20000, 17000, 34000};
  const Buckets rebuilt{31000, 34000};
  const Buckets other_model{25000};
  std::vector<Buckets> steps;
  repeat(1, before, &steps);
  repeat(40, rebuilt, &steps);
  repeat(2, other_model, &steps);
  repeat(30, rebuilt, &steps);
  repeat(1, {31000, 17000}, &steps);  // The last batch is odd.
  repeat(15, before, &steps);
  expect_right(steps, run_job(steps));
  expect_right(steps, run_job(steps, "RINGPRESS_ADJUST_STEPS", "4"));
}

/// Runs it as so many ranks, so many of them to a host.
void run_ranks(int ranks, int ranks_per_host,
               const std::function<void(std::unique_ptr<Mesh>)>& rank_function) {
  const auto fabric = std::make_shared<ThreadFabric>(ranks, false, 0, ranks_per_host);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { rank_function(std::make_unique<ThreadMesh>(fabric, rank)); });
  }
}

TEST(Automatic, LinksInsideHostsAreMeasuredToo) {
  const Settings settings = parse_settings({{"RINGPRESS_CACHE", "off"}}, nullptr);
  for (const int ranks_per_host : {2, 3}) {  // Of three one has no other to swap with.
    const int ranks = 2 * ranks_per_host;
    std::vector<std::string> texts(static_cast<std::size_t>(ranks));
    std::vector<std::uint64_t> sequences(static_cast<std::size_t>(ranks));
    run_ranks(ranks, ranks_per_host, [&](std::unique_ptr<Mesh> mesh) {
      const auto rank = static_cast<std::size_t>(mesh->rank());
      MeshPeers peers(*mesh, *std::pmr::get_default_resource(), sequences[rank]);
      ASSERT_EQ(tuning::count_ranks_per_host(peers).value(), ranks_per_host);
      const Result<tuning::Calibrations> found = tuning::calibrate(peers, settings, ranks_per_host);
      ASSERT_TRUE(found.is_ok()) << found.status().message();
      EXPECT_GT(found.value().inside().bytes_per_second, 0);
      EXPECT_GT(found.value().inside().latency_seconds, 0);
      texts[rank] = write_calibrations(found.value(), {ranks, ranks_per_host, "q4", "hosts"});
    });
    for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
    for (const std::uint64_t sequence : sequences) EXPECT_EQ(sequence, sequences[0]);
  }
}

TEST(Automatic, HostsOfSeveralRanksAreTunedAlike) {
  const Settings settings = parse_settings({{"RINGPRESS_CACHE", "off"}}, nullptr);
  std::vector<Buckets> steps;
  repeat(100, {20000}, &steps);
  std::vector<RankRecord> records(4);
  run_ranks(4, 2, [&](std::unique_ptr<Mesh> mesh) {
    RankRecord& record = records[static_cast<std::size_t>(mesh->rank())];
    MeshCommunicator communicator(std::move(mesh), settings);
    make_steps(communicator, steps, &record);
  });
  for (const RankRecord& record : records) {
    EXPECT_EQ(record.failure, "");
    EXPECT_EQ(record.results, records[0].results);
  }
}

/// Door B's calls: a tensor in pieces, as if its whole were known. What is put off when a piece is
/// compressed comes later, whatever else is tried in between.
TEST(Automatic, PiecesAreTunedAndKeepTheirResiduals) {
  constexpr std::size_t kCount = 60000, kPiece = 25000;
  constexpr std::size_t kSteps = 150;
  const Settings settings =
      parse_settings({{"RINGPRESS_CACHE", "off"}, {"RINGPRESS_GRADIENTS", "all"}}, nullptr);
  const auto fabric = std::make_shared<ThreadFabric>(kJobRanks, false);
  std::vector<std::vector<double>> sums(kJobRanks, std::vector<double>(kCount));
  Statistics statistics;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kJobRanks; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<ThreadMesh>(fabric, rank), settings);
      PiecewiseTensor tensor;
      tensor.known = PiecewiseTensor::Known::kTensor;
      tensor.count = kCount;
      const std::vector<float>& values = gradient(kCount, rank);
      std::vector<float> result(kCount);
      for (std::size_t step = 0; step < kSteps; ++step) {
        ASSERT_TRUE(communicator.pieces().start(tensor).is_ok());
        for (std::size_t first = 0; first < kCount; first += kPiece) {
          const Status status =
              communicator.pieces().run(values.data() + first, result.data() + first, first,
                                        std::min(kPiece, kCount - first));
          ASSERT_TRUE(status.is_ok()) << status.message();
        }
        for (std::size_t i = 0; i < kCount; ++i) {
          sums[static_cast<std::size_t>(rank)][i] += double{result[i]} / kSteps;
        }
      }
      if (rank == 0) statistics = communicator.statistics();
    });
  }
  threads.clear();
  EXPECT_EQ(sums[1], sums[0]);
  EXPECT_EQ(sums[2], sums[0]);
  EXPECT_LE(relative_error({sums[0].begin(), sums[0].end()}, exact_sum(kCount)), 0.01);
  EXPECT_EQ(statistics.calls, 3 * kSteps);
  EXPECT_GT(statistics.compressed_calls, 0u);
  std::uint64_t left_exact = 0;
  for (const auto& [reason, count] : statistics.exact_calls) left_exact += count;
  EXPECT_GE(left_exact, 3u) << "no codec was never tried";
}

/// A calibration falls into one of the calls; what they sent themselves can be told all the same.
TEST(Automatic, WhatACalibrationSendsIsCountedForItself) {
  constexpr std::size_t kCount = 16384;  // 64 KiB: a calibration sends many times as much.
  std::vector<Buckets> steps;
  repeat(60, {kCount}, &steps);
  for (const RankRecord& record : run_job(steps)) {
    ASSERT_EQ(record.failure, "");
    const Statistics& all = record.statistics;
    // (A link that seems slow, as on a busy machine, is measured with less.)
    ASSERT_GT(all.calibration_bytes, 2 * all.calls * 1024) << "too little for a test";
    ASSERT_LT(all.calibration_bytes, all.wire_bytes);
    // Headers and announcements: all else is either exact or smaller.
    EXPECT_LE(all.wire_bytes - all.calibration_bytes, all.raw_bytes + all.calls * 1024);
  }
  const auto deterministic = run_job(steps, "RINGPRESS_DETERMINISTIC", "1");
  EXPECT_EQ(deterministic[0].statistics.calibration_bytes, 0U) << "nothing is measured";
}

TEST(Automatic, DeterministicModeAlwaysCompressesAlike) {
  std::vector<Buckets> steps;
  repeat(30, {20000, 34000}, &steps);
  const std::vector<RankRecord> first = run_job(steps, "RINGPRESS_DETERMINISTIC", "1");
  const std::vector<RankRecord> second = run_job(steps, "RINGPRESS_DETERMINISTIC", "1");
  expect_right(steps, first);
  EXPECT_EQ(first[0].results, second[0].results);
  EXPECT_EQ(first[0].statistics.compressed_calls, 2u * 28u);
  EXPECT_EQ(first[0].statistics.exact_calls.at("has not recurred yet"), 4u);
}

/// Each eighth coordinate is ten times as large as the others. Once it is settled how calls are
/// made, over a link of so many seconds a byte.
Statistics run_with_sizes(double seconds_per_byte, const std::string& feedback) {
  const Settings settings = parse_settings({{"RINGPRESS_CACHE", "off"},
                                            {"RINGPRESS_TUNING_TRIALS", "0"},
                                            {"RINGPRESS_GRADIENTS", "all"},
                                            {"RINGPRESS_EF", feedback}},
                                           nullptr);
  EXPECT_EQ(settings.mistake, "");
  constexpr std::size_t kCount = 20000;
  const auto fabric = std::make_shared<ThreadFabric>(2, false, seconds_per_byte);
  std::vector<std::vector<float>> results(2);
  std::vector<Statistics> statistics(2);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<ThreadMesh>(fabric, static_cast<int>(rank)),
                                    settings);
      for (int step = 0; step < 24; ++step) {
        std::vector<float> values = testing::random_gradient(kCount, step, static_cast<int>(rank));
        for (std::size_t i = 3; i < kCount; i += 8) values[i] *= 10;
        ASSERT_TRUE(
            communicator
                .all_reduce(values.data(), values.data(), kCount, DType::kFloat32, Reduction())
                .is_ok());
        results[rank].insert(results[rank].end(), values.begin(), values.end());
      }
      statistics[rank] = communicator.statistics();
    });
  }
  threads.clear();
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(statistics[0].scaled_calls, statistics[1].scaled_calls);
  return statistics[0];
}

TEST(Automatic, SlowLinksHaveCoordinateScales) {
  constexpr double kSlow = 1e-6;  // So slow that no codec is the limit, whatever runs beside it.
  const Statistics scaled = run_with_sizes(kSlow, "auto");
  EXPECT_GT(scaled.compressed_calls, 12U);
  EXPECT_GT(scaled.scaled_calls, 8U);
  EXPECT_EQ(run_with_sizes(kSlow, "plain").scaled_calls, 0U);
}

// Error feedback goes on while one codec is tried after the other: what all steps add up to is
// nearly exact, as it would not be if each step's loss were lost.
TEST(Automatic, ResidualsAreKeptAcrossTrials) {
  constexpr std::size_t kCount = 20000;
  constexpr std::size_t kSteps = 120;
  std::vector<Buckets> steps;
  repeat(kSteps, {kCount, kCount + 1000}, &steps);
  const std::vector<RankRecord> records = run_job(steps);
  ASSERT_EQ(records[0].results.size(), 2 * kSteps);
  std::vector<float> mean(kCount);
  for (std::size_t step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < kCount; ++i) {
      mean[i] += records[0].results[2 * step][i] / static_cast<float>(kSteps);
    }
  }
  EXPECT_LE(relative_error(mean, exact_sum(kCount)), 0.02);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
