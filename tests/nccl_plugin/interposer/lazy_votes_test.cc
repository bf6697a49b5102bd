// Votes of lazy calls that do not come, and streams and threads that wait for each other.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/interposer/devices.h"
#include "tests/support/cuda_job.h"
#include "tests/support/interposer_hosts.h"
#include "tests/support/noting_device.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kVotedValues = 2000;

/// Votes that never come, and ones of another call.
TEST(InterposerLazyVotes, EndTheCallWhereTheyDoNotCome) {
  struct Spoilt {
    std::uint64_t word;
    const char* error;
  };
  static std::atomic<std::uint64_t> spoilt{0};
  ringpressRealNccl real = recording_nccl();
  real.AllReduce = [](const void* send, void* receive, size_t count, ncclDataType_t dtype,
                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    const ncclResult_t result = counting_all_reduce(send, receive, count, dtype, op, comm, stream);
    const std::uint64_t word = spoilt;
    if (count == 1) std::memcpy(receive, &word, sizeof word);
    return result;
  };
  for (const Spoilt& one : {Spoilt{0, "votes on a call that may be put off have not come"},
                            Spoilt{std::uint64_t{7} << 32 | 1, "voted on different calls"},
                            Spoilt{std::uint64_t{1} << 32 | 9, "voted what there is not"}}) {
    spoilt = one.word;
    ::testing::internal::CaptureStderr();
    Job job(make_settings({{"RINGPRESS_LAZY", "3.9"}, {"RINGPRESS_TIMEOUT_MS", "700"}}), real);
    run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
      const std::vector<float> send = make_values(rank, kVotedValues);
      std::vector<float> receive(kVotedValues);
      EXPECT_NE(job.all_reduce(comm, send, receive), ncclSuccess);
      // Else the other rank may have ended the communicator before this one read its word.
      if (one.word != 0) return;
      EXPECT_EQ(job.engine.flush_lazy(comm).code(), Code::kInvalidUsage);
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find(one.error), std::string::npos) << log;
  }
}

/// The other rank never votes. Whoever waits for it does not wait any more once another thread ends
/// the communicator, or a call of it has failed there.
TEST(InterposerLazyVotes, AreNotAwaitedOnceTheCommunicatorIsGivenUp) {
  static std::atomic<bool> has_voted{false};
  ringpressRealNccl real = recording_nccl();
  real.AllReduce = [](const void*, void* receive, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                      cudaStream_t) {
    std::memset(receive, 0, sizeof(std::uint64_t));  // As before the largest vote is there.
    has_voted = true;
    return ncclSuccess;
  };
  const Settings settings =
      make_settings({{"RINGPRESS_LAZY", "3.9"}, {"RINGPRESS_TIMEOUT_MS", "60000"}});
  for (const bool is_abort : {false, true}) {
    has_voted = false;
    ::testing::internal::CaptureStderr();
    run_hosts(
        settings, {0, 1},
        [&](const std::shared_ptr<Comm>& comm, int rank) {
          if (rank == 1) return;
          const std::jthread other([&comm, is_abort] {
            while (!has_voted) std::this_thread::yield();
            if (is_abort) {
              comm->lifetime().retire();
            } else {
              comm->lifetime().give_up(ncclSystemError);
            }
          });
          const std::vector<float> send = make_values(rank, kVotedValues);
          std::vector<float> receive(kVotedValues);
          EXPECT_NE(all_reduce(comm, send, receive, ncclSum, real), ncclSuccess);
        },
        real);
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("the communicator was given up"), std::string::npos) << log;
    EXPECT_EQ(log.find("have not come"), std::string::npos) << log;
  }
}

/// What one rank gets that votes on a call, which the other never does.
ncclResult_t vote_alone(const Settings& settings, ringpressRealNccl real) {
  real.AllReduce = [](const void*, void* receive, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                      cudaStream_t) {
    std::memset(receive, 0, sizeof(std::uint64_t));
    return ncclSuccess;
  };
  std::atomic<ncclResult_t> result{ncclSuccess};
  const auto vote = [&](const std::shared_ptr<Comm>& comm, int rank) {
    if (rank == 1) return;
    const std::vector<float> send = make_values(rank, kVotedValues);
    std::vector<float> receive(kVotedValues);
    result = all_reduce(comm, send, receive, ncclSum, real);
  };
  run_hosts(settings, {0, 1}, vote, real);
  return result;
}

