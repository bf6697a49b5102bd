// Communicators over real transports, ranks as threads of one process. NCCL_HOSTID is not used
// here: RINGPRESS_SHM=0 sends everything over TCP.
#include "ringpress/internal/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/communicator_ranks.h"
#include "tests/support/random_tensor.h"

namespace ringpress {
namespace {

using testing::run_communicators;
using testing::settings_with;
using Environment = testing::RankEnvironment;

void expect_ok(const std::vector<Status>& outcomes) {
  EXPECT_EQ(testing::failures_of(outcomes), "");
}

TEST(Communicator, WaitsAsLongAsItWasToldLast) {
  std::atomic<bool> has_failed{false};
  const auto outcomes = run_communicators(2, {}, [&](Communicator* communicator) {
    float value = 1;
    Status status = communicator->all_reduce(&value, &value, 1, DType::kFloat32, {});
    if (!status.is_ok() || communicator->rank() == 1) {
      has_failed.wait(false);
      return status;
    }
    communicator->set_timeout(std::chrono::milliseconds(50));
    status = communicator->all_reduce(&value, &value, 1, DType::kFloat32, {});
    has_failed.store(true);
    has_failed.notify_all();
    return status;
  });
  EXPECT_EQ(outcomes[0].code(), Code::kTimeout) << outcomes[0].message();
  EXPECT_NE(outcomes[0].message().find("waited 50 ms"), std::string::npos);
  EXPECT_TRUE(outcomes[1].is_ok()) << outcomes[1].message();
}

double relative_error(const std::vector<float>& values, const std::vector<double>& exact) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(values[i] - exact[i], 2);
    norm += std::pow(exact[i], 2);
  }
  return std::sqrt(error / norm);
}

/// All-reduces gradients three times on each rank; gives the relative error and checks that all
/// ranks agree.
double all_reduce_error(int size, const Environment& environment, std::size_t count,
                        std::vector<Statistics>* statistics) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(size));
  statistics->resize(results.size());
  expect_ok(run_communicators(size, environment, [&](Communicator* communicator) {
    const auto rank = static_cast<std::size_t>(communicator->rank());
    const auto input = testing::random_gradient(count, 1, communicator->rank());
    results[rank].resize(count);
    for (int step = 0; step < 3; ++step) {
      RINGPRESS_RETURN_IF_ERROR(
          communicator->all_reduce(input.data(), results[rank].data(), count, DType::kFloat32, {}));
    }
    (*statistics)[rank] = communicator->statistics();
    return Status::ok();
  }));
  std::vector<double> exact(count);
  for (int rank = 0; rank < size; ++rank) {
    const auto input = testing::random_gradient(count, 1, rank);
    for (std::size_t i = 0; i < count; ++i) exact[i] += input[i];
  }
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
  return relative_error(results[0], exact);
}

TEST(Communicator, CompressesOverTcpAndSharedMemory) {
  for (const char* shared_memory : {"0", "1"}) {
    for (const char* algorithm : {"ring", "sra"}) {
      std::vector<Statistics> statistics;
      const double error = all_reduce_error(3,
                                            {{"RINGPRESS_CODEC", "q4"},
                                             {"RINGPRESS_SHM", shared_memory},
                                             {"RINGPRESS_ALGO", algorithm}},
                                            200000, &statistics);
      EXPECT_LT(error, 0.6);
      EXPECT_GT(error, 0);
      for (const Statistics& rank : statistics) {
        EXPECT_EQ(rank.compressed_calls, 3U);
        EXPECT_EQ(rank.last_algorithm, algorithm);
        EXPECT_EQ(rank.last_reason, "");
        EXPECT_GT(static_cast<double>(rank.raw_bytes) / static_cast<double>(rank.wire_bytes), 7.0);
        EXPECT_EQ(rank.residual_bytes, 200000U * sizeof(float));
      }
    }
  }
}

