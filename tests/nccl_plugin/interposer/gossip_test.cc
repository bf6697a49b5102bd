// Gossip over door A: the real library sends, models lie on its device. On a device that is host
// memory, and on the CUDA device over a stand-in for CUDA's runtime.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/gossip/gossip.h"
#include "nccl_plugin/gossip/stream_models.h"
#include "tests/support/cuda_job.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

using gossip::Gossip;
using gossip::GossipOptions;
using gossip::Peers;
using gossip::StepReport;
using gossip::Workers;

/// One worker's gossip and what it is made over.
struct Worker {
  std::unique_ptr<Workers> workers;
  std::unique_ptr<Gossip> gossip;
  cudaStream_t stream = nullptr;

  Status make(const GossipOptions& options, const std::vector<float>& model) {
    return workers->run(stream, [&](Peers& peers) -> Status {
      RINGPRESS_ASSIGN_OR_RETURN(
          gossip, Gossip::make(peers, workers->make_models(), options, model.data(), stream));
      return Status::ok();
    });
  }
  Result<StepReport> step(std::vector<float>& model) {
    StepReport report;
    RINGPRESS_RETURN_IF_ERROR(workers->run(stream, [&](Peers& peers) -> Status {
      RINGPRESS_ASSIGN_OR_RETURN(report, gossip->step(peers, model.data(), stream));
      return Status::ok();
    }));
    wait();
    return report;
  }
  Status flush(std::vector<float>& model) {
    const Status flushed = workers->run(
        stream, [&](Peers& peers) { return gossip->flush(peers, model.data(), stream); });
    wait();
    return flushed;
  }
  void wait() const {
    if (stream == nullptr) return;
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
};

/// By where models lie.
class InterposerGossip : public testing::TestWithParam<Backend> {
 protected:
  /// Runs body(worker, comm, rank) on ranks of one communicator.
  template <typename Body>
  void run_workers(int size, Body body) {
    const bool is_cuda = GetParam() == Backend::kCuda;
    Job job(is_cuda ? cuda_settings() : make_settings(),
            is_cuda ? nccl_in_streams() : recording_nccl());
    run_ranks(job, size, [&](ncclComm_t comm, int rank) {
      Worker worker;
      auto workers = job.engine.gossip_workers(comm);
      ASSERT_TRUE(workers.is_ok()) << workers.status().message();
      worker.workers = std::move(workers.value());
      if (is_cuda) worker.stream = make_stream();
      body(worker, job, comm, rank);
      worker.gossip.reset();
      if (!is_cuda) return;
      EXPECT_EQ(cudaStreamDestroy(worker.stream), cudaSuccess);
    });
  }
};

GossipOptions options_of(std::size_t count, const std::string& codec = "none") {
  GossipOptions options;
  options.count = count;
  options.codec = codec;
  return options;
}

TEST_P(InterposerGossip, TwoThatMeetTakeTheMean) {
  constexpr std::size_t kCount = 3001;
  constexpr int kSize = 4;
  std::vector<std::vector<float>> models(kSize);
  std::vector<int> partners(kSize);
  const int all_reduces_before = all_reduces;
  run_workers(kSize, [&](Worker& worker, Job&, ncclComm_t, int rank) {
    std::vector<float> model = make_values(rank, kCount);
    ASSERT_TRUE(worker.make(options_of(kCount), model).is_ok());
    const Result<StepReport> report = worker.step(model);
    ASSERT_TRUE(report.is_ok()) << report.status().message();
    EXPECT_TRUE(report.value().has_exchanged);
    EXPECT_EQ(report.value().change, 0);
    EXPECT_EQ(report.value().sent_bytes, Gossip::kHeaderBytes + kCount * sizeof(float));
    models[static_cast<std::size_t>(rank)] = model;
    partners[static_cast<std::size_t>(rank)] = report.value().peer;
    // What came out is what is compared with from then on.
    for (float& value : model) value *= 1.5F;
    EXPECT_NEAR(worker.step(model).value().change, 0.5, 1e-3);
  });
  EXPECT_EQ(all_reduces, all_reduces_before);
  for (int rank = 0; rank < kSize; ++rank) {
    const int partner = partners[static_cast<std::size_t>(rank)];
    const std::vector<float> a = make_values(rank, kCount), b = make_values(partner, kCount);
    const auto& model = models[static_cast<std::size_t>(rank)];
    EXPECT_EQ(model, models[static_cast<std::size_t>(partner)]) << rank;
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(model[i], 0.5F * a[i] + 0.5F * b[i]);
  }
}

/// What is sent is q8 of how far a model is from the base: the sum of both stays what it was.
TEST_P(InterposerGossip, ACodecSendsDifferencesAndLeavesTheMean) {
  constexpr std::size_t kCount = 5000;
  std::vector<std::vector<float>> models(2);
  run_workers(2, [&](Worker& worker, Job&, ncclComm_t, int rank) {
    std::vector<float> model = make_values(7, kCount);
    ASSERT_TRUE(worker.make(options_of(kCount, "q8"), model).is_ok());
    const std::vector<float> own = make_values(rank, kCount, 5);
    for (std::size_t i = 0; i < kCount; ++i) model[i] += 0.01F * own[i];
    const Result<StepReport> report = worker.step(model);
    ASSERT_TRUE(report.is_ok()) << report.status().message();
    EXPECT_LT(report.value().sent_bytes, kCount * sizeof(float) / 3);
    models[static_cast<std::size_t>(rank)] = model;
  });
  const std::vector<float> base = make_values(7, kCount);
  const std::vector<float> a = make_values(0, kCount, 5), b = make_values(1, kCount, 5);
  double error = 0, distance = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double before = 2.0 * base[i] + 0.01 * (a[i] + b[i]);
    ASSERT_NEAR(models[0][i] + models[1][i], before, 1e-5) << i;
    error += std::pow(models[0][i] - models[1][i], 2);
    distance += std::pow(0.01 * (a[i] - b[i]), 2);
  }
  EXPECT_LT(std::sqrt(error / distance), 0.05);
}

