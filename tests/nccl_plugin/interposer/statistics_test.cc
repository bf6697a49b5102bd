// What door A writes to the file of RINGPRESS_STATS, and what it says to standard error.
#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/interposer_job.h"
#include "tests/support/rules_file.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

using ringpress::test::RulesFile;

constexpr std::size_t kValues = 5000;

/// A file that is gone at the end.
struct StatisticsFile {
  StatisticsFile()
      : path(::testing::TempDir() + "interposer_statistics_" + std::to_string(getpid())) {
    unlink(path.c_str());
  }
  ~StatisticsFile() { unlink(path.c_str()); }
  std::string read() const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  const std::string path;
};

Settings counting(const StatisticsFile& file,
                  std::vector<std::pair<std::string, std::string>> more = {}) {
  more.push_back({"RINGPRESS_STATS", file.path});
  return make_settings(more);
}

int times(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Two all-reduces of two ranks: of values, and of integers.
void reduce_twice(Job& job) {
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values = make_values(rank, kValues);
    ASSERT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
    ASSERT_EQ(job.engine.reduce({CollectiveKind::kAllReduce, values.data(), values.data(), kValues,
                                 ncclInt32, ncclSum, comm, nullptr}),
              ncclSuccess);
  });
}

std::string lines_of(const std::vector<std::pair<std::string, std::string>>& settings) {
  StatisticsFile file;
  Job job(counting(file, settings));
  reduce_twice(job);
  return file.read();
}

/// Its line is written when it is freed: a stream that only the abort frees would be waited for.
TEST(InterposerStatistics, ComeAfterTheRealLibraryHasEndedTheCommunicator) {
  StatisticsFile file;
  Job job(counting(file, {{"RINGPRESS_CODEC", "q4"}}));
  const ncclUniqueId id = job.make_id();
  std::barrier have_ended(2);
  run_threads(2, [&](int rank) {
    const ncclComm_t comm = job.join(id, 2, rank);
    std::vector<float> values = make_values(rank, kValues);
    EXPECT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
    have_ended.arrive_and_wait();  // An abort would end the other rank's call.
    const std::string own = "\"rank\": " + std::to_string(rank) + ",";
    EXPECT_EQ(job.engine.end(comm, Engine::Ending::kAbort,
                             [&] {
                               EXPECT_EQ(times(file.read(), own), 0) << file.read();
                               return job.engine.real().CommAbort(comm);
                             }),
              ncclSuccess);
    EXPECT_EQ(times(file.read(), own), 1) << file.read();
  });
}

/// What one of them waits for when it is freed may be what another one's abort ends.
TEST(InterposerStatistics, OfAGroupComeAfterAllItsCommunicatorsHaveEnded) {
  StatisticsFile file;
  Job job(counting(file, {{"RINGPRESS_CODEC", "q4"}}));
  const ncclUniqueId ids[] = {job.make_id(), job.make_id()};
  std::barrier joined(2);
  run_threads(2, [&](int rank) {
    const ncclComm_t comms[] = {job.join(ids[0], 2, rank), job.join(ids[1], 2, rank)};
    joined.arrive_and_wait();  // An abort would end the other rank's joining.
    const std::string own = "\"rank\": " + std::to_string(rank) + ",";
    ASSERT_EQ(job.engine.group_start(), ncclSuccess);
    for (const ncclComm_t comm : comms) {
      EXPECT_EQ(job.engine.end(comm, Engine::Ending::kAbort,
                               [&] { return job.engine.real().CommAbort(comm); }),
                ncclSuccess);
      EXPECT_EQ(times(file.read(), own), 0) << file.read();
    }
    EXPECT_EQ(job.engine.group_end(), ncclSuccess);
    EXPECT_EQ(times(file.read(), own), 2) << file.read();
  });
}

