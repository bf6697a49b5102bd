// Checkpoints: processes train, save and end; others load, with their buffers elsewhere, and go on.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/internal/hash.h"
#include "ringpress/ringpress.h"
#include "tests/support/nccl_processes.h"
#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

constexpr int kMostRanks = 3;
constexpr int kMostSteps = 40;

/// What processes tell the test.
struct Told {
  std::array<std::array<std::uint64_t, kMostSteps>, kMostRanks> results{};
  std::array<std::array<std::uintptr_t, 8>, kMostRanks> addresses{};
  std::array<ringpressStateLoad_t, kMostRanks> loads{};
  std::array<std::uint64_t, kMostRanks> compressed{};
  std::array<std::uint64_t, kMostRanks> residual_bytes{};
  std::array<std::uint64_t, kMostRanks> calibration_bytes{};
};

class SharedTold {
 public:
  SharedTold()
      : memory_(mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                     0)) {
    EXPECT_NE(memory_, MAP_FAILED);
    new (memory_) Told;
  }
  ~SharedTold() { munmap(memory_, sizeof(Told)); }
  SharedTold(const SharedTold&) = delete;
  SharedTold& operator=(const SharedTold&) = delete;

  Told& operator*() const { return *static_cast<Told*>(memory_); }
  Told* operator->() const { return static_cast<Told*>(memory_); }

 private:
  void* memory_;
};

class StateFolder {
 public:
  StateFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "state-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~StateFolder() { std::filesystem::remove_all(path_); }
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  std::string of_rank(int rank) const { return path_ / ("rank" + std::to_string(rank)); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

/// A job of some ranks and what its processes do.
struct Training {
  int ranks = 2;
  Environment environment;
  std::vector<std::size_t> counts = {40000, 70000, 40000, 90000};
  int first = 0;
  int end = 0;
  bool loads = false;
  bool saves = false;   // At the end.
  std::size_t pad = 0;  // Bytes before the first buffer.
  bool lean = false;    // Tensors differ in how large their gradients are.
};

/// Gradients that lean to one side, so that residuals matter.
float gradient(int step, int rank, std::size_t tensor, std::size_t i) {
  std::uint64_t hash = combine_hash(static_cast<std::uint64_t>(step * 16 + rank), tensor);
  hash = combine_hash(hash, i);
  return static_cast<float>(static_cast<double>(hash >> 11) * 0x1p-53 - 0.4) *
         (i % 97 == 0 ? 20.0F : 1.0F);
}

std::uint64_t hash_of(std::uint64_t hash, std::span<const float> values) {
  for (const float value : values) hash = combine_hash(hash, std::bit_cast<std::uint32_t>(value));
  return hash;
}

/// The buffers of a process: as long as each other process's, but elsewhere.
class Buffers {
 public:
  Buffers(const Training& training) : memory_(training.pad / sizeof(float) + 1) {
    for (const std::size_t count : training.counts) {
      offsets_.push_back(memory_.size());
      memory_.resize(memory_.size() + count + training.pad / sizeof(float));
    }
    for (std::size_t i = 0; i < offsets_.size(); ++i) counts_.push_back(training.counts[i]);
  }
  std::span<float> of(std::size_t tensor) {
    return std::span(memory_).subspan(offsets_[tensor], counts_[tensor]);
  }

 private:
  std::vector<float> memory_;
  std::vector<std::size_t> offsets_;
  std::vector<std::size_t> counts_;
};

void train_step(const Training& training, int step, int rank, ncclComm_t comm, Buffers* buffers,
                Told* told) {
  std::uint64_t& hash =
      told->results[static_cast<std::size_t>(rank)][static_cast<std::size_t>(step)];
  for (std::size_t tensor = 0; tensor < training.counts.size(); ++tensor) {
    const std::span<float> values = buffers->of(tensor);
    const float scale = training.lean && tensor > 1 ? 0.01F : 1.0F;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = scale * gradient(step, rank, tensor, i);
    }
    ASSERT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclAvg,
                                 comm, nullptr));
    hash = hash_of(hash, values);
  }
}