TEST_P(InterposerGossip, FlushIsTheMeanOfAll) {
  constexpr std::size_t kCount = 100;
  constexpr int kSize = 3;
  std::vector<std::vector<float>> models(kSize);
  run_workers(kSize, [&](Worker& worker, Job&, ncclComm_t, int rank) {
    std::vector<float> model(kCount, static_cast<float>(rank));
    GossipOptions options = options_of(kCount);
    options.rule.theta = 10;
    ASSERT_TRUE(worker.make(options, model).is_ok());
    EXPECT_FALSE(worker.step(model).value().has_exchanged);
    ASSERT_TRUE(worker.flush(model).is_ok());
    models[static_cast<std::size_t>(rank)] = model;
  });
  for (const auto& model : models) EXPECT_EQ(model, std::vector<float>(kCount, 1.0F));
}

TEST_P(InterposerGossip, AFlushIsWhatDifferencesAreTakenFrom) {
  constexpr std::size_t kCount = 5000;
  run_workers(2, [&](Worker& worker, Job&, ncclComm_t, int rank) {
    std::vector<float> model(kCount);
    ASSERT_TRUE(worker.make(options_of(kCount, "q8"), model).is_ok());
    std::fill(model.begin(), model.end(), rank == 0 ? 999.0F : 1001.0F);
    ASSERT_TRUE(worker.flush(model).is_ok());
    const std::vector<float> a = make_values(0, kCount), b = make_values(1, kCount);
    for (std::size_t i = 0; i < kCount; ++i) model[i] += 0.01F * (rank == 0 ? a[i] : b[i]);
    ASSERT_TRUE(worker.step(model).value().has_exchanged);
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(model[i], 1000 + 0.005 * (a[i] + b[i]), 1e-3) << i;
    }
  });
}

/// Whose sum is too large for the type, and which no third of is one.
TEST_P(InterposerGossip, FlushLeavesEqualModelsAsTheyAre) {
  run_workers(3, [&](Worker& worker, Job&, ncclComm_t, int) {
    std::vector<float> model = make_values(1, 1000);
    model[7] = 3e38F;
    const std::vector<float> kept = model;
    ASSERT_TRUE(worker.make(options_of(1000), model).is_ok());
    ASSERT_TRUE(worker.flush(model).is_ok());
    EXPECT_EQ(model, kept);
  });
}

