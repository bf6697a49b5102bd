// Communicators that grow, and those that are suspended, of the real NCCL with the engine before
// it.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "nccl_plugin/interposer/meeting/meeting.h"
#include "tests/support/interposer_job.h"
#include "tests/support/rules_file.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kCount = 20000;

/// As the shim's ncclCommGetUniqueId().
ncclUniqueId make_grow_id(Job& job, ncclComm_t comm) {
  ncclUniqueId id{};
  EXPECT_EQ(job.engine.real().CommGetUniqueId(comm, &id), ncclSuccess);
  job.engine.making().grow_id_made(comm, &id);
  return id;
}

/// As the shim's ncclCommGrow(), on a rank that was there. `given`: by the program.
ncclComm_t grow(Job& job, ncclComm_t comm, int size, const std::optional<ncclUniqueId>& given) {
  ncclComm_t grown = nullptr;
  ncclUniqueId plain{};
  if (given) plain = without_place(*given);
  const auto id = job.engine.making().growing(comm, given ? &*given : nullptr);
  EXPECT_EQ(job.engine.real().CommGrow(comm, size, given ? &plain : nullptr, -1, &grown, nullptr),
            ncclSuccess);
  EXPECT_EQ(job.engine.making().made_grown(&grown, comm, id ? &*id : nullptr, nullptr),
            ncclSuccess);
  return grown;
}

/// On one that is new.
ncclComm_t join_grown(Job& job, const ncclUniqueId& id, int size, int rank) {
  ncclComm_t grown = nullptr;
  const ncclUniqueId plain = without_place(id);
  job.engine.making().joining(id);
  EXPECT_EQ(job.engine.real().CommGrow(nullptr, size, &plain, rank, &grown, nullptr), ncclSuccess);
  EXPECT_EQ(job.engine.making().made_rank(&grown, id), ncclSuccess);
  return grown;
}

/// As the shim's ncclCommShrink(), on the first two of three ranks.
ncclComm_t shrink_to_two(Job& job, ncclComm_t comm) {
  int excluded[] = {2};
  ncclComm_t left = nullptr;
  EXPECT_EQ(job.engine.real().CommShrink(comm, excluded, 1, &left, nullptr, 0), ncclSuccess);
  job.engine.making().made_shrunk(&left, comm);
  return left;
}

/// Whether a call of it is compressed; all ranks get the same sum.
bool is_compressed(Job& job, ncclComm_t comm, int rank, std::barrier<>& all) {
  all.arrive_and_wait();
  if (rank == 0) all_reduces = 0;
  all.arrive_and_wait();
  std::vector<float> values = make_values(rank, kCount), sums(kCount);
  EXPECT_EQ(job.all_reduce(comm, values, sums), ncclSuccess);
  all.arrive_and_wait();
  return all_reduces == 0;
}

/// One of two ranks that call their communicator so.
ncclComm_t join_named(Job& job, const ncclUniqueId& id, int rank, const char* name) {
  ncclComm_t comm = nullptr;
  job.engine.making().joining(id);
  EXPECT_EQ(job.engine.real().CommInitRank(&comm, 2, id, rank), ncclSuccess);
  EXPECT_EQ(job.engine.making().made_rank(&comm, id, name), ncclSuccess);
  return comm;
}

/// Two ranks, then four. The id is made on the rank `maker`, which passes it unless it `keeps_id`.
/// `name`: of the two's communicator.
void grow_from_two_to_four(Job& job, int maker, bool grown_is_compressed,
                           const char* name = nullptr, bool keeps_id = false) {
  const ncclUniqueId id = job.make_id();
  ncclUniqueId grow_id{};
  std::barrier has_id(4), two(2), four(4);
  run_threads(4, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (rank < 2) {
      comm = join_named(job, id, rank, name);
      EXPECT_EQ(is_compressed(job, comm, rank, two), grown_is_compressed);
      if (rank == maker) grow_id = make_grow_id(job, comm);
    }
    has_id.arrive_and_wait();
    std::optional<ncclUniqueId> own;
    if (rank == maker && !keeps_id) own = grow_id;
    const ncclComm_t grown = rank < 2 ? grow(job, comm, 4, own) : join_grown(job, grow_id, 4, rank);
    for (int call = 0; call < 3; ++call) {
      EXPECT_EQ(is_compressed(job, grown, rank, four), grown_is_compressed);
    }
    if (comm != nullptr) {
      EXPECT_EQ(is_compressed(job, comm, rank, two), grown_is_compressed);
      job.destroy(comm);
    }
    job.destroy(grown);
  });
}

TEST(InterposerGrow, ItsCallsAreCompressedAsBefore) {
  for (const int maker : {0, 1}) {
    Job job;
    grow_from_two_to_four(job, maker, true);
  }
}

/// NVIDIA's example passes no id on any rank that was there.
TEST(InterposerGrow, TheRankThatMadeTheIdNeedNotPassIt) {
  for (const int maker : {0, 1}) {
    Job job;
    grow_from_two_to_four(job, maker, true, nullptr, true);
  }
}

