// Steps of a training whose coordinates have sizes of their own, on streams and on host memory.
#ifndef TESTS_SUPPORT_SCALED_STEPS_H_
#define TESTS_SUPPORT_SCALED_STEPS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "ringpress/internal/communicator.h"
#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {

struct ScaledSteps {
  int size = 2;  // Ranks.
  ncclRedOp_t op = ncclSum;
  int steps = 12;
  std::vector<std::size_t> counts = {20000, 33001, 20000};
  /// May change a rank's values before a call.
  std::function<void(int step, int rank, std::vector<float>&)> change = {};
};

using ScaledResults = std::vector<std::vector<float>>;

/// Each eighth coordinate is ten times as large as the others.
template <typename Reduce>
ScaledResults run_scaled_steps(const ScaledSteps& steps, int rank, Reduce&& reduce) {
  ScaledResults results;
  std::vector<std::vector<float>> buffers(steps.counts.size());
  for (int step = 0; step < steps.steps; ++step) {
    for (std::size_t tensor = 0; tensor < buffers.size(); ++tensor) {
      const unsigned salt = static_cast<unsigned>(step) * 100 + static_cast<unsigned>(tensor);
      std::vector<float> values = make_values(rank, steps.counts[tensor], salt);
      for (std::size_t i = 3; i < values.size(); i += 8) values[i] *= 10;
      if (steps.change) steps.change(step, rank, values);
      buffers[tensor].assign(values.begin(), values.end());
      results.emplace_back(values.size());
      reduce(buffers[tensor], results.back());
    }
  }
  return results;
}

inline bool are_same_bytes(const ScaledResults& a, const ScaledResults& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  });
}

/// By door C; of rank 0. Without a file of statistics but where that is asked for.
inline ScaledResults scaled_results_of_host(Settings settings, const ScaledSteps& steps,
                                            bool has_statistics = true) {
  if (!has_statistics) settings.statistics.clear();
  settings.backend = Backend::kHost;
  const UniqueId id = make_unique_id(settings).value();
  ScaledResults results;
  run_threads(steps.size, [&](int rank) {
    auto comm = Communicator::create(id, rank, steps.size, settings).value();
    ScaledResults own = run_scaled_steps(steps, rank, [&](const auto& send, auto& receive) {
      const auto op = static_cast<ReduceOp>(steps.op);
      EXPECT_TRUE(comm->all_reduce(send.data(), receive.data(), send.size(), DType::kFloat32,
                                   Reduction{op, 1, false})
                      .is_ok());
    });
    if (rank == 0) results = std::move(own);
  });
  return results;
}

/// A file of statistics that is gone at the end.
struct ScaledFile {
  ScaledFile() {
    static int number = 0;
    path = ::testing::TempDir() + "scaled_" + std::to_string(getpid()) + "_" +
           std::to_string(number++);
    unlink(path.c_str());
  }
  ~ScaledFile() { unlink(path.c_str()); }
  ScaledFile(const ScaledFile&) = delete;
  ScaledFile& operator=(const ScaledFile&) = delete;

  /// Of each rank.
  std::vector<int> scaled_calls() const {
    std::vector<int> found;
    std::ifstream file(path);
    const std::string key = "\"scaled_calls\": ";
    for (std::string line; std::getline(file, line);) {
      const std::size_t at = line.find(key);
      if (at != std::string::npos) found.push_back(std::atoi(line.c_str() + at + key.size()));
    }
    return found;
  }

  std::string path;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // TESTS_SUPPORT_SCALED_STEPS_H_
