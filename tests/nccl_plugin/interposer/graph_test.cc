// Door A on the CUDA device, whose runtime is a stand-in on host memory: captured streams, and
// libraries without kernels.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ringpress/internal/communicator.h"
#include "tests/support/cuda_job.h"
#include "tests/support/interposer_hosts.h"
#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// Captures what body() asks for.
template <typename Body>
cudaGraph_t capture(cudaStream_t stream, Body body) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  body();
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  return graph;
}

double relative_error(const std::vector<double>& got, const std::vector<double>& wanted) {
  double squared = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    squared += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
  }
  return std::sqrt(squared / norm);
}

constexpr std::size_t kCount = 20000;

/// The mean of some replays of one captured in-place all-reduce with the same values each time, by
/// rank; and the error of the first.
struct Replays {
  double first_error = 0;
  double mean_error = 0;
};
Replays replay(CudaJob& job, int size, int count) {
  std::vector<Replays> found(static_cast<std::size_t>(size));
  std::vector<std::vector<float>> last(static_cast<std::size_t>(size));
  std::vector<double> exact(kCount);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<float> own = make_values(rank, kCount);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] += own[i];
  }
  run_ranks(job, size, [&](ncclComm_t comm, int rank) {
    const cudaStream_t stream = make_stream();
    const std::vector<float> own = make_values(rank, kCount);
    std::vector<float> values(kCount), other = make_values(rank, 5000, 9);
    const cudaGraph_t graph =
        capture(stream, [&] { ASSERT_EQ(job.reduce(comm, values, stream), ncclSuccess); });
    std::vector<double> sum(kCount);
    for (int i = 0; i < count; ++i) {
      std::copy(own.begin(), own.end(), values.begin());
      fakeReplay(graph);
      for (std::size_t j = 0; j < kCount; ++j) sum[j] += values[j];
      if (i == 0) found[static_cast<std::size_t>(rank)].first_error = relative_error(sum, exact);
      // Calls that are not captured go on between replays.
      ASSERT_EQ(job.reduce(comm, other, stream), ncclSuccess);
    }
    for (double& value : sum) value /= count;
    found[static_cast<std::size_t>(rank)].mean_error = relative_error(sum, exact);
    last[static_cast<std::size_t>(rank)] = values;
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
  for (const auto& values : last) EXPECT_EQ(values, last[0]);
  return found[0];
}

/// What rank 0 has after some steps.
std::vector<float> average_again_and_again(Job& job, std::size_t count) {
  std::vector<float> result;
  run_ranks(job, 3, [&](ncclComm_t comm, int rank) {
    std::vector<float> values = make_values(rank, count);
    for (int step = 0; step < 4; ++step) {
      ASSERT_EQ(job.all_reduce(comm, values, values, ncclAvg), ncclSuccess);
    }
    if (rank == 0) result = values;
  });
  return result;
}

TEST(Cuda, SameBytesAsHostMemory) {
  const int before = fakeAllocations();
  struct Tried {
    const char* codec;
    std::size_t count;
  };
  for (const Tried& tried : {Tried{"q4", 100001}, Tried{"qsgd-ms", 7001},
                             Tried{"qsgd-ms:norm=global", 7001}, Tried{"topk", 27001}}) {
    const std::pair<std::string, std::string> codec{"RINGPRESS_CODEC", tried.codec};
    Job on_host(make_settings({codec}));
    Job on_cuda(cuda_settings({codec}), nccl_in_streams());
    all_reduces = 0;
    EXPECT_EQ(average_again_and_again(on_host, tried.count),
              average_again_and_again(on_cuda, tried.count))
        << tried.codec;
    EXPECT_EQ(all_reduces, 0) << tried.codec;
  }
  EXPECT_EQ(fakeAllocations(), before) << "device memory that was not freed";
}

/// The agents' own work, beside the host's.
TEST(Cuda, ProjectionsAreTheHosts) {
  for (const char* codec : {"randk:density=0.05,code=q4", "powersgd:rank=2"}) {
    std::vector<std::vector<float>> results;
    for (const bool is_cuda : {false, true}) {
      const std::vector<std::pair<std::string, std::string>> chosen = {{"RINGPRESS_CODEC", codec}};
      Job job(is_cuda ? cuda_settings(chosen) : make_settings(chosen),
              is_cuda ? nccl_in_streams() : recording_nccl());
      run_ranks(job, 3, [&](ncclComm_t comm, int rank) {
        std::vector<float> values = make_values(rank, 3001);
        for (int step = 0; step < 5; ++step) {
          ASSERT_EQ(job.all_reduce(comm, values, values, ncclAvg), ncclSuccess);
        }
        if (rank == 0) results.push_back(values);
      });
    }
    EXPECT_EQ(results.at(0), results.at(1)) << codec;
  }
}

/// RINGPRESS_CODEC=auto where sends are slow. What has been settled holds for captured calls, too,
/// which take no turns.
TEST(Cuda, WhatGainsNothingIsLeftExact) {
  const int before = fakeAllocations();
  ringpressRealNccl real = nccl_in_streams();
  real.Send = [](const void* data, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                 cudaStream_t stream) {
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    return nccl_in_streams().Send(data, count, dtype, peer, comm, stream);
  };
  const Settings settings = cuda_settings(
      {{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}, {"RINGPRESS_GRAPH", "1"}});
  run_hosts(
      settings, {0, 1},
      [&](const std::shared_ptr<Comm>& comm, int rank) {
        const cudaStream_t stream = make_stream();
        std::vector<float> values = make_values(rank, kCount);
        PlannedCall planned{{CollectiveKind::kAllReduce, values.data(), values.data(),
                             values.size(), ncclFloat32, ncclAvg, comm->handle(), stream}};
        const auto reduce = [&] {
          if (!comm->planner().plan(&planned)) return run_exactly(real, planned.call);
          const AcceptedCall accepted{comm, planned};
          return run_calls(real, {&accepted, 1});
        };
        cudaGraph_t graph = capture(stream, [&] {
          EXPECT_TRUE(comm->planner().plan(&planned));
          EXPECT_FALSE(planned.takes_turn);
          EXPECT_EQ(reduce(), ncclSuccess);
        });
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
        for (int call = 0; call < 40; ++call) ASSERT_EQ(reduce(), ncclSuccess);
        graph = capture(stream, [&] { EXPECT_FALSE(comm->planner().plan(&planned)); });
        // While a step is looked for, exact calls too are made in the order of ours.
        EXPECT_TRUE(comm->planner().plan(&planned));
        EXPECT_TRUE(planned.gains_nothing());
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
        EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
      },
      real);
  EXPECT_EQ(fakeAllocations(), before) << "memory that was not freed";
}

/// What calls took is asked for in the thread that makes the next ones, which may be capturing
/// another stream.
TEST(Cuda, AutomaticModeSpoilsNoCaptureOfAnotherStream) {
  const ringpressRealNccl real = nccl_in_streams();
  run_hosts(
      cuda_settings({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}}), {0, 1},
      [&](const std::shared_ptr<Comm>& comm, int rank) {
        const cudaStream_t stream = make_stream(), captured = make_stream();
        std::vector<float> values = make_values(rank, kCount);
        const cudaGraph_t graph = capture(captured, [&] {
          for (int call = 0; call < 40; ++call) {
            PlannedCall planned{{CollectiveKind::kAllReduce, values.data(), values.data(),
                                 values.size(), ncclFloat32, ncclAvg, comm->handle(), stream}};
            ASSERT_TRUE(comm->planner().plan(&planned));
            const AcceptedCall accepted{comm, planned};
            ASSERT_EQ(run_calls(real, {&accepted, 1}), ncclSuccess);
          }
        });
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
        for (const cudaStream_t made : {stream, captured}) {
          EXPECT_EQ(cudaStreamDestroy(made), cudaSuccess);
        }
      },
      real);
}

