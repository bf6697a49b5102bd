// RINGPRESS_LAZY before a library on a device: what is put off is added up there, and ranks vote
// over the real library. On a device that is host memory, and on the CUDA device over a stand-in
// for CUDA's runtime.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/lazy/lazy_flusher.h"
#include "nccl_plugin/session/mesh_communicator.h"
#include "tests/support/cuda_job.h"
#include "tests/support/interposer_hosts.h"
#include "tests/support/narrow_values.h"
#include "tests/support/rules_file.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kLazyValues = 2000;

bool is_all_zero(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

/// One rank, and how it makes calls.
struct LazyRank {
  Job& job;
  ncclComm_t comm;
  int rank;
  cudaStream_t stream;

  ncclResult_t make(const void* send, void* receive, std::size_t count,
                    ncclDataType_t dtype = ncclFloat32) const {
    return job.engine.reduce(
        {CollectiveKind::kAllReduce, send, receive, count, dtype, ncclSum, comm, stream});
  }
  void reduce(const std::vector<float>& send, std::vector<float>& receive) const {
    receive.resize(send.size());
    ASSERT_EQ(make(send.data(), receive.data(), send.size()), ncclSuccess)
        << job.engine.last_error(comm);
  }
};

/// On the CUDA device, or on host memory.
class InterposerLazy : public ::testing::TestWithParam<bool> {
 protected:
  static bool is_cuda() { return GetParam(); }
  static const ringpressRealNccl& nccl() {
    return is_cuda() ? nccl_in_streams() : recording_nccl();
  }
  static Settings settings(Environment more) {
    more.insert(more.begin(), {{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "3.9"}});
    return is_cuda() ? cuda_settings(more) : make_settings(more);
  }

  /// Runs body(rank) on ranks of one communicator.
  template <typename Body>
  static void run_lazily(int size, const Environment& more, Body body,
                         const ringpressRealNccl& real = nccl()) {
    Job job(settings(more), real);
    run_ranks(job, size, [&](ncclComm_t comm, int rank) {
      const cudaStream_t stream = is_cuda() ? make_stream() : nullptr;
      body(LazyRank{job, comm, rank, stream});
      if (stream == nullptr) return;
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    });
  }

  /// What came of calls of the same values each time, on ranks that must agree.
  static std::vector<std::vector<float>> repeat(int size, const Environment& more, int calls) {
    std::vector<std::vector<std::vector<float>>> results(static_cast<std::size_t>(size));
    run_lazily(size, more, [&](const LazyRank& rank) {
      const std::vector<float> send = make_values(rank.rank, kLazyValues);
      std::vector<float> receive;
      for (int call = 0; call < calls; ++call) {
        rank.reduce(send, receive);
        results[static_cast<std::size_t>(rank.rank)].push_back(receive);
      }
    });
    for (const auto& of_rank : results) EXPECT_EQ(of_rank, results[0]);
    return results[0];
  }
};

using Bytes = std::vector<std::byte>;

/// A training step after the other: gradients that agree, ones that do not, and ones that do on one
/// rank alone, in place and elsewhere; values that are not finite on one rank; and new buffers.
template <typename Reduce>
std::vector<Bytes> run_training(int rank, DType dtype, Reduce reduce) {
  const std::vector<std::size_t> counts = {2000, 5001, 3300};
  std::vector<std::unique_ptr<Bytes>> buffers;
  std::vector<Bytes> results;
  for (int step = 0; step < 70; ++step) {
    if (step % 35 == 0) {
      for (const std::size_t count : counts) {
        buffers.push_back(std::make_unique<Bytes>(count * dtype_size(dtype)));
      }
    }
    for (std::size_t tensor = 0; tensor < counts.size(); ++tensor) {
      const bool agrees = tensor == 0 || (tensor == 2 && rank == 1);
      std::vector<float> values =
          make_values(rank, counts[tensor], agrees ? 7u : static_cast<unsigned>(100 + step));
      if (step == 23 && tensor == 0 && rank == 1) {
        values[77] = std::numeric_limits<float>::infinity();
      }
      Bytes& send = *buffers[buffers.size() - counts.size() + tensor];
      compress_kernels::narrow_values(values.data(), values.size(), dtype, send.data());
      Bytes receive(send.size());
      void* const to = tensor == 1 ? send.data() : receive.data();
      reduce(send.data(), to, counts[tensor]);
      results.push_back(tensor == 1 ? send : receive);
    }
  }
  return results;
}

/// The same calls are put off, and what comes of the others is the same.
TEST_P(InterposerLazy, IsWhatHostMemoryDoes) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    std::vector<std::vector<Bytes>> ours(2), wanted(2);
    run_lazily(2, {}, [&](const LazyRank& rank) {
      ours[static_cast<std::size_t>(rank.rank)] =
          run_training(rank.rank, dtype, [&](const void* send, void* receive, std::size_t count) {
            ASSERT_EQ(rank.make(send, receive, count, static_cast<ncclDataType_t>(dtype)),
                      ncclSuccess);
          });
    });
    const auto fabric = std::make_shared<ringpress::testing::ThreadFabric>(2, true);
    run_threads(2, [&](int rank) {
      MeshCommunicator communicator(std::make_unique<ringpress::testing::ThreadMesh>(fabric, rank),
                                    settings({}));
      wanted[static_cast<std::size_t>(rank)] =
          run_training(rank, dtype, [&](const void* send, void* receive, std::size_t count) {
            ASSERT_TRUE(communicator.all_reduce(send, receive, count, dtype, {}).is_ok());
          });
    });
    std::size_t put_off = 0;
    for (std::size_t call = 0; call < wanted[0].size(); ++call) {
      ASSERT_EQ(ours[0][call], ours[1][call]) << call;
      ASSERT_EQ(ours[0][call], wanted[0][call]) << call;
      put_off += std::all_of(ours[0][call].begin(), ours[0][call].end(),
                             [](std::byte byte) { return byte == std::byte{}; });
    }
    // Soon again after the new buffers, too; but the gradients that agree are sent now and then.
    EXPECT_GT(put_off, 120u);
    EXPECT_LT(put_off, 180u);
  }
}