TEST(InterposerStatistics, CountWhatIsLeftExactAndWhy) {
  struct Tried {
    const char* name;
    const char* value;
    const char* reason;
  };
  for (const Tried& tried : {Tried{"RINGPRESS_CODEC", "none", "\"RINGPRESS_CODEC=none\": 1"},
                             Tried{"RINGPRESS_CODEC", "auto", "\"all ranks share one host\": 1"},
                             Tried{"RINGPRESS_CODEC", "q4", "\"int32 is always exact\": 1"}}) {
    const std::string lines = lines_of({{tried.name, tried.value}});
    EXPECT_EQ(times(lines, "\"calls\": 2,"), 2) << lines;
    EXPECT_EQ(times(lines, tried.reason), 2) << lines;
  }
}

// Of every codec and type: a call is compressed, or there are words for why it is not.
TEST(InterposerStatistics, GiveEachExactCallAReason) {
  for (const char* const codec : {"bf16", "fp16", "q4", "none", "topk", "randk", "fp8"}) {
    StatisticsFile file;
    Job job(counting(file, {{"RINGPRESS_CODEC", codec}}));
    run_ranks(job, 2, [&](ncclComm_t comm, int) {
      std::vector<float> values(kValues);
      for (const ncclDataType_t dtype : {ncclFloat32, ncclFloat16, ncclBfloat16, ncclInt32}) {
        for (const ncclRedOp_t op : {ncclSum, ncclAvg, ncclMax}) {
          ASSERT_EQ(job.engine.reduce({CollectiveKind::kAllReduce, values.data(), values.data(),
                                       kValues, dtype, op, comm, nullptr}),
                    ncclSuccess);
        }
      }
    });
    const std::string lines = file.read();
    EXPECT_EQ(times(lines, "\"calls\": 12,"), 2) << codec << ": " << lines;
    EXPECT_EQ(times(lines, "\"\": "), 0) << codec << ": " << lines;
    if (std::string(codec).ends_with("16")) {
      for (const char* const type : {"float16", "bfloat16"}) {
        const std::string reason = std::string(codec) + " makes " + type + " no smaller\": 2";
        EXPECT_EQ(times(lines, reason), 2) << lines;
      }
    }
  }
}

TEST(InterposerStatistics, CountCallsOfCommunicatorsThatAreLeft) {
  const std::string codec = lines_of({{"RINGPRESS_CODEC", "topk:select=tensor"}});
  EXPECT_EQ(times(codec, "\"calls\": 2,"), 2) << codec;
  EXPECT_EQ(times(codec, "cannot be used in a stream\": 2}"), 2) << codec;
  EXPECT_EQ(times(codec, "\"rank\": 1, \"ranks\": 2,"), 1) << codec;
  // Nothing can be compressed in these processes.
  const std::string mode = lines_of({{"RINGPRESS", "perhaps"}});
  EXPECT_EQ(times(mode, "\"calls\": 2,"), 2) << mode;
  EXPECT_EQ(times(mode, "RINGPRESS=perhaps"), 4) << mode;
}

TEST(InterposerStatistics, CountSplitsOfCommunicatorsThatAreLeft) {
  StatisticsFile file;
  Job job(counting(file, {{"RINGPRESS_CODEC", "topk:select=tensor"}}));
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    ncclComm_t child = nullptr;
    ASSERT_EQ(job.engine.real().CommSplit(comm, 0, rank, &child, nullptr), ncclSuccess);
    job.engine.making().made_child(&child, comm, 0);
    std::vector<float> values = make_values(rank, kValues);
    ASSERT_EQ(job.all_reduce(child, values, values), ncclSuccess);
    job.destroy(child);
  });
  const std::string lines = file.read();
  EXPECT_EQ(times(lines, "\"calls\": 1,"), 2) << lines;
  EXPECT_EQ(times(lines, "\"calls\": 0,"), 2) << lines;
}