/// Sums of bfloat16 gradients on rank 0, by sra: by ring, elements would be summed in an order that
/// depends on where shards begin, and those of codecs begin at tiles.
std::vector<std::uint16_t> sum_of_brain_floats(const Environment& environment,
                                               Statistics* statistics) {
  constexpr std::size_t kCount = 300001;
  Environment all = environment;
  all.emplace_back("RINGPRESS_ALGO", "sra");
  std::vector<std::vector<std::uint16_t>> results(3, std::vector<std::uint16_t>(kCount));
  expect_ok(run_communicators(3, all, [&](Communicator* communicator) -> Status {
    const int rank = communicator->rank();
    const auto floats = testing::random_gradient(kCount, 1, rank);
    std::vector<std::uint16_t> input(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      std::memcpy(&input[i], reinterpret_cast<const char*>(&floats[i]) + 2, 2);
    }
    RINGPRESS_RETURN_IF_ERROR(
        communicator->all_reduce(input.data(), results[static_cast<std::size_t>(rank)].data(),
                                 kCount, DType::kBfloat16, {}));
    if (rank == 0) *statistics = communicator->statistics();
    return Status::ok();
  }));
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
  return results[0];
}

TEST(Communicator, LosslessMakesTheSumsOfNoneFromFewerBytes) {
  Statistics plain;
  const auto expected = sum_of_brain_floats({{"RINGPRESS_CODEC", "none"}}, &plain);
  for (const Environment& environment :
       {Environment{{"RINGPRESS_CODEC", "lossless"}},
        Environment{{"RINGPRESS", "lossless"}, {"RINGPRESS_CODEC", "q4"}},
        Environment{{"RINGPRESS_CODEC", "lossless"}, {"RINGPRESS_SHM", "0"}}}) {
    Statistics statistics;
    EXPECT_EQ(sum_of_brain_floats(environment, &statistics), expected);
    EXPECT_EQ(statistics.last_codec, "lossless");
    EXPECT_EQ(statistics.last_reason, "");
    EXPECT_EQ(statistics.compressed_calls, 1U);
    EXPECT_EQ(statistics.residual_bytes, 0U);
    EXPECT_LT(static_cast<double>(statistics.wire_bytes),
              0.8 * static_cast<double>(plain.wire_bytes));
  }
}

/// Such codecs are without bias instead.
TEST(Communicator, NoErrorFeedbackWhereItWouldGrow) {
  for (const char* codec : {"tern", "q1:round=stochastic", "q1:grid=lloyd,round=stochastic"}) {
    std::vector<Statistics> statistics;
    const Environment environment{{"RINGPRESS_CODEC", codec}, {"RINGPRESS_EF", "1"}};
    all_reduce_error(2, environment, 50000, &statistics);
    for (const Statistics& rank : statistics) {
      EXPECT_EQ(rank.compressed_calls, 3U) << codec;
      EXPECT_EQ(rank.residual_bytes, 0U) << codec;
    }
  }
}

Status make_calls_of_all_kinds(Communicator* communicator, DType dtype) {
  std::vector<float> memory(20000, 1.0F);
  float* const values = memory.data();
  for (const std::size_t count : {20000, 20000, 20000, 0}) {
    RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(values, values, count, dtype, {}));
  }
  RINGPRESS_RETURN_IF_ERROR(communicator->reduce_scatter(values, values, 10000, dtype, {}));
  PiecewiseTensor tensor;
  tensor.count = 20000;
  tensor.dtype = dtype;
  tensor.known = PiecewiseTensor::Known::kTensor;
  tensor.address = values;
  RINGPRESS_RETURN_IF_ERROR(communicator->pieces().start(tensor));
  return communicator->pieces().run(values, values, 0, 20000);
}