/// Gradients that agree: the fourth is enough. Nothing of them is lost.
TEST_P(InterposerLazy, WhatAgreesComesTogetherSoon) {
  constexpr int kCalls = 43, kSize = 3;
  const int before = all_reduces;
  const auto results = repeat(kSize, {}, kCalls);
  const auto zeros = std::count_if(results.begin(), results.end(), is_all_zero);
  EXPECT_GE(zeros, kCalls * 3 / 4 - 6);
  EXPECT_LE(zeros, kCalls * 3 / 4 + 1);
  EXPECT_EQ(all_reduces - before, kSize * (kCalls + kCalls - zeros)) << "a vote each, and the rest";
  std::size_t last = results.size() - 1;
  while (is_all_zero(results[last])) --last;
  for (std::size_t i = 0; i < kLazyValues; i += 31) {
    double sum = 0, expected = 0;
    for (const auto& result : results) sum += static_cast<double>(result[i]);
    for (int rank = 0; rank < kSize; ++rank) {
      expected += static_cast<double>(make_values(rank, i + 1)[i]) * static_cast<double>(last + 1);
    }
    ASSERT_NEAR(sum, expected, 1e-3 * (1 + std::abs(expected)));
  }
}

TEST_P(InterposerLazy, NobodyWaitsLongerThanToldTo) {
  const auto results = repeat(2, {{"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_LAZY_CALLS", "5"}}, 45);
  int row = 0;
  for (const auto& result : results) {
    row = is_all_zero(result) ? row + 1 : 0;
    ASSERT_LE(row, 4);
  }
  EXPECT_GE(std::count_if(results.begin(), results.end(), is_all_zero), 45 * 4 / 5 - 6);
}

