// RINGPRESS_TRACE at door A: rank 0's all-reduces, compressed and exact ones, alone and in groups.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cuda_job.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

struct Traced {
  std::string sizes;  // In bytes, of the step's tensors.
  std::string text;
};

/// On host memory, or on the CUDA device with its stand-in runtime.
class InterposerTrace : public ::testing::TestWithParam<bool> {
 protected:
  static bool is_cuda() { return GetParam(); }
  static Traced trace(std::vector<std::pair<std::string, std::string>> settings, int steps,
                      std::size_t times = 1);
};

/// Trains for some steps with two ranks, on tensors of so many times the sizes below.
Traced InterposerTrace::trace(std::vector<std::pair<std::string, std::string>> settings, int steps,
                              std::size_t times) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringpress-door-a-trace-" + std::to_string(getpid()) + ".json");
  settings.emplace_back("RINGPRESS_TRACE", file.string());
  settings.emplace_back("RINGPRESS_MIN_BYTES", "4096");
  Job job(is_cuda() ? cuda_settings(settings) : make_settings(settings),
          is_cuda() ? nccl_in_streams() : recording_nccl());
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values(70000 * times, static_cast<float>(rank)), sums(values.size());
    const cudaStream_t stream = is_cuda() ? make_stream() : reinterpret_cast<cudaStream_t>(0x1000);
    const auto reduce = [&](std::size_t count, ncclDataType_t dtype) {
      EXPECT_EQ(job.engine.reduce({CollectiveKind::kAllReduce, values.data(), sums.data(),
                                   count * times, dtype, ncclSum, comm, stream}),
                ncclSuccess);
    };
    for (int step = 0; step < steps; ++step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      reduce(70000, ncclFloat32);
      reduce(20, ncclFloat32);
      job.engine.group_start();
      reduce(100, ncclFloat32);
      reduce(50, ncclInt32);
      job.engine.group_end();
      job.engine.group_start();
      reduce(30000, ncclFloat32);
      job.engine.group_end();
    }
    EXPECT_TRUE(!is_cuda() || cudaStreamDestroy(stream) == cudaSuccess);
  });
  Traced traced;
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  traced.text = text.str();
  const char* const begin = traced.text.c_str();
  for (std::size_t at = 0; (at = traced.text.find("\"bytes\": ", at)) != std::string::npos; ++at) {
    traced.sizes += std::to_string(std::atol(begin + at + 9)) + " ";
  }
  return traced;
}

/// Of so many times the sizes above. The largest step of a process is what is in its file, so each
/// case has a larger one than those before it.
std::string sizes(std::size_t times) {
  std::string text;
  for (const std::size_t bytes : {280000, 80, 400, 200, 120000}) {
    text += std::to_string(times * bytes) + " ";
  }
  return text;
}

TEST_P(InterposerTrace, HasCompressedAndExactCalls) {
  const std::size_t times = is_cuda() ? 2 : 1;
  const Traced traced = trace({}, 12, times);
  EXPECT_EQ(traced.sizes, sizes(times)) << traced.text;
  EXPECT_NE(traced.text.find("\"codec\": \"q4"), std::string::npos) << traced.text;
  // A device's time for codecs is part of the link's.
  EXPECT_EQ(traced.text.find("codec_gigabytes_per_second"), std::string::npos) << traced.text;
}

/// Nothing is changed, and a step is seen all the same; a larger one, as the largest of a process
/// is what is in the file.
TEST_P(InterposerTrace, OfWhatIsOnlyObserved) {
  const std::size_t times = is_cuda() ? 4 : 3;
  const Traced traced = trace({{"RINGPRESS", "observe"}}, 12, times);
  EXPECT_EQ(traced.sizes, sizes(times)) << traced.text;
  EXPECT_NE(traced.text.find("\"codec\": \"none\""), std::string::npos) << traced.text;
}

/// A program as it is, whatever the reason why nothing of it is compressed: an exact codec, or
/// ranks of one host.
TEST_P(InterposerTrace, OfCommunicatorsThatAreNeverCompressed) {
  const std::size_t times = is_cuda() ? 7 : 5;
  const Traced traced = trace({{"RINGPRESS_CODEC", "none"}}, 12, times);
  EXPECT_EQ(traced.sizes, sizes(times)) << traced.text;
  const Traced automatic =
      trace({{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_GRADIENTS", "all"}}, 12, times + 1);
  EXPECT_EQ(automatic.sizes, sizes(times + 1)) << automatic.text;
}

TEST_P(InterposerTrace, IsNotWrittenWithoutAStep) {
  EXPECT_EQ(trace({}, 3).text, "");
}

INSTANTIATE_TEST_SUITE_P(Places, InterposerTrace, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "Cuda" : "Host"; });

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