/// Also those that a codec leaves as they are: bf16 does bfloat16.
TEST(Communicator, EveryExactCallHasItsReason) {
  for (const char* codec : {"none", "bf16", "fp16", "auto", "lossless", "q4", "topk", "powersgd"}) {
    for (const char* mode : {"on", "off", "observe", "lossless"}) {
      for (const DType dtype :
           {DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kInt32}) {
        const auto body = [&](Communicator* communicator) {
          const Status status = make_calls_of_all_kinds(communicator, dtype);
          EXPECT_EQ(communicator->statistics().exact_calls.count(""), 0U)
              << codec << " " << mode << " " << dtype_name(dtype);
          return status;
        };
        expect_ok(run_communicators(2, {{"RINGPRESS_CODEC", codec}, {"RINGPRESS", mode}}, body));
      }
    }
  }
}

// A matrix of rank 2 among other things: exact for those who know where it lies.
TEST(Communicator, ProjectsMatricesThatItWasToldOf) {
  constexpr std::size_t kRows = 300;
  constexpr std::size_t kColumns = 200;
  constexpr std::size_t kCount = 1000 + kRows * kColumns;
  for (const char* shared_memory : {"0", "1"}) {
    for (const char* feedback : {"0", "1"}) {
      std::vector<std::vector<double>> errors(3);
      std::vector<std::vector<float>> inputs(3);
      const auto step = [&](Communicator* communicator) -> Status {
        std::vector<float>& values = inputs[static_cast<std::size_t>(communicator->rank())];
        values.resize(kCount);  // Stays where it is from call to call.
        std::ranges::copy(testing::random_gradient(kCount, 1, communicator->rank()),
                          values.begin());
        const auto left = testing::random_gradient(2 * kRows, 2, 0);
        for (std::size_t i = 0; i < kRows * kColumns; ++i) {
          values[1000 + i] = left[i / kColumns] * values[i % kColumns] +
                             left[kRows + i / kColumns] * values[300 + i % kColumns];
        }
        std::vector<float> exact(kCount), result(kCount);
        RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(
            values.data(), exact.data(), kCount, DType::kFloat32, {ReduceOp::kSum, 1, true}));
        RINGPRESS_RETURN_IF_ERROR(
            communicator->all_reduce(values.data(), result.data(), kCount, DType::kFloat32, {}));
        errors[static_cast<std::size_t>(communicator->rank())].push_back(
            relative_error(result, {exact.begin(), exact.end()}));
        return Status::ok();
      };
      std::vector<Statistics> statistics(3);
      expect_ok(run_communicators(
          3,
          {{"RINGPRESS_CODEC", "powersgd:rank=2"},
           {"RINGPRESS_SHM", shared_memory},
           {"RINGPRESS_EF", feedback}},
          [&](Communicator* communicator) -> Status {
            const HintedCall call{kCount, DType::kFloat32, nullptr};
            const Layer layer{1000, kRows * kColumns, kRows, kColumns, false};
            RINGPRESS_RETURN_IF_ERROR(step(communicator));
            // Rank 1 comes to know it one call later.
            if (communicator->rank() != 1) {
              RINGPRESS_RETURN_IF_ERROR(communicator->set_layers(call, {&layer, 1}));
            }
            RINGPRESS_RETURN_IF_ERROR(step(communicator));
            RINGPRESS_RETURN_IF_ERROR(communicator->set_layers(call, {&layer, 1}));
            for (int i = 0; i < 4; ++i) RINGPRESS_RETURN_IF_ERROR(step(communicator));
            statistics[static_cast<std::size_t>(communicator->rank())] = communicator->statistics();
            RINGPRESS_RETURN_IF_ERROR(communicator->set_layers(call, {}));
            return step(communicator);
          }));
      EXPECT_EQ(errors[1], errors[0]);
      EXPECT_GT(errors[0][0], 0.01);
      EXPECT_GT(errors[0][1], 0.01);
      if (feedback[0] == '0') {
        for (int i = 2; i < 6; ++i) EXPECT_LT(errors[0][static_cast<std::size_t>(i)], 1e-5);
      }
      EXPECT_GT(errors[0][6], 0.01);
      const std::size_t residual = feedback[0] == '0' ? 0 : kCount;
      EXPECT_EQ(statistics[0].residual_bytes, (residual + 2 * kColumns) * sizeof(float));
      EXPECT_EQ(statistics[0].compressed_calls, 6U);
    }
  }
}