/// In that very call, and by itself: what was added up stays.
TEST_P(InterposerLazy, WhatIsNotFiniteIsNotPutOff) {
  constexpr int kBadCall = 20;
  run_lazily(3, {{"RINGPRESS_LAZY", "1000"}}, [&](const LazyRank& rank) {
    std::vector<float> send, receive;
    double sum = 0;
    for (int call = 0; call < 30; ++call) {
      send.assign(kLazyValues, 1.0F);
      if (rank.rank == 1 && call == kBadCall) {
        send[7] = std::numeric_limits<float>::quiet_NaN();
      }
      if (call == 29) {
        ASSERT_TRUE(rank.job.engine.flush_lazy(rank.comm).is_ok());
      }
      rank.reduce(send, receive);
      EXPECT_EQ(std::isfinite(receive[7]), call != kBadCall) << call;
      EXPECT_EQ(receive[9], call == kBadCall ? 3.0F : receive[9]);
      sum += static_cast<double>(receive[9]);
    }
    EXPECT_EQ(sum, 3 * 30);
  });
}

/// What one rank flushes before the last step leaves nothing behind, of any tensor, wherever their
/// buffers have been.
TEST_P(InterposerLazy, WhatIsFlushedIsSentWithTheNextCall) {
  ::testing::internal::CaptureStderr();
  run_lazily(2, {{"RINGPRESS_LAZY", "1000"}}, [&](const LazyRank& rank) {
    constexpr int kSteps = 60;
    std::vector<std::unique_ptr<std::vector<float>>> sent;
    std::vector<double> totals(3);
    std::vector<float> receive;
    int put_off = 0;
    for (int step = 0; step < kSteps; ++step) {
      if (step % 25 == 0) {
        for (const std::size_t count : {2000u, 5000u, 2000u}) {
          sent.push_back(std::make_unique<std::vector<float>>(count, 1.0F));
        }
      }
      if (rank.rank == 1 && step == kSteps - 1) {
        ASSERT_TRUE(rank.job.engine.flush_lazy(rank.comm).is_ok());
      }
      for (std::size_t tensor = 0; tensor < totals.size(); ++tensor) {
        rank.reduce(*sent[sent.size() - totals.size() + tensor], receive);
        totals[tensor] += static_cast<double>(receive[5]);
        put_off += receive[5] == 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(totals, std::vector<double>(3, 2 * kSteps));
    EXPECT_GT(put_off, 50);
  });
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find("put off"), std::string::npos) << log;
}

/// No buffer is there for it: what is lost at the end is said and counted.
TEST_P(InterposerLazy, WhatIsNeverSentIsSaidAndCounted) {
  const std::string path = ::testing::TempDir() + "interposer_lazy_" + std::to_string(getpid());
  ::testing::internal::CaptureStderr();
  const auto results = repeat(2, {{"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_STATS", path}}, 20);
  const std::string log = ::testing::internal::GetCapturedStderr();
  const auto zeros = std::count_if(results.begin(), results.end(), is_all_zero);
  ASSERT_GT(zeros, 0);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  unlink(path.c_str());
  for (const std::string rank : {"0", "1"}) {
    EXPECT_NE(log.find("rank " + rank + " ends with gradients of 1 tensors put off (2000 "),
              std::string::npos)
        << log;
  }
  const std::string counted = "\"put off: RINGPRESS_LAZY\": " + std::to_string(zeros);
  EXPECT_NE(text.str().find(counted), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("\"unsent_elements\": 2000, "), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("\"residual_bytes\": 8000,"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("\"calls\": 20,"), std::string::npos) << text.str();
}

/// How far what came of many calls is from what it should be, with and without residuals.
template <typename Run>
void expect_that_residuals_help(Run run) {
  double errors[2];
  for (const bool has_residuals : {false, true}) {
    double error = 0, norm = 0;
    run(Environment{{"RINGPRESS_CODEC", "q2"}, {"RINGPRESS_EF", has_residuals ? "1" : "0"}}, &error,
        &norm);
    errors[has_residuals ? 1 : 0] = std::sqrt(error / norm);
  }
  EXPECT_GT(errors[0], 0.15);
  EXPECT_LT(errors[1], 0.4 * errors[0]);
}

/// What a tensor's values are in a step, as so many times those of the others. The last tensor is
/// sent when the first two are not.
double factor_of(std::size_t tensor, int step) {
  if (tensor < 2) return 1;
  return step % 7 < 4 ? 1.5 : -0.75;
}

template <typename Reduce>
void add_up_errors(int size, int rank, const std::vector<std::size_t>& counts, Reduce reduce,
                   double* error, double* norm) {
  constexpr int kSteps = 100;
  std::vector<std::vector<float>> values, sent, sums;
  for (const std::size_t count : counts) {
    values.push_back(make_values(rank, count, static_cast<unsigned>(values.size())));
    sent.emplace_back(count);
    sums.emplace_back(count);
  }
  std::vector<float> receive;
  std::vector<double> factors(sent.size());
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t tensor = 0; tensor < sent.size(); ++tensor) {
      const double factor = factor_of(tensor, step);
      std::transform(values[tensor].begin(), values[tensor].end(), sent[tensor].begin(),
                     [factor](float value) { return static_cast<float>(factor * double{value}); });
      factors[tensor] += factor;
      receive.resize(sent[tensor].size());
      reduce(sent[tensor], receive);
      for (std::size_t i = 0; i < receive.size(); ++i) sums[tensor][i] += receive[i];
    }
  }
  if (rank != 0) return;
  for (std::size_t tensor = 0; tensor < sums.size(); ++tensor) {
    const std::vector<float>& sum = sums[tensor];
    std::vector<double> exact(sum.size());
    for (int peer = 0; peer < size; ++peer) {
      const std::vector<float> own = make_values(peer, sum.size(), static_cast<unsigned>(tensor));
      for (std::size_t i = 0; i < sum.size(); ++i) exact[i] += factors[tensor] * double{own[i]};
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      *error += std::pow(double{sum[i]} - exact[i], 2);
      *norm += exact[i] * exact[i];
    }
  }
}

