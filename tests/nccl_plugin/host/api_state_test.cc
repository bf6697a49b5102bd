// Checkpoints: processes train, save and end; others load, with their buffers elsewhere, and go on.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringpress/internal/hash.h"
#include "ringpress/ringpress.h"
#include "tests/support/nccl_processes.h"
#include "tests/support/nccl_ranks.h"
#include "tests/support/state_training.h"

namespace ringpress::testing {
namespace {

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
    // A rank that shrinks ends the last call of one that is still inside.
    std::atomic_ref((*told)->has_trained[static_cast<std::size_t>(rank)]) = 1;
    while (leaves && std::atomic_ref((*told)->has_trained[0]) == 0) std::this_thread::yield();
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

/// Rank 2 comes after six steps.
void train_and_grow(SharedTold* told) {
  const IdPipes grow_ids(3);
  run_processes(3, [&](const ncclUniqueId& id, int rank) {
    Training training;
    setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
    setenv("RINGPRESS_CODEC", "q4", 1);
    const bool is_old = rank < 2;
    ncclComm_t comm = nullptr, grown = nullptr;
    Buffers buffers(training);
    if (is_old) {
      ASSERT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
    }
    for (int step = 0; is_old && step < 6; ++step) {
      train_step(training, step, rank, comm, &buffers, &**told);
    }
    const ncclUniqueId grow_id = grow_ids.agree_on(rank, [&] {
      ncclUniqueId made{};
      EXPECT_NCCL_OK(ncclCommGetUniqueId(comm, &made));
      return made;
    });
    ASSERT_NCCL_OK(
        ncclCommGrow(comm, 3, rank == 1 ? nullptr : &grow_id, is_old ? -1 : rank, &grown, nullptr));
    for (int step = 6; step < 12; ++step) {
      train_step(training, step, rank, grown, &buffers, &**told);
      if (step > 6) continue;
      ringpressStatistics_t statistics{};
      statistics.size = sizeof statistics;
      ASSERT_EQ(ringpressGetStatistics(grown, &statistics), 0);
      (*told)->residual_bytes[static_cast<std::size_t>(rank)] = statistics.residual_bytes;
    }
    if (is_old) {
      EXPECT_NCCL_OK(ncclCommDestroy(comm));
    }
    EXPECT_NCCL_OK(ncclCommDestroy(grown));
  });
}

TEST(State, RanksThatAreJoinedKeepTheirResiduals) {
  constexpr std::uint64_t kBytes = 240000 * sizeof(float);
  SharedTold told;
  train_and_grow(&told);
  EXPECT_EQ(told->residual_bytes[0], kBytes);
  EXPECT_EQ(told->residual_bytes[1], kBytes);
  for (std::size_t step = 6; step < 12; ++step) {
    EXPECT_NE(told->results[0][step], 0U);
    EXPECT_EQ(told->results[0][step], told->results[1][step]) << step;
    EXPECT_EQ(told->results[0][step], told->results[2][step]) << step;
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
      {"RINGPRESS_CODEC", "auto"},
      {"RINGPRESS_CACHE", "off"},
      {"RINGPRESS_GRADIENTS", "all"},  // Their values are the same in each step.
      {"RINGPRESS_TUNING_TRIALS", "0"}};
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
  expect_refused(*after, 2, RINGPRESS_STATE_OTHER_STEP, 1, "another run or step");
}

/// Also where each of them came as far, with the same values.
TEST(State, FilesOfDifferentRunsAreRefused) {
  const StateFolder folder, other_folder;
  const SharedTold told, after;
  run(saving_job(), folder, told);
  run(saving_job(), other_folder, told);
  std::filesystem::copy(other_folder.of_rank(1), folder.of_rank(1),
                        std::filesystem::copy_options::overwrite_existing);
  run(loading_job(), folder, after);
  expect_refused(*after, 2, RINGPRESS_STATE_OTHER_STEP, 1, "another run or step");
}

/// A run that was loaded is another one than that which saved.
TEST(State, OfARunThatWasLoadedIsLoadedAgain) {
  const StateFolder folder;
  const SharedTold unbroken, told, after;
  Training training = saving_job();
  training.saves = false;
  training.end = 12;
  run(training, folder, unbroken);
  run(saving_job(), folder, told);
  training = loading_job();
  training.saves = true;
  training.end = 8;
  run(training, folder, told);
  EXPECT_EQ(told->loads[1].outcome, RINGPRESS_STATE_LOADED) << told->loads[1].reason;
  training.first = 8;
  training.end = 12;
  training.saves = false;
  run(training, folder, after);
  EXPECT_EQ(after->loads[1].outcome, RINGPRESS_STATE_LOADED) << after->loads[1].reason;
  expect_same_steps(*unbroken, *after, 2, 8, 12);
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