/// Two of a communicator, which ranks call in another order: both that meet say so.
TEST_P(InterposerGossip, AnotherGossipOfTheCommunicatorIsFoundOut) {
  run_workers(2, [&](Worker& worker, Job&, ncclComm_t, int rank) {
    std::vector<float> model(64, 1.0F);
    ASSERT_TRUE(worker.make(options_of(64), model).is_ok());
    const std::unique_ptr<Gossip> first = std::move(worker.gossip);
    ASSERT_TRUE(worker.make(options_of(64), model).is_ok());
    Gossip& own = rank == 0 ? *first : *worker.gossip;
    const Status mixed = worker.workers->run(worker.stream, [&](Peers& peers) {
      return own.step(peers, model.data(), worker.stream).status();
    });
    EXPECT_EQ(mixed.code(), Code::kMismatch);
    EXPECT_NE(mixed.message().find("another gossip"), std::string::npos) << mixed.message();
  });
}

TEST_P(InterposerGossip, WhatIsNotFiniteIsNamedAndNotExchanged) {
  constexpr std::size_t kCount = 700;
  run_workers(2, [&](Worker& worker, Job&, ncclComm_t, int rank) {
    std::vector<float> model(kCount, 1.0F + static_cast<float>(rank));
    ASSERT_TRUE(worker.make(options_of(kCount), model).is_ok());
    if (rank == 1) model[600] = std::numeric_limits<float>::infinity();
    const Result<StepReport> report = worker.step(model);
    EXPECT_EQ(report.status().code(), Code::kInvalidArgument);
    EXPECT_NE(report.status().message().find("the model of rank 1 has inf at element 600"),
              std::string::npos)
        << report.status().message();
    EXPECT_EQ(model[0], 1.0F + static_cast<float>(rank));
    model[600] = 1.0F;
    EXPECT_TRUE(worker.step(model).value().has_exchanged);
    EXPECT_EQ(model[0], 1.5F);
  });
}

TEST_P(InterposerGossip, WhatACodecCannotEncodeStaysAsItIs) {
  constexpr std::size_t kCount = 2000;
  run_workers(2, [&](Worker& worker, Job&, ncclComm_t, int rank) {
    std::vector<float> model(kCount, 1.0F);
    model[1990] = -3e38F;
    ASSERT_TRUE(worker.make(options_of(kCount, "q8"), model).is_ok());
    std::fill(model.begin(), model.end(), rank == 0 ? 3.0F : 5.0F);
    model[1990] = rank == 0 ? 3e38F : -3e38F;  // As far from where it began as no float is.
    const float kept = model[1990];
    const Result<StepReport> report = worker.step(model);
    ASSERT_TRUE(report.is_ok()) << report.status().message();
    EXPECT_TRUE(report.value().is_partial);
    EXPECT_NEAR(model[5], 4.0F, 1e-2);
    EXPECT_EQ(model[1990], kept);
    for (const float value : model) ASSERT_TRUE(std::isfinite(value));
  });
}

/// An error of one rank alone is one of both that meet, at init of all.
TEST_P(InterposerGossip, AModelAtAnOddAddressIsRefused) {
  run_workers(2, [&](Worker& worker, Job&, ncclComm_t, int rank) {
    std::vector<float> model(65, 1.0F);
    ASSERT_TRUE(worker.make(options_of(64), model).is_ok());
    void* const address = reinterpret_cast<std::byte*>(model.data()) + (rank == 1 ? 2 : 0);
    const Status stepped = worker.workers->run(worker.stream, [&](Peers& peers) {
      return worker.gossip->step(peers, address, worker.stream).status();
    });
    EXPECT_EQ(stepped.code(), Code::kInvalidArgument);
    const char* const why = rank == 1 ? "not aligned to float32" : "rank 1 could not look at";
    EXPECT_NE(stepped.message().find(why), std::string::npos) << stepped.message();
    const Status flushed = worker.workers->run(worker.stream, [&](Peers& peers) {
      return worker.gossip->flush(peers, address, worker.stream);
    });
    EXPECT_EQ(flushed.code(), Code::kInvalidArgument);
    EXPECT_TRUE(worker.step(model).value().has_exchanged);
  });
}