/// Calls that are sent have the residual of those before: of whole tensors, and of the parts that
/// ranks of several hosts reduce.
void expect_that_error_feedback_goes_on(const std::vector<std::size_t>& counts) {
  for (const char* algorithm : {"sra", "ring", "hier"}) {
    expect_that_residuals_help([&](Environment more, double* error, double* norm) {
      more.insert(more.end(), {{"RINGPRESS_LAZY", "3.9"}, {"RINGPRESS_ALGO", algorithm}});
      const auto body = [&](const std::shared_ptr<Comm>& comm, int rank) {
        add_up_errors(
            4, rank, counts,
            [&](const std::vector<float>& send, std::vector<float>& receive) {
              ASSERT_EQ(all_reduce(comm, send, receive, ncclSum), ncclSuccess);
            },
            error, norm);
      };
      run_hosts(make_settings(more), {0, 0, 1, 1}, body);
    });
  }
}

TEST(InterposerLazyHosts, ErrorFeedbackGoesOn) {
  expect_that_error_feedback_goes_on({20000, 33000, 27000});
}

/// That only their addresses tell apart, when sums are sent from the buffer that results go to,
/// which they share.
TEST(InterposerLazyHosts, ErrorFeedbackKeepsToTensorsOfEqualCounts) {
  expect_that_error_feedback_goes_on({20000, 20000, 20000});
}