TEST(Cuda, CapturedStreamsPassThrough) {
  CudaJob job(cuda_settings());
  all_reduces = 0;
  const Replays replays = replay(job, 2, 3);
  EXPECT_EQ(all_reduces, 2) << "once a rank, while it was captured";
  EXPECT_LT(replays.first_error, 1e-6);
}

struct Captured {
  const char* name;
  const char* algorithm;
  const char* codec;
  double largest_error;
};

class CudaGraph : public ::testing::TestWithParam<Captured> {};

TEST_P(CudaGraph, CallsAreCompressedIfAskedFor) {
  const int before = fakeAllocations();
  double mean_error[2];
  for (const char* feedback : {"0", "1"}) {
    CudaJob job(cuda_settings({{"RINGPRESS_GRAPH", "1"},
                               {"RINGPRESS_CODEC", GetParam().codec},
                               {"RINGPRESS_ALGO", GetParam().algorithm},
                               {"RINGPRESS_EF", feedback}}));
    all_reduces = 0;
    const Replays replays = replay(job, 2, 16);
    EXPECT_EQ(all_reduces, 0);
    EXPECT_GT(replays.first_error, 1e-3);
    EXPECT_LT(replays.first_error, GetParam().largest_error);
    mean_error[feedback[0] - '0'] = replays.mean_error;
  }
  // The residual is updated by replays, in which no code of ours runs.
  EXPECT_LT(mean_error[1], 0.25 * mean_error[0]);
  EXPECT_EQ(fakeAllocations(), before) << "device memory that was not freed";
}

