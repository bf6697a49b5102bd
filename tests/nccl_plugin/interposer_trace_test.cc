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

#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

struct Traced {
  std::string sizes;  // In bytes, of the step's tensors.
  std::string text;
};

/// Trains for some steps with two ranks, on tensors of so many times the sizes below.
Traced trace(std::vector<std::pair<std::string, std::string>> settings, int steps,
             std::size_t times = 1) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("ringpress-door-a-trace-" + std::to_string(getpid()) + ".json");
  settings.emplace_back("RINGPRESS_TRACE", file.string());
  Job job(make_settings(settings));
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values(70000 * times, static_cast<float>(rank)), sums(values.size());
    const auto reduce = [&](std::size_t count, ncclDataType_t dtype) {
      const auto stream = reinterpret_cast<cudaStream_t>(0x1000);
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

TEST(InterposerTrace, HasCompressedAndExactCalls) {
  const Traced traced = trace({}, 12);
  EXPECT_EQ(traced.sizes, "280000 80 400 200 120000 ") << traced.text;
  EXPECT_NE(traced.text.find("\"codec\": \"q4"), std::string::npos) << traced.text;
  // A device's time for codecs is part of the link's.
  EXPECT_EQ(traced.text.find("codec_gigabytes_per_second"), std::string::npos) << traced.text;
}

/// Nothing is changed, and a step is seen all the same; a larger one, as the largest of a process
/// is what is in the file.
TEST(InterposerTrace, OfWhatIsOnlyObserved) {
  const Traced traced = trace({{"RINGPRESS", "observe"}}, 12, 2);
  EXPECT_EQ(traced.sizes, "560000 160 800 400 240000 ") << traced.text;
  EXPECT_NE(traced.text.find("\"codec\": \"none\""), std::string::npos) << traced.text;
}

TEST(InterposerTrace, IsNotWrittenWithoutAStep) {
  EXPECT_EQ(trace({}, 3).text, "");
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