/// Beside tensors that rules leave exact, and which come as they are.
TEST(InterposerLazyHosts, ErrorFeedbackGoesOnBesideExactTensors) {
  for (const std::string rules : {"allreduce,108000,108000,-1,-1,-1,-1,-1,-1,-1,none\n",
                                  "allreduce,80000,80000,-1,-1,-1,-1,-1,-1,-1,none\n"
                                  "allreduce,108000,108000,-1,-1,-1,-1,-1,-1,-1,none\n"}) {
    const test::RulesFile file(rules);
    double error = 0, norm = 0;
    const Settings settings = make_settings(
        {{"RINGPRESS_CODEC", "q2"}, {"RINGPRESS_LAZY", "3.9"}, {"RINGPRESS_RULES", file.path()}});
    run_hosts(settings, {0, 1}, [&](const std::shared_ptr<Comm>& comm, int rank) {
      add_up_errors(
          2, rank, {20000, 33000, 27000},
          [&](const std::vector<float>& send, std::vector<float>& receive) {
            ASSERT_EQ(all_reduce(comm, send, receive, ncclSum), ncclSuccess);
          },
          &error, &norm);
    });
    EXPECT_LT(std::sqrt(error / norm), 0.2) << "0.7 and more without residuals, with " << rules;
  }
}