TEST_P(InterposerGossip, OptionsThatDifferAreRefusedByAll) {
  run_workers(3, [&](Worker& worker, Job&, ncclComm_t, int rank) {
    const std::vector<float> model(64, 1.0F);
    GossipOptions options = options_of(64);
    options.rule.theta = rank == 2 ? 0.5 : 0.25;
    const Status made = worker.make(options, model);
    EXPECT_EQ(made.code(), Code::kMismatch);
    EXPECT_NE(made.message().find("theta: rank 0 has 0.25, rank 2 has 0.5"), std::string::npos)
        << made.message();
    // A codec that only some can use is one rank's error, and everybody hears of it.
    const Status unusable = worker.make(options_of(64, rank == 1 ? "lossless" : "none"), model);
    EXPECT_FALSE(unusable.is_ok());
  });
}

TEST_P(InterposerGossip, IsRefusedWithinAGroupAndAfterTheEnd) {
  run_workers(1, [&](Worker& worker, Job& job, ncclComm_t comm, int) {
    std::vector<float> model(64, 1.0F);
    ASSERT_TRUE(worker.make(options_of(64), model).is_ok());
    EXPECT_EQ(job.engine.group_start(), ncclSuccess);
    const Status grouped = worker.step(model).status();
    EXPECT_EQ(grouped.code(), Code::kInvalidUsage);
    EXPECT_NE(grouped.message().find("within a group"), std::string::npos);
    EXPECT_NE(std::string(job.engine.last_error(comm)).find("within a group"), std::string::npos);
    EXPECT_EQ(job.engine.group_end(), ncclSuccess);
    EXPECT_TRUE(worker.step(model).is_ok());
    const ncclComm_t other = job.join(job.make_id(), 1, 0);
    Worker brief;
    brief.workers = job.engine.gossip_workers(other).value();
    brief.stream = worker.stream;
    ASSERT_TRUE(brief.make(options_of(64), model).is_ok());
    job.destroy(other);
    EXPECT_EQ(brief.step(model).status().code(), Code::kInvalidArgument);
  });
}

INSTANTIATE_TEST_SUITE_P(Places, InterposerGossip, testing::Values(Backend::kHost, Backend::kCuda),
                         [](const auto& backend) {
                           return backend.param == Backend::kHost ? "Host" : "Cuda";
                         });

/// A kernel could not reach it, and would end all work on the device.
TEST(InterposerGossipCuda, MemoryThatIsNotTheDevicesIsRefused) {
  Job job(cuda_settings(), nccl_in_streams());
  run_ranks(job, 1, [&](ncclComm_t comm, int) {
    Worker worker;
    worker.workers = job.engine.gossip_workers(comm).value();
    worker.stream = make_stream();
    std::vector<float> model(64, 1.0F);
    const auto expect_refusal = [&](void (*say)(const void*), const std::string& text) {
      say(model.data());
      const Status made = worker.make(options_of(64), model);
      say(nullptr);
      EXPECT_EQ(made.code(), Code::kInvalidArgument);
      EXPECT_NE(made.message().find(text), std::string::npos) << made.message();
    };
    expect_refusal(fakeOrdinaryMemory, "ordinary host memory");
    expect_refusal(fakeMemoryOfAnother, "memory of device 1, not of the communicator's, 0");
    worker.gossip.reset();
    EXPECT_EQ(cudaStreamDestroy(worker.stream), cudaSuccess);
  });
}

/// The others hear of it.
TEST(InterposerGossipCuda, ARankWithoutMemoryKeepsNobodyWaiting) {
  Job job(cuda_settings(), nccl_in_streams());
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    Worker worker;
    worker.stream = make_stream();
    const std::vector<float> model(64, 1.0F);
    fakeRefuseDeviceMemory(rank == 1);
    auto workers = job.engine.gossip_workers(comm);
    ASSERT_TRUE(workers.is_ok()) << workers.status().message();
    worker.workers = std::move(workers.value());
    const Status made = worker.make(options_of(64), model);
    fakeRefuseDeviceMemory(false);
    EXPECT_FALSE(made.is_ok());
    if (rank == 0) {
      EXPECT_NE(made.message().find("rank 1 cannot take part"), std::string::npos)
          << made.message();
    }
    EXPECT_EQ(cudaStreamDestroy(worker.stream), cudaSuccess);
  });
}