/// Each growth has an id of its own, and one that is used up leads nobody to a wrong place.
TEST(InterposerGrow, ACommunicatorGrowsTwice) {
  Job job;
  for (int time = 0; time < 2; ++time) grow_from_two_to_four(job, time, true, nullptr, time == 0);
}

/// Those that come do not know it.
TEST(InterposerGrow, TheNameOfTheParentIsNotAskedFor) {
  const test::RulesFile rules(
      "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,"
      "regBuff,codec,comm_match\n"
      "allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,q8,nobody\n");
  Job job(make_settings({{"RINGPRESS_RULES", rules.path()}}));
  grow_from_two_to_four(job, 0, true, "dp");
}

TEST(InterposerGrow, WhatWasPlainStaysPlain) {
  // An id that was made without the engine.
  Job job;
  ncclUniqueId id{};
  ASSERT_EQ(job.engine.real().GetUniqueId(&id), ncclSuccess);
  ncclUniqueId grow_id{};
  std::barrier has_id(3), three(3);
  run_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (rank < 2) comm = job.join(id, 2, rank);
    if (rank == 0) {
      grow_id = make_grow_id(job, comm);
      EXPECT_FALSE(read_meeting_place(grow_id).has_value());
      EXPECT_TRUE(read_refusal(grow_id).has_value());
    }
    has_id.arrive_and_wait();
    std::optional<ncclUniqueId> own;
    if (rank == 0) own = grow_id;
    const ncclComm_t grown = rank < 2 ? grow(job, comm, 3, own) : join_grown(job, grow_id, 3, rank);
    EXPECT_FALSE(is_compressed(job, grown, rank, three));
    if (comm != nullptr) job.destroy(comm);
    job.destroy(grown);
  });
}

TEST(InterposerGrow, ARankThatIsNewAndHasNoEngineLeavesItToAll) {
  Job job(make_settings({{"RINGPRESS_TIMEOUT_MS", "1000"}}));
  const ncclUniqueId id = job.make_id();
  ncclUniqueId grow_id{};
  std::barrier has_id(3), three(3);
  run_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr, grown = nullptr;
    if (rank < 2) comm = job.join(id, 2, rank);
    if (rank == 0) grow_id = make_grow_id(job, comm);
    has_id.arrive_and_wait();
    std::optional<ncclUniqueId> own;
    if (rank == 0) own = grow_id;
    if (rank < 2) {
      grown = grow(job, comm, 3, own);
    } else {
      const ncclUniqueId plain = without_place(grow_id);
      EXPECT_EQ(job.engine.real().CommGrow(nullptr, 3, &plain, 2, &grown, nullptr), ncclSuccess);
    }
    EXPECT_FALSE(is_compressed(job, grown, rank, three));
    if (comm != nullptr) job.destroy(comm);
    job.destroy(grown);
  });
}

/// Ranks that outlive one of them are compressed as before.
TEST(InterposerRevoke, WhatIsShrunkIsCompressedAsBefore) {
  Job job;
  const ncclUniqueId id = job.make_id();
  std::barrier three(3), two(2);
  run_threads(3, [&](int rank) {
    const ncclComm_t comm = job.join(id, 3, rank);
    EXPECT_TRUE(is_compressed(job, comm, rank, three));
    three.arrive_and_wait();
    job.engine.revoking(comm);
    EXPECT_EQ(job.engine.real().CommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclSuccess);
    std::vector<float> values(kCount, 1), sums(kCount);
    EXPECT_EQ(job.all_reduce(comm, values, sums), ncclInvalidUsage);
    ncclComm_t left = nullptr;
    if (rank < 2) {
      left = shrink_to_two(job, comm);
    }
    three.arrive_and_wait();
    job.destroy(comm);
    if (rank == 2) return;
    EXPECT_TRUE(is_compressed(job, left, rank, two));
    job.destroy(left);
  });
}

/// What is left out of such a gradient for long comes at once in the end: a tenth of the values is
/// sent, and all are alike.
struct OwedGradient {
  std::vector<float> values = std::vector<float>(kCount, 1), sums = std::vector<float>(kCount);

  /// The largest value that a call gives; all ranks get the same bytes.
  float reduce(Job& job, ncclComm_t comm, int rank, std::barrier<>& all) {
    static std::vector<float> of_first;
    EXPECT_EQ(job.all_reduce(comm, values, sums), ncclSuccess);
    if (rank == 0) of_first = sums;
    all.arrive_and_wait();
    EXPECT_EQ(std::memcmp(of_first.data(), sums.data(), kCount * sizeof(float)), 0);
    all.arrive_and_wait();
    return *std::max_element(sums.begin(), sums.end());
  }
};