/// What is sent takes its turns as other calls do.
TEST(InterposerLazyHosts, AutomaticModeGoesOn) {
  ringpressRealNccl real = recording_nccl();
  real.Send = [](const void* send, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                 cudaStream_t stream) {
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    return counting_send(send, count, dtype, peer, comm, stream);
  };
  const Settings settings = make_settings({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_LAZY", "1.9"}});
  std::vector<std::vector<std::vector<float>>> results(2);
  run_hosts(
      settings, {0, 1},
      [&](const std::shared_ptr<Comm>& comm, int rank) {
        const std::vector<float> send = make_values(rank, kLazyValues);
        std::vector<float> receive(kLazyValues);
        for (int call = 0; call < 100; ++call) {
          ASSERT_EQ(all_reduce(comm, send, receive, ncclSum, real), ncclSuccess);
          results[static_cast<std::size_t>(rank)].push_back(receive);
        }
      },
      real);
  EXPECT_EQ(results[0], results[1]);
  std::size_t put_off = 0, exact = 0;
  for (const auto& result : results[0]) {
    put_off += is_all_zero(result) ? 1 : 0;
    const float wanted = 2 * (make_values(0, 1)[0] + make_values(1, 1)[0]);
    exact += std::abs(result[0] - wanted) < 1e-5F * std::abs(wanted) ? 1 : 0;
  }
  EXPECT_GT(put_off, 40u);
  EXPECT_GT(exact, 20u) << "compressing gained nothing, and was given up";
}

/// Two communicators in one group, of which one call is put off and the other not.
TEST_P(InterposerLazy, CommunicatorsOfAGroupVoteForThemselves) {
  Job job(settings({}), nccl());
  const ncclUniqueId ids[] = {job.make_id(), job.make_id()};
  std::vector<std::vector<std::vector<float>>> results(4);
  run_threads(2, [&](int rank) {
    const ncclComm_t comms[] = {job.join(ids[0], 2, rank), job.join(ids[1], 2, rank)};
    std::vector<std::vector<float>> sent(2, make_values(rank, kLazyValues));
    std::vector<std::vector<float>> received(2, std::vector<float>(kLazyValues));
    for (int step = 0; step < 40; ++step) {
      const auto noise = make_values(rank, kLazyValues, static_cast<unsigned>(step));
      std::copy(noise.begin(), noise.end(), sent[1].begin());
      ASSERT_EQ(job.engine.group_start(), ncclSuccess);
      for (const std::size_t i : {rank == 0 ? 0u : 1u, rank == 0 ? 1u : 0u}) {  // In any order.
        ASSERT_EQ(job.all_reduce(comms[i], sent[i], received[i]), ncclSuccess);
      }
      ASSERT_EQ(job.engine.group_end(), ncclSuccess);
      for (const std::size_t i : {0u, 1u}) {
        results[2 * i + static_cast<std::size_t>(rank)].push_back(received[i]);
      }
    }
    for (const ncclComm_t comm : comms) job.destroy(comm);
  });
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[2], results[3]);
  std::size_t differ = 0;
  for (std::size_t step = 0; step < 40; ++step) {
    differ += is_all_zero(results[0][step]) != is_all_zero(results[2][step]) ? 1 : 0;
  }
  EXPECT_GE(differ, 5u);
}

/// Ranks of one thread, with several calls of each in a group.
TEST_P(InterposerLazy, RanksOfOneThreadGoOnTogether) {
  Job job(settings({{"RINGPRESS_CODEC", "q8"}}), nccl());
  constexpr int kSize = 3;
  ncclComm_t comms[kSize];
  ASSERT_EQ(job.engine.real().CommInitAll(comms, kSize, nullptr), ncclSuccess);
  job.engine.making().made_all(comms, kSize);
  std::vector<std::vector<std::vector<float>>> sent, received;
  for (int rank = 0; rank < kSize; ++rank) {
    sent.push_back({make_values(rank, kLazyValues), make_values(rank, 3000, 5)});
    received.push_back({std::vector<float>(kLazyValues), std::vector<float>(3000)});
  }
  int zeros = 0;
  for (int step = 0; step < 24; ++step) {
    ASSERT_EQ(job.engine.group_start(), ncclSuccess);
    for (std::size_t rank = 0; rank < kSize; ++rank) {
      for (const std::size_t i : {0u, 1u}) {
        ASSERT_EQ(job.all_reduce(comms[rank], sent[rank][i], received[rank][i]), ncclSuccess);
      }
    }
    ASSERT_EQ(job.engine.group_end(), ncclSuccess);
    EXPECT_EQ(received[0], received[1]);
    EXPECT_EQ(received[0], received[2]);
    zeros += is_all_zero(received[0][0]) ? 1 : 0;
  }
  EXPECT_GE(zeros, 12);
  EXPECT_LE(zeros, 19);
  for (const ncclComm_t comm : comms) job.destroy(comm);
}

/// Those of a split have their own sums.
TEST_P(InterposerLazy, ChildrenPutOffToo) {
  run_lazily(3, {}, [&](const LazyRank& rank) {
    const Engine& engine = rank.job.engine;
    ncclComm_t child = nullptr;
    const int color = rank.rank == 1 ? 1 : 0;
    ASSERT_EQ(engine.real().CommSplit(rank.comm, color, rank.rank, &child, nullptr), ncclSuccess);
    rank.job.engine.making().made_child(&child, rank.comm, color);
    const std::vector<float> send = make_values(rank.rank, kLazyValues);
    std::vector<float> receive(kLazyValues);
    int zeros = 0;
    for (int call = 0; call < 20; ++call) {
      ASSERT_EQ(rank.job.all_reduce(child, send, receive), ncclSuccess);
      zeros += is_all_zero(receive) ? 1 : 0;
      rank.reduce(send, receive);
    }
    if (color == 0) {
      EXPECT_GE(zeros, 9);
    } else {
      EXPECT_EQ(zeros, 0) << "a single rank";
    }
    rank.job.destroy(child);
  });
}

/// Where memory is for one tensor alone, the others are not put off, and none is lost.
TEST_P(InterposerLazy, WhatHasNoRoomIsSentAtOnce) {
  run_lazily(2, {{"RINGPRESS_EF_MAX_BYTES", "10000"}}, [&](const LazyRank& rank) {
    std::vector<std::vector<float>> sent;
    for (const std::size_t count : {2000u, 3000u}) sent.emplace_back(count, 1.0F);
    std::vector<float> receive;
    std::vector<int> zeros(2);
    for (int step = 0; step < 40; ++step) {
      for (std::size_t tensor = 0; tensor < 2; ++tensor) {
        rank.reduce(sent[tensor], receive);
        zeros[tensor] += is_all_zero(receive) ? 1 : 0;
      }
    }
    EXPECT_GE(zeros[0], 20);
    EXPECT_EQ(zeros[1], 0);
  });
}

/// Sums might not fit it; and what else is exact for everybody.
TEST_P(InterposerLazy, OtherCallsGoOn) {
  run_lazily(2, {{"RINGPRESS_LAZY", "1000"}}, [&](const LazyRank& rank) {
    constexpr std::uint16_t k30720 = 0x7780, k61440 = 0x7B80;
    const std::vector<std::uint16_t> halves(40000, k30720);
    const std::vector<std::int32_t> integers(kLazyValues, 3);
    const std::vector<float> few(100, 1.0F);
    std::vector<std::uint16_t> half_sums(halves.size());
    std::vector<std::int32_t> integer_sums(integers.size());
    std::vector<float> few_sums(few.size());
    for (int call = 0; call < 12; ++call) {
      ASSERT_EQ(rank.make(halves.data(), half_sums.data(), halves.size(), ncclFloat16),
                ncclSuccess);
      ASSERT_EQ(rank.make(integers.data(), integer_sums.data(), integers.size(), ncclInt32),
                ncclSuccess);
      ASSERT_EQ(rank.make(few.data(), few_sums.data(), few.size()), ncclSuccess);
      EXPECT_EQ(half_sums[7], k61440);
      EXPECT_EQ(integer_sums[7], 6);
      EXPECT_EQ(few_sums[7], 2.0F);
    }
  });
}

/// A rule says so, by size; the others are put off all the same.
TEST_P(InterposerLazy, WhatARuleLeavesAsItIsIsNotPutOff) {
  const test::RulesFile file("allreduce,8000,8000,-1,-1,-1,-1,-1,-1,-1,none\n");
  run_lazily(2, {{"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_RULES", file.path()}},
             [](const LazyRank& rank) {
               const std::vector<float> left(kLazyValues, 1.0F), taken(kLazyValues + 1, 1.0F);
               std::vector<float> receive;
               int zeros = 0;
               for (int step = 0; step < 20; ++step) {
                 rank.reduce(left, receive);
                 ASSERT_EQ(receive, std::vector<float>(kLazyValues, 2.0F)) << step;
                 rank.reduce(taken, receive);
                 zeros += is_all_zero(receive) ? 1 : 0;
               }
               EXPECT_GE(zeros, 15);
             });
}

/// A communicator that ends while ranks vote fails its call, on all ranks.
TEST_P(InterposerLazy, AnAbortDuringTheVotesEndsTheCall) {
  static Job* aborted = nullptr;
  static std::atomic<int> votes{0};
  ringpressRealNccl real = nccl();
  real.AllReduce = [](const void* send, void* receive, size_t count, ncclDataType_t dtype,
                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    const ncclResult_t result = nccl().AllReduce(send, receive, count, dtype, op, comm, stream);
    if (count == 1 && ++votes > 20) {
      aborted->engine.end(comm, Engine::Ending::kAbort, [] { return ncclSuccess; });
    }
    return result;
  };
  votes = 0;
  Job job(settings({{"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_LAZY_CALLS", "1"}}), real);
  aborted = &job;
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> send = make_values(rank, kLazyValues);
    std::vector<float> receive(kLazyValues);
    ncclResult_t result = ncclSuccess;
    for (int call = 0; call < 12 && result == ncclSuccess; ++call) {
      result = job.all_reduce(comm, send, receive);
    }
    EXPECT_NE(result, ncclSuccess);
  });
}