void train(const Training& training, const StateFolder& folder, const ncclUniqueId& id, int rank,
           Told* told) {
  const auto own = static_cast<std::size_t>(rank);
  setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
  for (const auto& [name, value] : training.environment) setenv(name.c_str(), value.c_str(), 1);
  ncclComm_t comm = nullptr;
  ASSERT_NCCL_OK(ncclCommInitRank(&comm, training.ranks, id, rank));
  Buffers buffers(training);
  for (std::size_t tensor = 0; tensor < training.counts.size(); ++tensor) {
    told->addresses[own][tensor] = reinterpret_cast<std::uintptr_t>(buffers.of(tensor).data());
  }
  if (training.loads) {
    told->loads[own].size = sizeof(ringpressStateLoad_t);
    ASSERT_NCCL_OK(from_int<ncclResult_t>(
        ringpressStateLoad(comm, folder.of_rank(rank).c_str(), &told->loads[own])));
  }
  for (int step = training.first; step < training.end; ++step) {
    train_step(training, step, rank, comm, &buffers, told);
  }
  if (training.saves) {
    ASSERT_NCCL_OK(from_int<ncclResult_t>(ringpressStateSave(comm, folder.of_rank(rank).c_str())));
  }
  ringpressStatistics_t statistics{};
  statistics.size = sizeof statistics;
  ASSERT_EQ(ringpressGetStatistics(comm, &statistics), 0);
  told->compressed[own] = statistics.compressed_calls;
  told->residual_bytes[own] = statistics.residual_bytes;
  told->calibration_bytes[own] = statistics.calibration_bytes;
  ASSERT_NCCL_OK(ncclCommDestroy(comm));
}

void run(const Training& training, const StateFolder& folder, const SharedTold& told) {
  run_processes(training.ranks, [&](const ncclUniqueId& id, int rank) {
    train(training, folder, id, rank, &*told);
  });
}

/// That steps [from, end) came out the same, on all ranks.
void expect_same_steps(const Told& a, const Told& b, int ranks, int from, int end) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (int step = from; step < end; ++step) {
      const auto r = static_cast<std::size_t>(rank);
      const auto s = static_cast<std::size_t>(step);
      EXPECT_NE(a.results[r][s], 0U);
      EXPECT_EQ(a.results[r][s], b.results[r][s]) << "step " << step << " of rank " << rank;
    }
  }
}

bool differs_somewhere(const Told& a, const Told& b, int from, int end) {
  for (int step = from; step < end; ++step) {
    const auto s = static_cast<std::size_t>(step);
    if (a.results[0][s] != b.results[0][s]) return true;
  }
  return false;
}

/// Trains without a break, then with one after `saved_after` steps.
void expect_goes_on(Training training, int saved_after, int steps) {
  const StateFolder folder;
  const SharedTold unbroken, before, after, without;
  training.end = steps;
  run(training, folder, unbroken);
  training.end = saved_after;
  training.saves = true;
  run(training, folder, before);
  expect_same_steps(*unbroken, *before, training.ranks, 0, saved_after);
  training.first = saved_after;
  training.end = steps;
  training.saves = false;
  training.pad = 4096 * 37;
  run(training, folder, without);
  training.loads = true;
  run(training, folder, after);
  EXPECT_EQ(after->loads[0].outcome, RINGPRESS_STATE_LOADED) << after->loads[0].reason;
  EXPECT_NE(before->addresses, after->addresses);
  EXPECT_GT(after->compressed[0], 0U);
  EXPECT_TRUE(differs_somewhere(*unbroken, *without, saved_after, steps))
      << "without the state it comes out the same: the test shows nothing";
  expect_same_steps(*unbroken, *after, training.ranks, saved_after, steps);
}

struct ResumedJob {
  const char* codec;
  int ranks;
};

class ResumedRun : public ::testing::TestWithParam<ResumedJob> {};

TEST_P(ResumedRun, IsTheUnbrokenOne) {
  Training training;
  training.ranks = GetParam().ranks;
  training.environment = {{"RINGPRESS_CODEC", GetParam().codec}};
  expect_goes_on(training, 6, 10);
}

INSTANTIATE_TEST_SUITE_P(State, ResumedRun,
                         ::testing::Values(ResumedJob{"q4", 2}, ResumedJob{"q4", 3},
                                           ResumedJob{"q2:round=stochastic", 2},
                                           ResumedJob{"topk:density=0.01", 3},
                                           ResumedJob{"powersgd:rank=2", 2},
                                           ResumedJob{"randk:density=0.05", 3}));