TEST(Communicator, ReduceScattersDoNotGoByProjections) {
  expect_ok(run_communicators(
      2, {{"RINGPRESS_CODEC", "powersgd"}}, [](Communicator* communicator) -> Status {
        std::vector<float> values(200000, 1.0F);
        std::vector<float> result(100000);
        RINGPRESS_RETURN_IF_ERROR(communicator->reduce_scatter(values.data(), result.data(),
                                                               result.size(), DType::kFloat32, {}));
        EXPECT_EQ(result, std::vector<float>(100000, 2.0F));
        EXPECT_EQ(communicator->statistics().last_reason, "powersgd compresses all-reduces only");
        EXPECT_EQ(communicator->statistics().compressed_calls, 0U);
        return Status::ok();
      }));
}

/// How often it was logged that reduce-scatters lose with such a codec.
std::size_t warnings_of_loss(const std::string& codec) {
  ::testing::internal::CaptureStderr();
  expect_ok(
      run_communicators(2, {{"RINGPRESS_CODEC", codec}}, [](Communicator* communicator) -> Status {
        std::vector<float> values(40000, 1.0F);
        for (int call = 0; call < 3; ++call) {
          RINGPRESS_RETURN_IF_ERROR(communicator->reduce_scatter(
              values.data(), values.data(), values.size() / 2, DType::kFloat32, {}));
        }
        EXPECT_EQ(communicator->statistics().compressed_calls, 3U);
        return Status::ok();
      }));
  const std::string lines = ::testing::internal::GetCapturedStderr();
  const std::string warning = "reduce-scatters have no error feedback: what " + codec + " ";
  std::size_t found = 0;
  for (auto at = lines.find(warning); at != std::string::npos; at = lines.find(warning, at + 1)) {
    ++found;
  }
  return found;
}

TEST(Communicator, WarnsOnceOfReduceScattersThatLose) {
  EXPECT_EQ(warnings_of_loss("topk:density=0.02"), 1U);
  EXPECT_EQ(warnings_of_loss("topk:density=0.02"), 0U);
  for (const char* const codec : {"sign", "q1", "q4"}) EXPECT_EQ(warnings_of_loss(codec), 0U);
}

TEST(Communicator, LayersAreChecked) {
  expect_ok(run_communicators(1, {}, [](Communicator* communicator) -> Status {
    const HintedCall call{100, DType::kFloat32, nullptr};
    const auto refused = [&](const std::vector<Layer>& layers, const std::string& reason) {
      const Status status = communicator->set_layers(call, layers);
      EXPECT_EQ(status.code(), Code::kInvalidArgument);
      EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
    };
    refused({{90, 20, 4, 5, false}}, "beyond");
    refused({{SIZE_MAX, 2, 0, 0, false}}, "beyond");
    refused({{0, 20, 4, 6, false}}, "product");
    refused({{0, 20, 20, 0, false}}, "product");
    refused({{0, 0, std::size_t{1} << 32, std::size_t{1} << 32, false}}, "product");
    refused({{50, 20, 4, 5, false}, {40, 11, 0, 0, false}}, "overlaps");
    return communicator->set_layers(
        call,
        std::vector<Layer>{{50, 20, 4, 5, false}, {0, 50, 0, 0, true}, {70, 30, 5, 6, false}});
  }));
}

TEST(Communicator, ExactWhereNothingIsCompressed) {
  std::vector<Statistics> statistics;
  EXPECT_LT(all_reduce_error(4, {{"RINGPRESS_CODEC", "none"}}, 100000, &statistics), 1e-6);
  EXPECT_EQ(statistics[0].compressed_calls, 0U);
  EXPECT_LT(all_reduce_error(2, {{"RINGPRESS_CODEC", "q2"}}, 1000, &statistics), 1e-6);
  EXPECT_EQ(statistics[0].last_reason, "smaller than RINGPRESS_MIN_BYTES");
  EXPECT_LT(all_reduce_error(2, {}, 100000, &statistics), 1e-6);
  EXPECT_EQ(statistics[0].last_reason, "all ranks share one host");
}

