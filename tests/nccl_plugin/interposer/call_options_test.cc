// What a program says of one call at door A: its codec, and the tensor that it is of.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringpress/ringpress.h"
#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer::call_options_test {
namespace {

constexpr std::size_t kCount = 40000;
constexpr int kOtherVendor = 77;

/// A configuration with some options.
class Asked {
 public:
  Asked& codec(const char* name) { return add(RINGPRESS_VENDOR_ID, RINGPRESS_OPTION_CODEC, name); }
  Asked& tensor(const char* name) {
    return add(RINGPRESS_VENDOR_ID, RINGPRESS_OPTION_TENSOR, name);
  }
  Asked& tag(std::uint64_t number) {
    config_.userProfilerTag = number;
    return *this;
  }
  Asked& add(int vendor, int id, const char* text) {
    ncclConfigExt_t option{};
    option.next = options_.empty() ? nullptr : options_.back().get();
    option.key = {vendor, id};
    option.val.s = text;
    options_.push_back(std::make_unique<ncclConfigExt_t>(option));
    config_.ext = options_.back().get();
    return *this;
  }
  ncclCollConfig_t& config() { return config_; }

 private:
  ncclCollConfig_t config_ = NCCL_COLLCONFIG_INITIALIZER;
  std::vector<std::unique_ptr<ncclConfigExt_t>> options_;
};

ncclResult_t all_reduce(Job& job, ncclComm_t comm, const std::vector<float>& send,
                        std::vector<float>& receive, const ncclCollConfig_t* config) {
  return job.engine.reduce_as_asked({CollectiveKind::kAllReduce, send.data(), receive.data(),
                                     send.size(), ncclFloat32, ncclSum, comm, nullptr},
                                    config);
}

double relative_error(const std::vector<double>& found, const std::vector<double>& exact) {
  double lost = 0, whole = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    lost += std::pow(found[i] - exact[i], 2);
    whole += exact[i] * exact[i];
  }
  return std::sqrt(lost / whole);
}

/// Of one call of two ranks.
double error_of(Job& job, ncclComm_t comm, int rank, const ncclCollConfig_t* config) {
  const std::vector<float> own = make_values(rank, kCount), other = make_values(1 - rank, kCount);
  std::vector<float> result(kCount);
  EXPECT_EQ(all_reduce(job, comm, own, result, config), ncclSuccess);
  std::vector<double> exact(kCount);
  for (std::size_t i = 0; i < kCount; ++i) exact[i] = double{own[i]} + double{other[i]};
  return relative_error({result.begin(), result.end()}, exact);
}

TEST(InterposerCallOptions, ACallHasTheCodecThatItAsksFor) {
  Job job(make_settings({{"RINGPRESS_EF", "0"}}));
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const double usual = error_of(job, comm, rank, nullptr);
    EXPECT_GT(usual, 0.05);
    EXPECT_EQ(error_of(job, comm, rank, &Asked().config()), error_of(job, comm, rank, nullptr));
    EXPECT_LT(error_of(job, comm, rank, &Asked().codec("q8").config()), 0.1 * usual);
    EXPECT_GT(error_of(job, comm, rank, &Asked().codec("q2").config()), 2 * usual);
    EXPECT_LT(error_of(job, comm, rank, &Asked().codec("exact").config()), 1e-6);
    EXPECT_GT(error_of(job, comm, rank, &Asked().add(kOtherVendor, 1, "x").config()), 0.05);
  });
}

