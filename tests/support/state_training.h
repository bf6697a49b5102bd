// Trainings whose state is saved, loaded and inherited.
#ifndef TESTS_SUPPORT_STATE_TRAINING_H_
#define TESTS_SUPPORT_STATE_TRAINING_H_

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

inline constexpr int kMostRanks = 3;
inline constexpr int kMostSteps = 40;

/// What processes tell the test.
struct Told {
  std::array<std::array<std::uint64_t, kMostSteps>, kMostRanks> results{};
  std::array<std::array<std::uintptr_t, 8>, kMostRanks> addresses{};
  std::array<ringpressStateLoad_t, kMostRanks> loads{};
  std::array<std::uint64_t, kMostRanks> compressed{};
  std::array<std::uint64_t, kMostRanks> residual_bytes{};
  std::array<std::uint64_t, kMostRanks> calibration_bytes{};
  std::array<std::uint64_t, kMostRanks> has_trained{};  // By std::atomic_ref.
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

inline std::uint64_t hash_of(std::uint64_t hash, std::span<const float> values) {
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

inline void train_step(const Training& training, int step, int rank, ncclComm_t comm,
                       Buffers* buffers, Told* told) {
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

inline void train(const Training& training, const StateFolder& folder, const ncclUniqueId& id,
                  int rank, Told* told) {
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

inline void run(const Training& training, const StateFolder& folder, const SharedTold& told) {
  run_processes(training.ranks, [&](const ncclUniqueId& id, int rank) {
    train(training, folder, id, rank, &*told);
  });
}

/// That steps [from, end) came out the same, on all ranks.
inline void expect_same_steps(const Told& a, const Told& b, int ranks, int from, int end) {
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
inline void expect_goes_on(Training training, int saved_after, int steps) {
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

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_STATE_TRAINING_H_
