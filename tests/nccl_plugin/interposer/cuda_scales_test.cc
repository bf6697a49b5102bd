// Coordinate scales in streams of CUDA's, whose runtime is a stand-in: kernels on fibers, in
// streams that run on their own.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/cuda_job.h"
#include "tests/support/scaled_steps.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

ScaledSteps small_steps() {
  ScaledSteps steps{2};
  steps.counts = {5000, 9001};
  return steps;
}

/// `refused`: the rank that gets no memory for what is new in the second step; -1: none.
ScaledResults run_on_cuda(const Settings& settings, int refused) {
  const ScaledSteps steps = small_steps();
  Job job(settings, nccl_in_streams());
  std::vector<ScaledResults> all(2);
  run_ranks(job, steps.size, [&](ncclComm_t comm, int rank) {
    int calls = 0;
    all[static_cast<std::size_t>(rank)] =
        run_scaled_steps(steps, rank, [&](const auto& send, auto& receive) {
          fakeRefuseDeviceMemory(rank == refused && ++calls > 3);
          ASSERT_EQ(job.all_reduce(comm, send, receive), ncclSuccess);
          fakeRefuseDeviceMemory(false);
        });
  });
  EXPECT_TRUE(are_same_bytes(all[0], all[1]));
  return all[0];
}

TEST(CudaScales, MakeTheHostsResults) {
  const int before = fakeAllocations();
  const ScaledFile file;
  const Settings settings =
      cuda_settings({{"RINGPRESS_EF", "scales"}, {"RINGPRESS_STATS", file.path}});
  EXPECT_TRUE(are_same_bytes(run_on_cuda(settings, -1),
                             scaled_results_of_host(settings, small_steps(), false)));
  EXPECT_EQ(fakeAllocations(), before) << "device memory that was not freed";
  // As far as the device had told; a call may be made long before the one before it is done.
  EXPECT_EQ(file.scaled_calls().size(), 2U);
}

/// It goes without scales, and so do all.
TEST(CudaScales, ARankWithoutMemoryKeepsAllFromThem) {
  const ScaledFile file;
  const Settings settings =
      cuda_settings({{"RINGPRESS_EF", "scales"}, {"RINGPRESS_STATS", file.path}});
  const ScaledResults results = run_on_cuda(settings, 1);
  EXPECT_FALSE(are_same_bytes(results, scaled_results_of_host(settings, small_steps(), false)));
  for (const int calls : file.scaled_calls()) EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
