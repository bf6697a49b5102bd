// A training on host memory whose ranks are threads with real transports between them, and what of
// it can be seen: for tests that a setting changes something.
#ifndef TESTS_SUPPORT_SETTING_JOB_H_
#define TESTS_SUPPORT_SETTING_JOB_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringpress/internal/communicator.h"
#include "tests/support/random_tensor.h"

namespace ringpress::testing {

using SettingEnvironment = std::vector<std::pair<std::string, std::string>>;

struct SettingJob {
  int ranks = 2;
  std::function<int(int rank)> host_of;       // Not set: a host for each rank.
  std::vector<std::size_t> counts = {20000};  // Elements of the calls of a step.
  std::size_t steps = 1;
  std::chrono::milliseconds join_timeout{0};  // 0: that of the settings.
  SettingEnvironment environment;             // Of all ranks.
  SettingEnvironment of_rank_1;               // Of that one besides.
  /// Changes a call's values from what they are in each step.
  std::function<void(std::size_t call, std::size_t step, std::span<float> values)> change;
  std::function<void(int rank, std::span<float> values)> change_of_rank;  // At first.
  /// By rank 0, when it has joined, before its first call; when a call has failed;
  std::function<void()> before_calls;
  std::function<void()> at_failure;
  /// when one has been made; and when all have been, while all communicators are
  /// there.
  std::function<void()> after_call;
  std::function<void()> at_end;
  /// By the others, before their first call.
  std::function<void()> before_others_call;
};

/// What rank 0 saw, and every other one.
struct SettingReport {
  std::string failure;  // Of the first rank that had one: nothing else counts then.
  std::vector<std::vector<float>> results;  // Of all calls.
  Statistics statistics;
};

/// One rank of a job.
class SettingRank {
 public:
  SettingRank(const SettingJob& job, int rank) : job_(job), rank_(rank) {
    for (std::size_t call = 0; call < job.counts.size(); ++call) {
      own_.push_back(random_gradient(job.counts[call], call, rank));
      if (job.change_of_rank) job.change_of_rank(rank, own_.back());
    }
    values_ = own_;  // Stay where they are: what is kept of a tensor is known by its address, too.
  }

  SettingReport run(Communicator& communicator) {
    SettingReport report;
    if (rank_ == 0 && job_.before_calls) job_.before_calls();
    if (rank_ != 0 && job_.before_others_call) job_.before_others_call();
    for (std::size_t step = 0; step < job_.steps; ++step) {
      for (std::size_t call = 0; call < values_.size(); ++call) {
        std::copy(own_[call].begin(), own_[call].end(), values_[call].begin());
        if (job_.change) job_.change(call, step, values_[call]);
        std::vector<float> result(values_[call].size());
        const Status status = communicator.all_reduce(values_[call].data(), result.data(),
                                                      result.size(), DType::kFloat32, {});
        if (!status.is_ok()) {
          report.failure = status.message();
          if (rank_ == 0 && job_.at_failure) job_.at_failure();
          return report;
        }
        report.results.push_back(std::move(result));
        if (rank_ == 0 && job_.after_call) job_.after_call();
      }
    }
    return report;
  }

 private:
  const SettingJob& job_;
  const int rank_;
  std::vector<std::vector<float>> own_, values_;  // By call.
};

inline Settings setting_job_settings(const SettingJob& job, int rank) {
  std::map<std::string, std::string> all = {
      {"RINGPRESS_CACHE", "off"},
      {"RINGPRESS_SOCKET_IFNAME", "lo"},
      {"RINGPRESS_TIMEOUT_MS", "100000"},
      {"NCCL_HOSTID", "host" + std::to_string(job.host_of ? job.host_of(rank) : rank)},
  };
  for (const auto& [name, value] : job.environment) all[name] = value;
  if (rank == 1) {
    for (const auto& [name, value] : job.of_rank_1) all[name] = value;
  }
  return parse_settings({all.begin(), all.end()}, nullptr);
}

inline SettingReport run_setting_job(const SettingJob& job) {
  const Result<UniqueId> id = make_unique_id(setting_job_settings(job, 0));
  if (!id.is_ok()) return {id.status().message(), {}, {}};
  std::vector<SettingReport> reports(static_cast<std::size_t>(job.ranks));
  std::barrier<> end(job.ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < job.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      SettingReport& report = reports[static_cast<std::size_t>(rank)];
      const auto made = Communicator::create(id.value(), rank, job.ranks,
                                             setting_job_settings(job, rank), job.join_timeout);
      if (made.is_ok()) {
        report = SettingRank(job, rank).run(*made.value());
      } else {
        report.failure = made.status().message();
      }
      end.arrive_and_wait();
      if (rank == 0 && report.failure.empty() && job.at_end) job.at_end();
      if (made.is_ok()) report.statistics = made.value()->statistics();
      end.arrive_and_wait();
    });
  }
  threads.clear();
  for (SettingReport& report : reports) {
    if (!report.failure.empty()) return std::move(report);
    EXPECT_EQ(report.results, reports[0].results);
  }
  return std::move(reports[0]);
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_SETTING_JOB_H_