// What a codec leaves as it is, or is put off, is no call by that codec.
TEST(Communicator, AnExactCallIsSaidToHaveNoCodec) {
  expect_ok(
      run_communicators(2, {{"RINGPRESS_CODEC", "bf16"}}, [](Communicator* communicator) -> Status {
        std::vector<std::uint16_t> values(100000);
        RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(values.data(), values.data(),
                                                           values.size(), DType::kBfloat16, {}));
        EXPECT_EQ(communicator->statistics().last_codec, "none");
        EXPECT_EQ(communicator->statistics().last_reason, "bf16 makes bfloat16 no smaller");
        return Status::ok();
      }));
  const std::vector<std::pair<std::string, std::string>> lazy{{"RINGPRESS_CODEC", "q4"},
                                                              {"RINGPRESS_LAZY", "1e6"}};
  expect_ok(run_communicators(2, lazy, [](Communicator* communicator) -> Status {
    std::vector<float> values(100000, 1), sum(100000);
    for (int call = 0; call < 12; ++call) {
      const std::uint64_t compressed = communicator->statistics().compressed_calls;
      RINGPRESS_RETURN_IF_ERROR(
          communicator->all_reduce(values.data(), sum.data(), values.size(), DType::kFloat32, {}));
      const Statistics now = communicator->statistics();
      const bool is_sent = now.compressed_calls > compressed;
      EXPECT_EQ(now.last_codec == "none", !is_sent) << now.last_codec;
      EXPECT_EQ(now.last_reason, is_sent ? "" : "put off: RINGPRESS_LAZY");
    }
    EXPECT_EQ(communicator->statistics().last_reason, "put off: RINGPRESS_LAZY");
    return Status::ok();
  }));
}

// RINGPRESS_MIN_BYTES speaks of the tensor that is reduced, not of a rank's share of it.
TEST(Communicator, AReduceScatterIsAsLargeAsWhatItReduces) {
  expect_ok(
      run_communicators(4, {{"RINGPRESS_CODEC", "q4"}}, [](Communicator* communicator) -> Status {
        for (const std::size_t count : {std::size_t{4096}, std::size_t{4095}}) {
          const std::vector<float> send(4 * count, 1.0F);
          std::vector<float> receive(count);
          RINGPRESS_RETURN_IF_ERROR(communicator->reduce_scatter(send.data(), receive.data(), count,
                                                                 DType::kFloat32, {}));
          const bool is_small = 4 * count * sizeof(float) < 65536;
          EXPECT_EQ(communicator->statistics().last_reason,
                    is_small ? "smaller than RINGPRESS_MIN_BYTES" : "");
        }
        return Status::ok();
      }));
}

TEST(Communicator, ObserveCompressesNothingAndCountsWhatItWould) {
  std::vector<Statistics> statistics;
  const double error = all_reduce_error(2, {{"RINGPRESS", "observe"}, {"RINGPRESS_CODEC", "q4"}},
                                        100000, &statistics);
  EXPECT_LT(error, 1e-6);
  EXPECT_EQ(statistics[0].compressed_calls, 0U);
  EXPECT_EQ(statistics[0].observed_calls, 3U);
  EXPECT_EQ(statistics[0].observed_raw_bytes, statistics[0].raw_bytes);
  EXPECT_EQ(statistics[0].last_reason, "RINGPRESS=observe: would be q4");
  all_reduce_error(2, {{"RINGPRESS", "observe"}}, 100000, &statistics);
  EXPECT_EQ(statistics[0].observed_calls, 0U);
  EXPECT_EQ(statistics[0].last_reason, "all ranks share one host");
}