/// As after a fault in a kernel of the program, or where a peer has died: a thread that waited
/// until RINGPRESS_TIMEOUT_MS could not look for errors itself.
TEST(InterposerLazyVotes, AreNotAwaitedOnceTheDeviceOrTheRealLibraryHasFailed) {
  std::vector<std::pair<std::string, std::string>> settings = {{"RINGPRESS_LAZY", "3.9"},
                                                               {"RINGPRESS_TIMEOUT_MS", "60000"}};
  ringpressRealNccl real = recording_nccl();
  ::testing::internal::CaptureStderr();
  for (const ncclResult_t error : {ncclRemoteError, ncclUnhandledCudaError}) {
    real.CommGetAsyncError = error == ncclRemoteError ? [](ncclComm_t, ncclResult_t* asked) {
      *asked = ncclRemoteError;
      return ncclSuccess;
    } : [](ncclComm_t, ncclResult_t* asked) {
      *asked = ncclUnhandledCudaError;
      return ncclSuccess;
    };
    EXPECT_EQ(vote_alone(make_settings(settings), real), error);
  }
  fakeStateOfStreams(cudaErrorInvalidValue);
  EXPECT_EQ(vote_alone(cuda_settings(settings), nccl_in_streams()), ncclUnhandledCudaError);
  fakeStateOfStreams(cudaSuccess);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("CommGetAsyncError of the real NCCL answers 6"), std::string::npos) << log;
  EXPECT_NE(log.find("CommGetAsyncError of the real NCCL answers 1"), std::string::npos) << log;
  EXPECT_NE(log.find("CUDA: what was asked for in a stream"), std::string::npos) << log;
  EXPECT_EQ(log.find("have not come"), std::string::npos) << log;
}

/// A device that is busy, or does not say, has not failed.
TEST(InterposerDevice, TellsWhatHasFailed) {
  const auto device = make_device(Backend::kCuda, 0).value();
  for (const cudaError_t state :
       {cudaSuccess, cudaErrorNotReady, cudaErrorStreamCaptureImplicit, cudaErrorInvalidValue}) {
    fakeStateOfStreams(state);
    EXPECT_EQ(device->find_failure(nullptr).is_ok(), state != cudaErrorInvalidValue) << state;
  }
  fakeStateOfStreams(cudaSuccess);
}

/// Calls of a communicator in two streams in turn; the wait with a number is left out.
std::string race_of_lazy_calls(std::size_t forgotten_wait) {
  Notes kept;
  notes = &kept;
  NotingDevice device(forgotten_wait);
  device.does_copy = true;
  const Settings settings =
      make_settings({{"RINGPRESS_LAZY", "1000"}, {"RINGPRESS_LAZY_CALLS", "4"}});
  const auto lazy = StreamLazy::make(device, settings, 0, 2, {[] { return false; }},
                                     std::make_shared<CallSequence>())
                        .value();
  const Stream streams[] = {device.create_stream().value(), device.create_stream().value()};
  const ringpressRealNccl real = noting_nccl();
  std::vector<float> values(kVotedValues, 1.0F);
  const TensorCall tensor{CollectiveKind::kAllReduce, values.size(), DType::kFloat32,
                          ReduceOp::kSum, values.data()};
  std::size_t put_off = 0, sums = 0;
  for (int call = 0; call < 16; ++call) {
    EXPECT_TRUE(lazy->vote(tensor, values.data(), streams[call % 2]).is_ok());
    EXPECT_EQ(lazy->exchange(real, nullptr), ncclSuccess);
    const LazyCalls::Decision decision = lazy->decide(tensor, values.data()).value();
    put_off += decision.is_put_off ? 1 : 0;
    sums += decision.has_sum ? 1 : 0;
    values.assign(values.size(), 1.0F);
  }
  EXPECT_GT(put_off, 6u);
  EXPECT_GE(sums, 2u);
  return kept.race();
}

TEST(InterposerLazyOrder, StreamsWaitForEachOther) {
  EXPECT_EQ(race_of_lazy_calls(0), "");
  for (const std::size_t forgotten : {4u, 7u, 12u}) {
    EXPECT_NE(race_of_lazy_calls(forgotten), "") << forgotten;
  }
}

/// A gradient that is never there: what the thread waits for has an end.
TEST(InterposerLazyWait, EndsInTimeAndWhenGivenUp) {
  Notes kept;
  notes = &kept;
  NotingDevice device;  // Copies nothing.
  bool is_given_up = false;
  Watch watch{[&] { return is_given_up; }};
  watch.timeout = std::chrono::milliseconds(300);
  const auto sums = StreamSums::make(device, watch).value();
  ASSERT_TRUE(sums->enter(nullptr).is_ok());
  const std::vector<float> values(100, 1.0F);
  const GradientSpan gradient{values.data(), values.size(), DType::kFloat32};
  EXPECT_EQ(sums->measure(gradient, nullptr).status().code(), Code::kTimeout);
  is_given_up = true;
  EXPECT_EQ(sums->measure(gradient, nullptr).status().code(), Code::kAborted);
}

/// Whether that will ever be there is asked again and again.
TEST(InterposerLazyWait, GoesOnUntilSomethingHasFailed) {
  Notes kept;
  notes = &kept;
  NotingDevice device;
  int looks = 0;
  const Watch watch{[] { return false; },
                    [&](Stream) -> Status {
                      if (++looks < 3) return Status::ok();
                      return {Code::kPeerLost, "a peer has died"};
                    }};
  const auto sums = StreamSums::make(device, watch).value();
  ASSERT_TRUE(sums->enter(nullptr).is_ok());
  const std::vector<float> values(100, 1.0F);
  const GradientSpan gradient{values.data(), values.size(), DType::kFloat32};
  EXPECT_EQ(sums->measure(gradient, nullptr).status().code(), Code::kPeerLost);
  EXPECT_EQ(looks, 3);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