TEST(InterposerCallOptions, GroupsKeepThem) {
  Job job;
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> own = make_values(rank, kCount), other = make_values(1 - rank, kCount);
    std::vector<std::vector<float>> results(3, std::vector<float>(kCount));
    EXPECT_EQ(job.engine.group_start(), ncclSuccess);
    const char* const codecs[] = {"q8", "q2", "exact"};
    for (std::size_t i = 0; i < 3; ++i) {
      // It ends before the group does.
      EXPECT_EQ(all_reduce(job, comm, own, results[i], &Asked().codec(codecs[i]).config()),
                ncclSuccess);
    }
    EXPECT_EQ(job.engine.group_end(), ncclSuccess);
    std::vector<double> exact(kCount);
    for (std::size_t i = 0; i < kCount; ++i) exact[i] = double{own[i]} + double{other[i]};
    const auto error = [&](std::size_t i) {
      return relative_error({results[i].begin(), results[i].end()}, exact);
    };
    EXPECT_LT(error(0), 0.03);
    EXPECT_GT(error(1), 0.2);
    EXPECT_LT(error(2), 1e-6);
  });
}

TEST(InterposerCallOptions, MistakesAreNamed) {
  Job job;
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const auto refusal = [&](Asked& asked) -> std::string {
      const std::vector<float> own = make_values(rank, kCount);
      std::vector<float> result(kCount);
      EXPECT_EQ(all_reduce(job, comm, own, result, &asked.config()), ncclInvalidArgument);
      return job.engine.last_error(comm);
    };
    EXPECT_NE(refusal(Asked().codec("q9")).find("q9"), std::string::npos);
    EXPECT_NE(refusal(Asked().codec("sign")).find("q2 to q8"), std::string::npos);
    EXPECT_NE(refusal(Asked().add(RINGPRESS_VENDOR_ID, 99, "x")).find("option 99"),
              std::string::npos);
    EXPECT_NE(refusal(Asked().codec("q4").codec("q8")).find("comes twice"), std::string::npos);
    // The communicator is as it was.
    EXPECT_GT(error_of(job, comm, rank, nullptr), 0.05);
  });
}

/// What the real library refuses is its own affair.
TEST(InterposerCallOptions, WhatIsNoConfigurationIsLeftToNccl) {
  Job job;
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> own = make_values(rank, kCount);
    std::vector<float> result(kCount);
    Asked asked;
    asked.codec("q8").config().magic = 1;
    EXPECT_EQ(all_reduce(job, comm, own, result, &asked.config()), ncclInvalidArgument);
    EXPECT_GT(error_of(job, comm, rank, nullptr), 0.05);
  });
}

/// The error of the mean over steps, of two tensors whose buffers are new each time and which come
/// in an order that changes.
double error_of_mean(Job& job, ncclComm_t comm, int rank, bool is_named) {
  constexpr std::size_t kSteps = 24;
  const char* const names[] = {"first", "second"};
  std::vector<std::vector<float>> kept;  // So that no address comes again.
  std::vector<std::vector<double>> sums(2, std::vector<double>(kCount)), exact = sums;
  for (std::size_t step = 0; step < kSteps; ++step) {
    for (std::size_t turn = 0; turn < 2; ++turn) {
      const std::size_t tensor = (step * step / 3 + turn) % 2;
      const auto salt = static_cast<unsigned>(tensor) + 1;
      kept.push_back(make_values(rank, kCount, salt));
      const std::vector<float> other = make_values(1 - rank, kCount, salt);
      std::vector<float> result(kCount);
      Asked asked;
      if (is_named) asked.tensor(names[tensor]);
      EXPECT_EQ(all_reduce(job, comm, kept.back(), result, &asked.config()), ncclSuccess);
      for (std::size_t i = 0; i < kCount; ++i) {
        sums[tensor][i] += double{result[i]};
        exact[tensor][i] += double{kept.back()[i]} + double{other[i]};
      }
    }
  }
  return std::max(relative_error(sums[0], exact[0]), relative_error(sums[1], exact[1]));
}

TEST(InterposerCallOptions, ATensorsNameFindsItsResidual) {
  Job job;
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const double unnamed = error_of_mean(job, comm, rank, false);
    const double named = error_of_mean(job, comm, rank, true);
    EXPECT_LT(named, 0.3 * unnamed);
  });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer::call_options_test