const Captured kCaptured[] = {
    {"sra_q4", "sra", "q4", 0.3},
    {"ring_q4", "ring", "q4", 0.3},
    {"sra_qsgd", "sra", "qsgd:round=zero", 0.3},
    {"ring_qsgd_ms", "ring", "qsgd-ms:norm=global,round=zero", 0.3},
    {"sra_topk", "sra", "topk:density=0.4", 0.5},
#ifndef RINGPRESS_SANITIZED  // The same kernels, and they take minutes there.
    {"ring_topk", "ring", "topk:density=0.5", 0.5},
#endif
};
INSTANTIATE_TEST_SUITE_P(Calls, CudaGraph, ::testing::ValuesIn(kCaptured),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(Cuda, RandomBitsAreNotRepeated) {
  CudaJob job(
      cuda_settings({{"RINGPRESS_GRAPH", "1"}, {"RINGPRESS_CODEC", "q4:round=stochastic"}}));
  all_reduces = 0;
  EXPECT_LT(replay(job, 2, 2).first_error, 1e-6);
  EXPECT_EQ(all_reduces, 2);
}

/// What a projection is made with, and what it leaves out, is on the device: replays go on with it.
TEST(Cuda, CapturedProjectionsGoOn) {
  const int before = fakeAllocations();
  for (const char* codec : {"randk:density=0.2", "powersgd:rank=6"}) {
    CudaJob job(cuda_settings({{"RINGPRESS_GRAPH", "1"}, {"RINGPRESS_CODEC", codec}}));
    const Replays replays = replay(job, 2, 8);
    EXPECT_GT(replays.first_error, 0.5) << codec << " was not compressed";
    EXPECT_LT(replays.mean_error, 0.9 * replays.first_error) << codec;
  }
  EXPECT_EQ(fakeAllocations(), before) << "device memory that was not freed";
}

/// The memory of a graph that is kept longer than its communicator stays: a replay must not write
/// to what is somebody else's by now.
TEST(Cuda, GraphsMayOutliveTheirCommunicator) {
  cudaGraph_t graphs[2];
  std::vector<std::vector<float>> values = {make_values(0, kCount), make_values(1, kCount)};
  const int before = fakeAllocations();
  {
    CudaJob job(cuda_settings({{"RINGPRESS_GRAPH", "1"}}));
    run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
      const cudaStream_t stream = make_stream();
      graphs[rank] = capture(stream, [&] {
        ASSERT_EQ(job.reduce(comm, values[static_cast<std::size_t>(rank)], stream), ncclSuccess);
      });
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    });
  }
  EXPECT_GT(fakeAllocations(), before);
  for (const cudaGraph_t graph : graphs) EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  // A thread of its own frees it, for that in which a graph ends must not.
  for (int tries = 0; tries < 5000 && fakeAllocations() > before; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(fakeAllocations(), before) << "device memory that was not freed";
}