// It is what the engine would do: here nothing.
TEST(Communicator, ObserveDoesNotPromiseWhatSavesNothing) {
  for (const char* const mode : {"on", "observe"}) {
    expect_ok(
        run_communicators(2, {{"RINGPRESS", mode}, {"RINGPRESS_CODEC", "fp16"}},
                          [](Communicator* communicator) -> Status {
                            std::vector<std::uint16_t> values(100000);
                            RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(
                                values.data(), values.data(), values.size(), DType::kBfloat16, {}));
                            const Statistics statistics = communicator->statistics();
                            EXPECT_EQ(statistics.last_reason, "fp16 makes bfloat16 no smaller");
                            EXPECT_EQ(statistics.observed_calls, 0U);
                            EXPECT_EQ(statistics.observed_raw_bytes, 0U);
                            return Status::ok();
                          }));
  }
}

/// A communicator of two ranks with this setting, on rank 1.
Status created_with(const char* name, const char* value) {
  return run_communicators(2, {{name, value}}, [](Communicator*) { return Status::ok(); })[1];
}

TEST(Communicator, AWrongSettingOnAllRanksIsRefused) {
  const Status codec = created_with("RINGPRESS_CODEC", "q44");
  EXPECT_EQ(codec.code(), Code::kInvalidArgument);
  EXPECT_NE(codec.message().find("q44"), std::string::npos) << codec.message();
  EXPECT_NE(codec.message().find("q4,"), std::string::npos) << codec.message();
  EXPECT_EQ(created_with("RINGPRESS_ALGO", "rign").message().find("RINGPRESS_ALGO=rign"), 0U);
  const Status cuda = created_with("RINGPRESS_BACKEND", "cuda");
  EXPECT_EQ(cuda.code(), Code::kUnsupported);
  EXPECT_NE(cuda.message().find("works on host memory"), std::string::npos);
  const Status sockets = created_with("RINGPRESS_SOCKETS", "17");
  EXPECT_EQ(sockets.code(), Code::kInvalidArgument);
  EXPECT_EQ(sockets.message(), "RINGPRESS_SOCKETS=17: expected a whole number from 1 to 16");
}