/// `leaves`: in another call, so that the ranks that stay have not made the same calls.
void train_and_shrink(bool leaves, SharedTold* told) {
  run_processes(3, [=](const ncclUniqueId& id, int rank) {
    Training training;
    setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
    setenv("RINGPRESS_CODEC", "q4", 1);
    ncclComm_t comm = nullptr, child = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 3, id, rank));
    Buffers buffers(training);
    for (int step = 0; step < 6; ++step) train_step(training, step, rank, comm, &buffers, &**told);
    if (leaves && rank == 0) {
      std::vector<float> values(50000, 1);
      EXPECT_NE(
          ncclBroadcast(values.data(), values.data(), values.size(), ncclFloat, 2, comm, nullptr),
          ncclSuccess);
    }
    if (rank == 2) _exit(0);
    int left = 2;
    ASSERT_NCCL_OK(ncclCommShrink(comm, &left, 1, &child, nullptr,
                                  leaves ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT));
    train_step(training, 6, rank, child, &buffers, &**told);
    ringpressStatistics_t statistics{};
    statistics.size = sizeof statistics;
    ASSERT_EQ(ringpressGetStatistics(child, &statistics), 0);
    (*told)->residual_bytes[static_cast<std::size_t>(rank)] = statistics.residual_bytes;
    for (int step = 7; step < 12; ++step) {
      train_step(training, step, rank, child, &buffers, &**told);
    }
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
    EXPECT_NCCL_OK(ncclCommDestroy(child));
  });
}

TEST(State, RanksThatStayKeepTheirResiduals) {
  constexpr std::uint64_t kBytes = 240000 * sizeof(float);
  for (const bool leaves : {false, true}) {
    SharedTold told;
    train_and_shrink(leaves, &told);
    EXPECT_EQ(told->residual_bytes[0], kBytes) << leaves;
    EXPECT_EQ(told->residual_bytes[1], kBytes) << leaves;
    for (std::size_t step = 6; step < 12; ++step) {
      EXPECT_NE(told->results[0][step], 0U);
      EXPECT_EQ(told->results[0][step], told->results[1][step]) << leaves << " " << step;
    }
  }
}