/// The sum of what two ranks have, in place, captured and replayed once. The last rank has no
/// memory meanwhile.
std::vector<std::vector<float>> capture_without_memory(CudaJob& job, ncclComm_t comm, int rank) {
  const cudaStream_t stream = make_stream();
  std::vector<std::vector<float>> values = {make_values(rank, kCount), make_values(rank, 5000, 3)};
  fakeRefuseMemory(rank == 1);
  const cudaGraph_t graph = capture(stream, [&] {
    for (auto& one : values) EXPECT_EQ(job.reduce(comm, one, stream), ncclSuccess);
  });
  fakeRefuseMemory(false);
  fakeReplay(graph);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  return values;
}

TEST(Cuda, AGraphThatOneRankHasNoMemoryForIsPlainNccl) {
  for (const char* codec : {"q4", "randk:density=0.2"}) {
    CudaJob job(cuda_settings({{"RINGPRESS_GRAPH", "1"}, {"RINGPRESS_CODEC", codec}}));
    std::vector<std::vector<float>> results[2];
    all_reduces = 0;
    sends = 0;
    run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
      results[rank] = capture_without_memory(job, comm, rank);
      // It is none of the communicator's.
      if (std::strcmp(codec, "q4") != 0) return;
      std::vector<float> values = make_values(rank, kCount);
      EXPECT_EQ(job.reduce(comm, values, nullptr), ncclSuccess);
    });
    EXPECT_EQ(all_reduces, 4) << codec;
    EXPECT_EQ(sends > 0, std::strcmp(codec, "q4") == 0) << codec;
    const std::vector<float> own[2] = {make_values(0, kCount), make_values(1, kCount)};
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(results[0][0][i], own[0][i] + own[1][i]) << codec;
    }
    EXPECT_EQ(results[0], results[1]) << codec;
  }
}

/// Larger than what a communicator has memory for from the start.
TEST(Cuda, ATensorThatOneRankHasNoMemoryForIsPlainNccl) {
  constexpr std::size_t kLarge = 8 * 1024 * 1024 + 500000;
  CudaJob job(cuda_settings({{"RINGPRESS_CODEC", "randk:density=0.001"}, {"RINGPRESS_EF", "0"}}));
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values(kLarge, 1.0F);
    for (const bool is_refused : {true, false}) {
      const int before = all_reduces;
      fakeRefuseMemory(is_refused && rank == 1);
      EXPECT_EQ(job.reduce(comm, values, nullptr), ncclSuccess);
      fakeRefuseMemory(false);
      EXPECT_GT(all_reduces, before);
    }
    // Exact, twice: what one rank lacked once is not asked for again.
    EXPECT_EQ(values, std::vector<float>(kLarge, 4.0F));
  });
  run_ranks(job, 2, [&](ncclComm_t comm, int) {
    std::vector<float> values(kLarge, 1.0F);
    EXPECT_EQ(job.reduce(comm, values, nullptr), ncclSuccess);
    const auto sums = std::count(values.begin(), values.end(), 2.0F);
    EXPECT_LT(sums, static_cast<std::ptrdiff_t>(kLarge / 100)) << "all ranks had the memory";
    EXPECT_GT(sums, 0);
  });
}