/// Communicators are aborted while models are on their way: what lies where they would have come
/// is no model.
TEST(InterposerGossipCuda, NoMeanIsTakenOfWhatDidNotCome) {
  static Job* aborted = nullptr;
  static const ringpressRealNccl table = [] {
    ringpressRealNccl made = nccl_in_streams();
    made.Recv = [](void* data, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                   cudaStream_t stream) {
      if (count > 256) {
        aborted->engine.end(comm, Engine::Ending::kAbort, [] { return ncclSuccess; });
      }
      return nccl_in_streams().Recv(data, count, dtype, peer, comm, stream);
    };
    return made;
  }();
  Job job(cuda_settings(), table);
  aborted = &job;
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    Worker worker;
    worker.workers = job.engine.gossip_workers(comm).value();
    worker.stream = make_stream();
    std::vector<float> model(3000, static_cast<float>(rank));
    ASSERT_TRUE(worker.make(options_of(model.size()), model).is_ok());
    EXPECT_EQ(worker.step(model).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(model, std::vector<float>(3000, static_cast<float>(rank)));
    worker.gossip.reset();
    EXPECT_EQ(cudaStreamDestroy(worker.stream), cudaSuccess);
  });
}

/// Who is inside when a communicator ends is waited for, and nobody gets in after.
TEST(GossipComm, EndsWhenNobodyIsInside) {
  GossipComms comms;
  const auto handle = reinterpret_cast<ncclComm_t>(&comms);
  const std::shared_ptr<GossipComm> comm = comms.join(handle);
  EXPECT_EQ(comms.join(handle), comm);
  std::atomic<bool> has_left{false};
  auto use = std::make_unique<GossipComm::Use>(*comm);
  EXPECT_FALSE(use->is_refused());
  std::thread ending([&] {
    comms.end(handle);
    EXPECT_TRUE(has_left.load());
  });
  while (!comm->has_ended()) std::this_thread::yield();
  EXPECT_TRUE(GossipComm::Use(*comm).is_refused());
  has_left = true;
  use.reset();
  ending.join();
  EXPECT_NE(comms.join(handle), comm) << "another one may have its handle";
}

/// Whether to exchange is decided at each step: that cannot be replayed.
TEST(InterposerGossipCuda, ACapturedStreamIsRefused) {
  Job job(cuda_settings(), nccl_in_streams());
  run_ranks(job, 1, [&](ncclComm_t comm, int) {
    Worker worker;
    worker.workers = job.engine.gossip_workers(comm).value();
    worker.stream = make_stream();
    std::vector<float> model(64, 1.0F);
    const auto expect_refusal = [&](const std::function<Status()>& call) {
      EXPECT_EQ(cudaStreamBeginCapture(worker.stream, cudaStreamCaptureModeThreadLocal),
                cudaSuccess);
      const Status captured = call();
      cudaGraph_t graph = nullptr;
      EXPECT_EQ(cudaStreamEndCapture(worker.stream, &graph), cudaSuccess) << "it was spoilt";
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
      EXPECT_EQ(captured.code(), Code::kInvalidUsage);
      EXPECT_NE(captured.message().find("being captured"), std::string::npos) << captured.message();
    };
    expect_refusal([&] { return worker.make(options_of(64), model); });
    ASSERT_TRUE(worker.make(options_of(64), model).is_ok());
    expect_refusal([&] {
      return worker.workers->run(worker.stream, [&](Peers& peers) {
        return worker.gossip->step(peers, model.data(), worker.stream).status();
      });
    });
    EXPECT_TRUE(worker.step(model).is_ok());
    worker.gossip.reset();
    EXPECT_EQ(cudaStreamDestroy(worker.stream), cudaSuccess);
  });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