/// As with NCCL_COMM_BLOCKING=0, of which a configuration says nothing.
TEST(InterposerStatistics, CountThoseThatTheEndOfAGroupLeavesInProgress) {
  StatisticsFile file;
  ringpressRealNccl slow = recording_nccl();
  slow.GroupEnd = [] {
    const ncclResult_t result = recording_nccl().GroupEnd();
    return result == ncclSuccess ? ncclInProgress : result;
  };
  Job job(counting(file), slow);
  const ncclUniqueId id = job.make_id();
  run_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(job.engine.group_start(), ncclSuccess);
    job.engine.making().joining(id);
    ASSERT_EQ(recording_nccl().CommInitRank(&comm, 2, id, rank), ncclSuccess);
    job.engine.making().made_rank(&comm, id);
    ASSERT_EQ(job.engine.group_end(), ncclInProgress);
    std::vector<float> values = make_values(rank, kValues);
    ASSERT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
    job.destroy(comm);
  });
  const std::string lines = file.read();
  EXPECT_EQ(times(lines, "\"nonblocking communicators are not compressed\": 1"), 2) << lines;
}

TEST(InterposerStatistics, HoldNoFigureThatWasNotMeasured) {
  const std::string compressed = lines_of({});
  EXPECT_EQ(times(compressed, "\"compressed_calls\": 1,"), 2) << compressed;
  EXPECT_EQ(times(compressed, "\"host_nanoseconds\": "), 2) << compressed;
  EXPECT_EQ(times(compressed, "host_nanoseconds\": 0,"), 0) << compressed;
  EXPECT_EQ(times(compressed, "\"longest_wait_nanoseconds\": "), 2) << compressed;
  EXPECT_EQ(times(compressed, "\"nanoseconds\""), 0) << "not the time until the result is there";
  const std::string observed = lines_of({{"RINGPRESS", "observe"}});
  EXPECT_EQ(times(observed, "\"observed_calls\": 1,"), 2) << observed;
  // Each of two ranks would send as many bytes as there are.
  const std::string bytes = std::to_string(kValues * sizeof(float));
  EXPECT_EQ(times(observed, "\"observed_raw_bytes\": " + bytes + ","), 2) << observed;
}

// It is what the engine would do.
TEST(InterposerStatistics, ObserveDoesNotPromiseWhatStreamsDoNot) {
  const RulesFile rules(
      "*,0,-1,-1,-1,-1,-1,-1,-1,-1,lossless,-1,float32\n"
      "*,0,-1,-1,-1,-1,-1,-1,-1,-1,fp16,-1,float16\n");
  const auto both = [&](const char* mode) {
    StatisticsFile file;
    Job job(counting(file, {{"RINGPRESS", mode}, {"RINGPRESS_RULES", rules.path()}}));
    run_ranks(job, 2, [&](ncclComm_t comm, int) {
      std::vector<float> values(kValues);
      for (const ncclDataType_t dtype : {ncclFloat32, ncclFloat16, ncclBfloat16}) {
        ASSERT_EQ(job.engine.reduce({CollectiveKind::kAllReduce, values.data(), values.data(),
                                     kValues, dtype, ncclSum, comm, nullptr}),
                  ncclSuccess);
      }
    });
    return file.read();
  };
  for (const char* const mode : {"on", "observe"}) {
    const std::string lines = both(mode);
    EXPECT_EQ(times(lines, "\"lossless cannot be used in streams\": 1"), 2) << lines;
    EXPECT_EQ(times(lines, "\"fp16 makes float16 no smaller\": 1"), 2) << lines;
    // bfloat16 has q4.
    const bool is_on = std::string(mode) == "on";
    EXPECT_EQ(times(lines, "\"compressed_calls\": 1,"), is_on ? 2 : 0) << lines;
    EXPECT_EQ(times(lines, "\"observed_calls\": 1,"), is_on ? 0 : 2) << lines;
  }
}

TEST(InterposerWarnings, ComeOncePerProcess) {
  ::testing::internal::CaptureStderr();
  Job job(make_settings({{"RINGPRESS_CODEC", "nonesuch"}}));
  reduce_twice(job);
  reduce_twice(job);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(times(said, "unknown codec"), 1) << said;
}

TEST(InterposerWarnings, AFileThatCannotBeWrittenIsNamedOnce) {
  ::testing::internal::CaptureStderr();
  Job job(make_settings({{"RINGPRESS_STATS", "/dev/null/statistics"}}));
  reduce_twice(job);
  reduce_twice(job);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(times(said, "/dev/null/statistics"), 1) << said;
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