/// Shrinks three ranks to two after so many calls. Gives the largest value of each of the next
/// ones.
std::vector<float> shrink_after(Job& job, int calls, int calls_after) {
  const ncclUniqueId id = job.make_id();
  std::barrier three(3), two(2);
  std::vector<float> largest;
  run_threads(3, [&](int rank) {
    const ncclComm_t comm = job.join(id, 3, rank);
    OwedGradient gradient;
    for (int call = 0; call < calls; ++call) gradient.reduce(job, comm, rank, three);
    three.arrive_and_wait();
    ncclComm_t left = nullptr;
    if (rank < 2) {
      left = shrink_to_two(job, comm);
      for (int call = 0; call < calls_after; ++call) {
        const float value = gradient.reduce(job, left, rank, two);
        if (rank == 0) largest.push_back(value);
      }
    }
    three.arrive_and_wait();
    job.destroy(comm);
    if (rank < 2) job.destroy(left);
  });
  return largest;
}

const std::vector<std::pair<std::string, std::string>> kOwing = {
    {"RINGPRESS_CODEC", "topk:density=0.1,select=chunk"}};

/// What two ranks owe of seven gradients is more than a gradient.
TEST(InterposerHeirs, RanksThatStayKeepTheirResiduals) {
  Job job(make_settings(kOwing));
  const std::vector<float> largest = shrink_after(job, 7, 3);
  for (const float value : largest) EXPECT_GE(value, 10);
}

/// Of new buffers it is not known what they owe.
TEST(InterposerHeirs, WhatIsOwedBelongsToItsTensor) {
  Job job(make_settings(kOwing));
  const ncclUniqueId id = job.make_id();
  std::barrier three(3), two(2);
  run_threads(3, [&](int rank) {
    const ncclComm_t comm = job.join(id, 3, rank);
    OwedGradient gradient, other;
    for (int call = 0; call < 7; ++call) gradient.reduce(job, comm, rank, three);
    ncclComm_t left = nullptr;
    if (rank < 2) {
      left = shrink_to_two(job, comm);
      EXPECT_LE(other.reduce(job, left, rank, two), 2);
    }
    three.arrive_and_wait();
    job.destroy(comm);
    if (rank < 2) job.destroy(left);
  });
}

/// The parent of ranks that were shrunk may go on: it begins anew, and so does a shrink of it.
TEST(InterposerHeirs, TheParentGoesOnWithoutResiduals) {
  Job job(make_settings(kOwing));
  const ncclUniqueId id = job.make_id();
  std::barrier three(3), two(2);
  run_threads(3, [&](int rank) {
    const ncclComm_t comm = job.join(id, 3, rank);
    OwedGradient gradient;
    for (int call = 0; call < 7; ++call) gradient.reduce(job, comm, rank, three);
    ncclComm_t left = nullptr;
    if (rank < 2) {
      left = shrink_to_two(job, comm);
      EXPECT_GE(gradient.reduce(job, left, rank, two), 10);
      job.destroy(left);
    }
    three.arrive_and_wait();
    gradient.reduce(job, comm, rank, three);
    three.arrive_and_wait();
    job.destroy(comm);
  });
}

/// Ranks that come have none of them.
TEST(InterposerHeirs, RanksThatAreJoinedKeepTheirResiduals) {
  Job job(make_settings(kOwing));
  const ncclUniqueId id = job.make_id();
  ncclUniqueId grow_id{};
  std::barrier has_id(3), two(2), three(3);
  run_threads(3, [&](int rank) {
    ncclComm_t comm = nullptr;
    OwedGradient gradient;
    if (rank < 2) {
      comm = job.join(id, 2, rank);
      for (int call = 0; call < 7; ++call) gradient.reduce(job, comm, rank, two);
    }
    if (rank == 0) grow_id = make_grow_id(job, comm);
    has_id.arrive_and_wait();
    std::optional<ncclUniqueId> own;
    if (rank == 0) own = grow_id;
    const ncclComm_t grown = rank < 2 ? grow(job, comm, 3, own) : join_grown(job, grow_id, 3, rank);
    for (int call = 0; call < 3; ++call) EXPECT_GE(gradient.reduce(job, grown, rank, three), 9);
    if (comm != nullptr) job.destroy(comm);
    job.destroy(grown);
  });
}

TEST(InterposerSuspend, ItsCallsAreTheRealLibrarys) {
  Job job;
  std::barrier two(2);
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    EXPECT_TRUE(is_compressed(job, comm, rank, two));
    two.arrive_and_wait();
    EXPECT_EQ(job.engine.real().CommSuspend(comm, NCCL_SUSPEND_MEM), ncclSuccess);
    job.engine.set_left_alone(comm, true);
    std::vector<float> values(kCount, 1), sums(kCount);
    EXPECT_EQ(job.all_reduce(comm, values, sums), ncclInvalidUsage);
    EXPECT_EQ(job.engine.real().CommResume(comm), ncclSuccess);
    job.engine.set_left_alone(comm, false);
    two.arrive_and_wait();
    EXPECT_TRUE(is_compressed(job, comm, rank, two));
  });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