/// What goes wrong on one rank after all have begun: nobody waits for it, and everybody hears.
TEST(Cuda, ACallThatFailsOnOneRankFailsOnAll) {
  Job job(cuda_settings(), recording_nccl());
  std::barrier both(2);  // A failure ends what the other rank has under way: the first call too.
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values = make_values(rank, kCount);
    EXPECT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
    both.arrive_and_wait();
    fakeRefuseEvents(rank == 1);
    EXPECT_NE(job.all_reduce(comm, values, values), ncclSuccess) << "rank " << rank;
    fakeRefuseEvents(false);
    ncclResult_t error = ncclSuccess;
    EXPECT_EQ(job.engine.async_error(comm, &error), ncclSuccess);
    EXPECT_NE(error, ncclSuccess) << "rank " << rank;
    EXPECT_STRNE(job.engine.last_error(comm), "") << "rank " << rank;
    EXPECT_NE(job.all_reduce(comm, values, values), ncclSuccess) << "rank " << rank;
  });
}

/// The runtime keeps an error until somebody asks after a launch: that of a call before, or of the
/// program.
TEST(Cuda, WhatIsTriedInVainFailsNoLaunch) {
  const std::string file = ::testing::TempDir() + "ringpress-in-vain-" + std::to_string(getpid());
  CudaJob job(cuda_settings({{"RINGPRESS_TRACE", file}}));
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const cudaStream_t stream = make_stream();
    std::vector<float> values = make_values(rank, kCount);
    fakeHideCaptures(true);  // Left to the real library, whatever is captured.
    EXPECT_EQ(job.reduce(comm, values, stream), ncclSuccess);
    fakeHideCaptures(false);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    fakeRefuseNewEvents(true);  // Rank 0 cannot take times.
    for (int i = 0; i < 3; ++i) EXPECT_EQ(job.reduce(comm, values, stream), ncclSuccess);
    fakeRefuseNewEvents(false);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  });
}

TEST(Cuda, IsAskedOnceACallWhetherItsStreamIsCaptured) {
  struct Case {
    const char* codec;
    const char* graph;
    std::size_t count;
    int queries;  // The memory of a captured call is looked for by its graph: one more.
  };
  for (const Case& one : {Case{"q4", "0", kCount, 1}, Case{"auto", "0", kCount, 1},
                          Case{"q4", "1", kCount, 2}, Case{"q4", "0", 10, 0}}) {
    CudaJob job(cuda_settings({{"RINGPRESS_CODEC", one.codec},
                               {"RINGPRESS_GRADIENTS", "all"},
                               {"RINGPRESS_GRAPH", one.graph}}));
    run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
      const cudaStream_t stream = make_stream();
      std::vector<float> values = make_values(rank, one.count);
      for (int call = 0; call < 5; ++call) {
        const int before = fakeCaptureQueries();
        EXPECT_EQ(job.reduce(comm, values, stream), ncclSuccess);
        EXPECT_EQ(fakeCaptureQueries() - before, one.queries) << one.codec << one.graph;
      }
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    });
  }
}

TEST(Cuda, CodecWithoutKernelsMeansPlainNccl) {
  CudaJob job(cuda_settings({{"RINGPRESS_CODEC", "lossless"}}));
  all_reduces = 0;
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values = make_values(rank, kCount);
    ASSERT_EQ(job.reduce(comm, values, nullptr), ncclSuccess);
  });
  EXPECT_EQ(all_reduces, 2);
}

/// Nothing but the real library touches a pointer that may be a device's.
TEST(Cuda, WithoutKernelsThereIsNoEngine) {
  ringpressRealNccl real = recording_nccl();
  EXPECT_EQ(setenv("RINGPRESS_BACKEND", "host", 1), 0);
  static const Engine* const on_host = open_engine(real);  // Engines live for ever.
  EXPECT_NE(on_host, nullptr);
  EXPECT_EQ(setenv("RINGPRESS_BACKEND", "auto", 1), 0);
  static const Engine* const on_cuda = open_engine(real);
  EXPECT_NE(on_cuda, nullptr) << "the fake runtime's kernels are there";
  real.Send = nullptr;
  EXPECT_EQ(open_engine(real), nullptr);
  EXPECT_EQ(unsetenv("RINGPRESS_BACKEND"), 0);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
