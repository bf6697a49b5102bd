// The paper's experiment, small: what GADGET gains over the other policies, and by compression.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "perf/gadget/random_jobs.h"
#include "ringpress/internal/gadget.h"

namespace ringpress::gadget {
namespace {

// The shape of the paper's experiment, smaller: more jobs than GPUs.
class GadgetExperiment : public ::testing::TestWithParam<UtilityKind> {
 protected:
  perf::Experiment experiment() const {
    perf::Experiment experiment;
    experiment.servers = 15;
    experiment.slots = 40;
    experiment.most_workers = 16;
    experiment.iterations_scale = 0.1;
    experiment.utility = GetParam();
    return experiment;
  }
};

TEST_P(GadgetExperiment, GadgetGainsAsMuchAsTheOthersAndMoreUnderLoad) {
  double last_ratio = 0;
  for (const std::size_t jobs : {12, 24, 48}) {
    double gadget = 0;
    std::array<double, 3> others = {};
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const Cluster cluster = perf::paper_cluster(experiment(), seed);
      const std::vector<Job> drawn = perf::paper_jobs(experiment(), jobs, 100 + seed);
      const auto utility = [&](Policy policy) {
        return schedule(cluster, drawn, policy, experiment().slots).utility;
      };
      gadget += utility(Policy::kGadget);
      others[0] += utility(Policy::kFifo);
      others[1] += utility(Policy::kDrf);
      others[2] += utility(Policy::kLas);
    }
    const double ratio = gadget / *std::max_element(others.begin(), others.end());
    EXPECT_GE(ratio, 1 - 1e-3) << jobs;
    EXPECT_GE(ratio, last_ratio - 1e-3) << jobs;
    last_ratio = ratio;
  }
  EXPECT_GE(last_ratio, 1.02);
}

INSTANTIATE_TEST_SUITE_P(, GadgetExperiment,
                         ::testing::Values(UtilityKind::kSqrt, UtilityKind::kSigmoid));

TEST(GadgetCompression, CompressedJobsFindMorePlaces) {
  perf::Experiment narrow;
  narrow.servers = 15;
  narrow.slots = 40;
  narrow.most_workers = 16;
  narrow.iterations_scale = 0.1;
  narrow.utility = UtilityKind::kSqrt;
  narrow.gpus = 80;
  narrow.link_scale = 0.01;
  narrow.rack_gigabits = 200;
  narrow.may_resize = false;
  std::vector<double> shares;
  for (const double ratio : {1.0, 0.25, 0.125}) {
    narrow.ratio = ratio;
    double share = 0;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      share += schedule(perf::paper_cluster(narrow, seed), perf::paper_jobs(narrow, 24, 100 + seed),
                        Policy::kGadget, narrow.slots)
                   .embedded_share /
               4;
    }
    shares.push_back(share);
  }
  EXPECT_LT(shares[0], 0.99);
  EXPECT_GT(shares[1], shares[0]);
  EXPECT_GE(shares[2], shares[1]);
}

}  // namespace
}  // namespace ringpress::gadget
