// RINGPRESS_RULES at door A: codecs by size, names of communicators, ranks that differ.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/interposer_job.h"
#include "tests/support/rules_file.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

using ringpress::test::RulesFile;

/// As Job::join(), with the name that the program gives in its configuration.
ncclComm_t join_as(Job& job, const ncclUniqueId& id, int size, int rank, const char* name) {
  ncclComm_t comm = nullptr;
  job.engine.making().joining(id);
  EXPECT_EQ(job.engine.real().CommInitRank(&comm, size, id, rank), ncclSuccess);
  job.engine.making().made_rank(&comm, id, name);
  return comm;
}

/// The relative error of an all-reduce of two ranks; they have all the same.
double error_of(Job& job, ncclComm_t comm, int rank, std::size_t count) {
  const std::vector<float> own = make_values(rank, count), other = make_values(1 - rank, count);
  std::vector<float> result(count);
  EXPECT_EQ(job.all_reduce(comm, own, result), ncclSuccess);
  double lost = 0, whole = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double exact = double{own[i]} + double{other[i]};
    lost += std::pow(exact - double{result[i]}, 2);
    whole += exact * exact;
  }
  return std::sqrt(lost / whole);
}

TEST(InterposerRules, EachSizeGetsItsCodec) {
  const RulesFile file(
      "allreduce,0,7999,-1,-1,-1,-1,-1,-1,-1,none\n"
      "allreduce,8000,79999,-1,-1,-1,-1,-1,-1,-1,q8\n"
      "allreduce,80000,-1,-1,-1,-1,-1,2,-1,-1,q2\n");
  // Whatever calls would get without them.
  for (const char* const codec : {"q4", "none"}) {
    Job job(make_settings({{"RINGPRESS_RULES", file.path()}, {"RINGPRESS_CODEC", codec}}));
    run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
      EXPECT_LT(error_of(job, comm, rank, 1000), 1e-6);
      const double eight_bits = error_of(job, comm, rank, 10000);
      EXPECT_GT(eight_bits, 1e-3);
      EXPECT_LT(eight_bits, 0.02);
      EXPECT_GT(error_of(job, comm, rank, 30000), 0.2);
    });
  }
}

// What streams cannot do leaves the rule's calls exact, and no others.
TEST(InterposerRules, ACodecWithoutKernelsIsOfItsCallsAlone) {
  const RulesFile file(
      "allreduce,0,79999,-1,-1,-1,-1,-1,-1,-1,lossless\n"
      "allreduce,80000,-1,-1,-1,-1,-1,-1,-1,-1,q2\n");
  for (const char* const codec : {"q4", "lossless", "none"}) {
    Job job(make_settings({{"RINGPRESS_RULES", file.path()}, {"RINGPRESS_CODEC", codec}}));
    run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
      EXPECT_LT(error_of(job, comm, rank, 10000), 1e-6) << codec;
      EXPECT_GT(error_of(job, comm, rank, 30000), 0.2) << codec;
    });
  }
}

// In streams `topk` is what can be done there.
TEST(InterposerRules, CodecsTakeTheFormOfStreams) {
  const RulesFile file("allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,topk:density=0.1\n");
  Job job(make_settings({{"RINGPRESS_RULES", file.path()}, {"RINGPRESS_CODEC", "none"}}));
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    const double error = error_of(job, comm, rank, 20000);
    EXPECT_GT(error, 0.3);
    EXPECT_LT(error, 1);
  });
}

TEST(InterposerRules, ANameDenies) {
  const RulesFile file("*,0,-1,-1,-1,-1,-1,-1,-1,-1,none,tp*\n");
  Job job(make_settings({{"RINGPRESS_RULES", file.path()}}));
  struct Case {
    const char* name;
    bool is_exact;
  };
  for (const Case& c : {Case{"tp_3", true}, Case{"dp", false}, Case{nullptr, false}}) {
    const ncclUniqueId id = job.make_id();
    run_threads(2, [&](int rank) {
      const ncclComm_t comm = join_as(job, id, 2, rank, c.name);
      EXPECT_EQ(error_of(job, comm, rank, 10000) < 1e-6, c.is_exact);
      job.destroy(comm);
    });
  }
}

TEST(InterposerRules, RanksThatNameItDifferentlyAreLeftToNccl) {
  const RulesFile file("*,0,-1,-1,-1,-1,-1,-1,-1,-1,none,tp*\n");
  Job job(make_settings({{"RINGPRESS_RULES", file.path()}}));
  const ncclUniqueId id = job.make_id();
  run_threads(2, [&](int rank) {
    const ncclComm_t comm = join_as(job, id, 2, rank, rank == 0 ? "tp_3" : "dp");
    EXPECT_LT(error_of(job, comm, rank, 10000), 1e-6);
    job.destroy(comm);
  });
}

/// A child has its own name, or its parent's; one that its ranks call differently is left.
TEST(InterposerRules, ChildrenHaveNames) {
  const RulesFile file("*,0,-1,-1,-1,-1,-1,-1,-1,-1,none,tp*\n");
  Job job(make_settings({{"RINGPRESS_RULES", file.path()}}));
  struct Case {
    const char* names[2];
    bool is_exact;
  };
  for (const Case& c :
       {Case{{"dp", "dp"}, false}, Case{{nullptr, nullptr}, true}, Case{{"dp", "other"}, true}}) {
    const ncclUniqueId id = job.make_id();
    run_threads(2, [&](int rank) {
      const ncclComm_t parent = join_as(job, id, 2, rank, "tp_3");
      ncclComm_t child = nullptr;
      ASSERT_EQ(job.engine.making().expect_child(), ncclSuccess);
      ASSERT_EQ(job.engine.real().CommSplit(parent, 0, rank, &child, nullptr), ncclSuccess);
      job.engine.making().made_child(&child, parent, 0, c.names[rank]);
      EXPECT_EQ(error_of(job, child, rank, 10000) < 1e-6, c.is_exact);
      job.destroy(child);
      job.destroy(parent);
    });
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