/// A flush goes to whom the communicator is of.
TEST_P(InterposerLazy, FlushKnowsItsCommunicators) {
  run_lazily(2, {}, [&](const LazyRank& rank) {
    EXPECT_TRUE(rank.job.engine.flush_lazy(rank.comm).is_ok());
    EXPECT_EQ(rank.job.engine.flush_lazy(nullptr).code(), Code::kInvalidArgument);
  });
  run_lazily(1, {}, [&](const LazyRank& rank) {  // Plain NCCL's.
    EXPECT_TRUE(rank.job.engine.flush_lazy(rank.comm).is_ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Places, InterposerLazy, ::testing::Bool(), [](const auto& place) {
  return std::string(place.param ? "Cuda" : "Host");
});

/// A rank whose device has no room for a sum votes to send; nobody loses anything.
TEST(InterposerLazyCuda, ARankWithoutMemorySendsAtOnce) {
  const int before = fakeAllocations();
  {
    CudaJob job(cuda_settings({{"RINGPRESS_CODEC", "none"}, {"RINGPRESS_LAZY", "3.9"}}));
    run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
      std::vector<float> values;
      int zeros = 0;
      fakeRefuseDeviceMemory(rank == 1);
      for (int call = 0; call < 40; ++call) {
        values.assign(kLazyValues, 1.0F);
        if (call == 20) fakeRefuseDeviceMemory(false);
        ASSERT_EQ(job.reduce(comm, values, nullptr), ncclSuccess);
        if (call < 20) {
          ASSERT_EQ(values, std::vector<float>(kLazyValues, 2.0F)) << call;
        }
        zeros += is_all_zero(values) ? 1 : 0;
      }
      EXPECT_GE(zeros, 10);
    });
  }
  EXPECT_EQ(fakeAllocations(), before) << "device memory that was not freed";
}

/// A graph would repeat what was decided when it was captured.
TEST(InterposerLazyCuda, CapturedCallsAreNotPutOff) {
  for (const char* graph : {"0", "1"}) {
    CudaJob job(cuda_settings(
        {{"RINGPRESS_CODEC", "q8"}, {"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_GRAPH", graph}}));
    ::testing::internal::CaptureStderr();
    run_ranks(job, 2, [&](ncclComm_t comm, int) {
      const cudaStream_t stream = make_stream();
      std::vector<float> values(kLazyValues, 1.0F), others(kLazyValues, 1.0F);
      for (int capture = 0; capture < 4; ++capture) {
        cudaGraph_t made = nullptr;
        ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        ASSERT_EQ(job.reduce(comm, values, stream), ncclSuccess);
        ASSERT_EQ(cudaStreamEndCapture(stream, &made), cudaSuccess);
        for (int replay = 0; replay < 2; ++replay) {
          values.assign(kLazyValues, 1.0F);
          fakeReplay(made);
          EXPECT_EQ(values, std::vector<float>(kLazyValues, 2.0F));
        }
        ASSERT_EQ(job.reduce(comm, others, stream), ncclSuccess);
        ASSERT_EQ(cudaGraphDestroy(made), cudaSuccess);
        if (capture < 3) others.assign(kLazyValues, 1.0F);
      }
      EXPECT_TRUE(is_all_zero(others)) << "what is not captured goes on";
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    const std::size_t at = log.find("captured streams are not put off");
    EXPECT_EQ(at != std::string::npos, graph[0] == '0') << "once a process: " << log;
    EXPECT_EQ(log.find("captured streams", at == std::string::npos ? 0 : at + 1),
              std::string::npos);
  }
}

/// Larger than what a communicator has memory for from the start: what the rank lacks is found out
/// before anybody votes.
TEST(InterposerLazyCuda, AProjectionThatOneRankHasNoMemoryForIsPlainNccl) {
  constexpr std::size_t kLarge = 8 * 1024 * 1024 + 500000;
  CudaJob job(cuda_settings({{"RINGPRESS_CODEC", "randk:density=0.001"},
                             {"RINGPRESS_EF", "0"},
                             {"RINGPRESS_LAZY", "1000"},
                             {"RINGPRESS_LAZY_CALLS", "1"}}));
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values(kLarge, 1.0F);
    for (const bool is_refused : {true, false}) {
      fakeRefuseMemory(is_refused && rank == 1);
      EXPECT_EQ(job.reduce(comm, values, nullptr), ncclSuccess);
      fakeRefuseMemory(false);
    }
    EXPECT_EQ(values, std::vector<float>(kLarge, 4.0F));
  });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