/// Levels that were found are those of the calls that follow.
TEST(State, KeepsLevels) {
  Training training;
  training.environment = {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_ADJUST_STEPS", "11"}};
  training.lean = true;
  expect_goes_on(training, 17, 22);
}

TEST(State, KeepsCoordinateScales) {
  Training training;
  training.ranks = 3;
  training.environment = {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_EF", "scales"}};
  expect_goes_on(training, 7, 12);
}

/// What automatic mode has measured is not measured again.
TEST(State, KeepsWhatIsTuned) {
  const StateFolder folder;
  const SharedTold before, after;
  Training training;
  training.environment = {
      {"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_CACHE", "off"}, {"RINGPRESS_TUNING_TRIALS", "0"}};
  training.end = 16;
  training.saves = true;
  run(training, folder, before);
  EXPECT_GT(before->calibration_bytes[0], 0U);
  training.saves = false;
  training.loads = true;
  training.first = 16;
  training.end = 20;
  run(training, folder, after);
  EXPECT_EQ(after->loads[0].outcome, RINGPRESS_STATE_LOADED) << after->loads[0].reason;
  EXPECT_EQ(after->calibration_bytes[0], 0U);
  EXPECT_EQ(after->results[0][19], after->results[1][19]);
}

/// What loading comes to, after something was done to the files of a job of `ranks`.
Told load_after(const Training& saving, const std::function<void(const StateFolder&)>& harm,
                const Training& loading) {
  const StateFolder folder;
  const SharedTold before, after;
  run(saving, folder, before);
  harm(folder);
  run(loading, folder, after);
  return *after;
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_all(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

Training saving_job() {
  Training training;
  training.environment = {{"RINGPRESS_CODEC", "q4"}};
  training.end = 4;
  training.saves = true;
  return training;
}
Training loading_job() {
  Training training = saving_job();
  training.saves = false;
  training.loads = true;
  training.first = 4;
  training.end = 6;
  return training;
}

/// Of all ranks alike; training goes on.
void expect_refused(const Told& told, int ranks, ringpressStateOutcome_t outcome, int rank,
                    const std::string& reason) {
  for (int own = 0; own < ranks; ++own) {
    const ringpressStateLoad_t& load = told.loads[static_cast<std::size_t>(own)];
    EXPECT_EQ(load.outcome, outcome) << load.reason;
    EXPECT_EQ(load.rank, rank);
    EXPECT_NE(std::string(load.reason).find(reason), std::string::npos) << load.reason;
    for (const std::size_t step : {4, 5}) {
      EXPECT_NE(told.results[static_cast<std::size_t>(own)][step], 0U);
      EXPECT_EQ(told.results[static_cast<std::size_t>(own)][step], told.results[0][step]);
    }
  }
}

TEST(State, OneRanksBadFileIsEveryRanks) {
  const auto harmed = [](const std::function<void(std::string*)>& change) {
    return load_after(
        saving_job(),
        [&](const StateFolder& folder) {
          std::string bytes = read_all(folder.of_rank(1));
          change(&bytes);
          write_all(folder.of_rank(1), bytes);
        },
        loading_job());
  };
  expect_refused(harmed([](std::string* bytes) { bytes->resize(bytes->size() / 2); }), 2,
                 RINGPRESS_STATE_CORRUPT, 1, "cut short");
  expect_refused(harmed([](std::string* bytes) { bytes->resize(5); }), 2, RINGPRESS_STATE_CORRUPT,
                 1, "cut short");
  expect_refused(harmed([](std::string* bytes) { (*bytes)[bytes->size() / 2] ^= 0x10; }), 2,
                 RINGPRESS_STATE_CORRUPT, 1, "was changed");
  expect_refused(harmed([](std::string* bytes) { (*bytes)[8] ^= 1; }), 2, RINGPRESS_STATE_CORRUPT,
                 1, "was changed");
  expect_refused(harmed([](std::string* bytes) { bytes->insert(0, "x"); }), 2,
                 RINGPRESS_STATE_CORRUPT, 1, "another kind");
  const auto missing = [](const StateFolder& folder) {
    std::filesystem::remove(folder.of_rank(1));
  };
  expect_refused(load_after(saving_job(), missing, loading_job()), 2, RINGPRESS_STATE_MISSING, 1,
                 "No such file");
  const auto made_folder = [](const StateFolder& folder) {
    std::filesystem::remove(folder.of_rank(0));
    std::filesystem::create_directory(folder.of_rank(0));
  };
  expect_refused(load_after(saving_job(), made_folder, loading_job()), 2,
                 RINGPRESS_STATE_UNREADABLE, 0, "no file");
}

TEST(State, AnotherJobsIsRefused) {
  const auto nothing = [](const StateFolder&) {};
  Training other = loading_job();
  other.environment = {{"RINGPRESS_CODEC", "q3"}};
  expect_refused(load_after(saving_job(), nothing, other), 2, RINGPRESS_STATE_OTHER_JOB, 0,
                 "RINGPRESS_CODEC=q4");
  const auto swapped = [](const StateFolder& folder) {
    std::filesystem::copy(folder.of_rank(0), folder.of_rank(1),
                          std::filesystem::copy_options::overwrite_existing);
  };
  expect_refused(load_after(saving_job(), swapped, loading_job()), 2, RINGPRESS_STATE_OTHER_JOB, 1,
                 "of rank 0");
  Training larger = loading_job();
  larger.ranks = 3;
  expect_refused(load_after(saving_job(), nothing, larger), 3, RINGPRESS_STATE_OTHER_SIZE, 0,
                 "of 2 ranks, and these are 3");
  Training many = saving_job();
  many.ranks = 3;
  expect_refused(load_after(many, nothing, loading_job()), 2, RINGPRESS_STATE_OTHER_SIZE, 0,
                 "of 3 ranks, and these are 2");
}

TEST(State, FilesOfDifferentStepsAreRefused) {
  const StateFolder folder, later_folder;
  const SharedTold told, after;
  Training saving = saving_job();
  run(saving, folder, told);
  saving.end = 5;
  run(saving, later_folder, told);
  std::filesystem::copy(later_folder.of_rank(1), folder.of_rank(1),
                        std::filesystem::copy_options::overwrite_existing);
  run(loading_job(), folder, after);
  expect_refused(*after, 2, RINGPRESS_STATE_OTHER_STEP, 1, "another step");
}

/// Residuals of other tensors are no use to anybody.
TEST(State, AProgramOfOtherCallsGoesOnAsIfNothingWasLoaded) {
  Training other = loading_job();
  other.counts = {30000, 50000, 20000};
  other.end = 12;
  const Told told = load_after(
      saving_job(), [](const StateFolder&) {}, other);
  EXPECT_EQ(told.loads[0].outcome, RINGPRESS_STATE_LOADED);
  EXPECT_EQ(told.residual_bytes[0], 100000 * sizeof(float));
}

TEST(State, SavingFailsWithAReason) {
  run_processes(1, [](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 1, id, rank));
    EXPECT_EQ(ringpressStateSave(comm, "/nowhere/state"), ncclSystemError);
    expect_last_error("/nowhere/state");
    EXPECT_EQ(ringpressStateSave(comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ringpressStateLoad(comm, nullptr, nullptr), ncclInvalidArgument);
    ringpressStateLoad_t load{};
    EXPECT_EQ(ringpressStateLoad(comm, "/nowhere/state", &load), ncclInvalidArgument);
    expect_last_error("load->size");
    EXPECT_EQ(ringpressStateLoad(comm, "/nowhere/state", nullptr), ncclSuccess);
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_EQ(ringpressStateSave(comm, "state"), ncclInvalidUsage);
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(ringpressStateSave(nullptr, "state"), ncclInvalidArgument);
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace ringpress::testing