TEST(Communicator, DifferentSettingsAreNamedOnEveryRank) {
  const auto outcomes = run_communicators(
      {settings_with({{"RINGPRESS_CODEC", "q4"}}), settings_with({{"RINGPRESS_CODEC", "q4"}}),
       settings_with({{"RINGPRESS_CODEC", "q8"}})},
      [](Communicator*) { return Status::ok(); });
  for (const Status& status : outcomes) {
    EXPECT_EQ(status.code(), Code::kMismatch);
    for (const char* part : {"RINGPRESS_CODEC", "has q4", "rank 2 has q8"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
  }
}

TEST(Communicator, AWrongSettingOnOneRankIsNamedOnAll) {
  const Environment wrong = {{"RINGPRESS_CODEC", "rong"},         {"RINGPRESS_ALGO", "rong"},
                             {"RINGPRESS_SOCKETS", "17"},         {"RINGPRESS_SEED", "x"},
                             {"RINGPRESS_TIMEOUT_MS", "soon"},    {"RINGPRESS_EF", "maybe"},
                             {"RINGPRESS_ALGO", "tree"},          {"RINGPRESS_DEBUG", "INFO"},
                             {"RINGPRESS_PROGRESS_THREAD", "yes"}};
  for (const auto& [name, text] : wrong) {
    const Settings mistaken = name == "RINGPRESS_CODEC" ? settings_with({{name, text}})
                                                        : parse_settings({{name, text}}, nullptr);
    const std::string named = name == "RINGPRESS_CODEC" ? text : name + "=" + text;
    const auto outcomes = run_communicators({settings_with({}), settings_with({}), mistaken},
                                            [](Communicator*) { return Status::ok(); });
    for (const Status& status : outcomes) {
      EXPECT_EQ(status.code(), Code::kMismatch);
      EXPECT_NE(status.message().find("rank 2 has " + named), std::string::npos)
          << status.message();
    }
  }
}

// RINGPRESS_CHUNK_BYTES is an upper limit, not an amount of memory to reserve.
TEST(Communicator, AChunkIsNeverLargerThanTheShard) {
  for (const char* codec : {"none", "q4"}) {
    std::vector<Statistics> statistics;
    EXPECT_LT(all_reduce_error(
                  3, {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_CHUNK_BYTES", "9223372036854775808"}},
                  100000, &statistics),
              0.6);
  }
}

TEST(Communicator, DifferentCallsAreNamedOnEveryRank) {
  for (const char* shared_memory : {"0", "1"}) {
    for (const char* algorithm : {"ring", "sra"}) {
      const auto outcomes =
          run_communicators(4, {{"RINGPRESS_SHM", shared_memory}, {"RINGPRESS_ALGO", algorithm}},
                            [](Communicator* communicator) {
                              const std::size_t count = communicator->rank() == 2 ? 54321 : 98765;
                              std::vector<float> values(98765);
                              return communicator->all_reduce(values.data(), values.data(), count,
                                                              DType::kFloat32, {});
                            });
      for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
        const Status& status = outcomes[rank];
        SCOPED_TRACE("rank " + std::to_string(rank) + ", " + algorithm + ", shm " + shared_memory);
        EXPECT_EQ(status.code(), Code::kMismatch) << status.message();
        for (const char* part : {"54321", "98765", "all_reduce"}) {
          EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
        }
      }
    }
  }
}

TEST(Communicator, ASingleRankScalesAndCopies) {
  expect_ok(run_communicators(1, {{"RINGPRESS_CODEC", "q4"}}, [](Communicator* communicator) {
    std::vector<float> values(50000, 3.0F);
    std::vector<float> result(values.size());
    const Status status = communicator->all_reduce(values.data(), result.data(), values.size(),
                                                   DType::kFloat32, {ReduceOp::kSum, 0.5, true});
    EXPECT_EQ(result, std::vector<float>(values.size(), 1.5F));
    return status;
  }));
}

// One rank's factor is 1: what is compressed and how it travels must not depend on that.
TEST(Communicator, RanksMayPreMultiplyByDifferentFactors) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{100000}}) {
    for (const char* algorithm : {"ring", "sra"}) {
      expect_ok(run_communicators(3, {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_ALGO", algorithm}},
                                  [count](Communicator* communicator) {
                                    std::vector<float> values(count, 1.0F);
                                    const double factor = communicator->rank() + 1;
                                    const Status status = communicator->all_reduce(
                                        values.data(), values.data(), count, DType::kFloat32,
                                        {ReduceOp::kSum, factor, true});
                                    EXPECT_EQ(values, std::vector<float>(count, 6.0F));
                                    return status;
                                  }));
    }
  }
}

TEST(Communicator, NothingWorksAfterFinalize) {
  expect_ok(run_communicators(2, {}, [](Communicator* communicator) {
    float value = 1;
    RINGPRESS_RETURN_IF_ERROR(communicator->all_reduce(&value, &value, 1, DType::kFloat32, {}));
    RINGPRESS_RETURN_IF_ERROR(communicator->finalize());
    EXPECT_EQ(communicator->all_reduce(&value, &value, 1, DType::kFloat32, {}).code(),
              Code::kInvalidUsage);
    EXPECT_EQ(value, 2.0F);
    return Status::ok();
  }));
}

TEST(Communicator, AbortEndsACallOnEveryRank) {
  const auto outcomes = run_communicators(3, {}, [](Communicator* communicator) {
    std::vector<float> values(1000);
    RINGPRESS_RETURN_IF_ERROR(
        communicator->all_reduce(values.data(), values.data(), values.size(), DType::kFloat32, {}));
    if (communicator->rank() == 0) {  // The others wait for a rank that aborts instead.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      communicator->abort(Communicator::End::kAborted);
      return communicator->failure();
    }
    return communicator->all_reduce(values.data(), values.data(), values.size(), DType::kFloat32,
                                    {});
  });
  for (const Status& status : outcomes) {
    EXPECT_EQ(status.code(), Code::kAborted) << status.message();
    EXPECT_NE(status.message().find("rank 0"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace ringpress
