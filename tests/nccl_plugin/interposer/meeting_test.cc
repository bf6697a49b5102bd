// Where the ranks of door A meet before they trust the real NCCL to reach all of them.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ringpress/internal/communicator.h"
#include "tests/support/interposer_job.h"
#include "tests/support/meeting_port.h"
#include "tests/support/own_process.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

TEST(MeetingPlace, PortIsOpenOnlyWhileRanksMeet) {
  Job job;
  const ncclUniqueId id = job.make_id();
  EXPECT_EQ(connect_to(id), ECONNREFUSED) << "before";
  run_threads(2, [&](int rank) {
    // Rank 1 comes first and finds nobody.
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ncclComm_t comm = job.join(id, 2, rank);
    std::vector<float> values = make_values(rank, 5000);
    const int before = sends;
    ASSERT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
    EXPECT_GT(sends, before) << "they have not met";
    job.destroy(comm);
  });
  // The thread that served ends a little later than the ranks go on.
  EXPECT_TRUE(closes(id)) << "after";
}

/// Connections of this process while two ranks have a communicator, and once they have reduced and
/// exchanged something. `job`: with the engine.
std::vector<std::size_t> connections_of_ranks(Job* job) {
  constexpr std::size_t kCount = 50000;
  ncclUniqueId id{};
  if (job != nullptr) {
    id = job->make_id();
  } else {
    EXPECT_EQ(real_nccl.GetUniqueId(&id), ncclSuccess);
  }
  std::barrier together(2);
  std::vector<std::size_t> counts;
  run_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (job != nullptr) {
      comm = job->join(id, 2, rank);
    } else {
      EXPECT_EQ(real_nccl.CommInitRank(&comm, 2, id, rank), ncclSuccess);
    }
    std::vector<float> sent = make_values(rank, kCount), received(kCount);
    EXPECT_EQ(real_nccl.GroupStart(), ncclSuccess);
    EXPECT_EQ(real_nccl.Send(sent.data(), kCount, ncclFloat32, 1 - rank, comm, nullptr),
              ncclSuccess);
    EXPECT_EQ(real_nccl.Recv(received.data(), kCount, ncclFloat32, 1 - rank, comm, nullptr),
              ncclSuccess);
    EXPECT_EQ(real_nccl.GroupEnd(), ncclSuccess);
    for (int call = 0; call < 2; ++call) {
      const int before = sends;
      EXPECT_EQ(job != nullptr ? job->all_reduce(comm, sent, received)
                               : real_nccl.AllReduce(sent.data(), received.data(), kCount,
                                                     ncclFloat32, ncclSum, comm, nullptr),
                ncclSuccess);
      EXPECT_EQ(sends > before, job != nullptr) << "by the engine it is compressed";
      together.arrive_and_wait();
      if (rank == 0) {
        testing::wait_for_the_rendezvous();
        counts.push_back(testing::connected_sockets().size());
      }
      together.arrive_and_wait();
    }
    if (job != nullptr) return job->destroy(comm);
    EXPECT_EQ(real_nccl.CommDestroy(comm), ncclSuccess);
  });
  return counts;
}

// What is encrypted on NCCL's connections (ncclSetEncryption) is nowhere in clear text.
TEST(MeetingPlace, RanksThatHaveMetHaveNoConnectionsOfTheirOwn) {
  static_cast<void>(recording_nccl());
  const std::vector<std::size_t> without = connections_of_ranks(nullptr);
  Job job;
  EXPECT_EQ(connections_of_ranks(&job), without);
}

/// Engines of three processes; patience is short.
struct Processes {
  Settings settings = make_settings({{"RINGPRESS_TIMEOUT_MS", "1500"}});
  Job of_rank[3] = {Job(settings), Job(settings), Job(settings)};
};

bool is_compressed(Job& job, ncclComm_t comm, int rank) {
  const int before = sends;
  std::vector<float> values = make_values(rank, 5000);
  EXPECT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
  return sends > before;
}

/// A communicator of the first `size` ranks; those from `without` on have no engine. True if it is
/// compressed.
bool make_and_use(Processes& processes, const ncclUniqueId& id, int size, int without) {
  std::atomic<bool> any{false};
  run_threads(size, [&](int rank) {
    Job& job = processes.of_rank[rank];
    ncclComm_t comm = nullptr;
    if (rank < without) {
      comm = job.join(id, size, rank);
    } else {
      ASSERT_EQ(real_nccl.CommInitRank(&comm, size, id, rank), ncclSuccess);
    }
    if (is_compressed(job, comm, rank)) any = true;
    job.destroy(comm);
  });
  return any;
}

TEST(MeetingPlace, ARankThatDidNotComeIsWaitedForOnce) {
  Processes processes;
  Job& root = processes.of_rank[0];
  const ncclUniqueId first = root.make_id(), early = root.make_id();
  EXPECT_FALSE(make_and_use(processes, first, 3, 2));
  // An id that is made now says so: nobody has to meet.
  const ncclUniqueId later = root.make_id();
  EXPECT_FALSE(read_meeting_place(later));
  ASSERT_TRUE(read_refusal(later));
  EXPECT_NE(read_refusal(later)->find("rank 2 of 3 never came"), std::string::npos);
  EXPECT_FALSE(make_and_use(processes, later, 2, 2));
  // A rank that waited in vain tells one that did not.
  ncclUniqueId others = processes.of_rank[2].make_id();
  ASSERT_TRUE(read_meeting_place(others));
  ::testing::internal::CaptureStderr();
  run_threads(2, [&](int rank) {
    Job& job = processes.of_rank[rank == 0 ? 2 : 1];
    ncclComm_t comm = job.join(others, 2, rank);
    EXPECT_FALSE(is_compressed(job, comm, rank));
    job.destroy(comm);
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("Ranks that did not come earlier: rank 0 has none"), std::string::npos)
      << said;
  // All ranks of the one that was named before know it, and all of them came.
  EXPECT_TRUE(make_and_use(processes, early, 2, 2));
}

/// One rank makes two communicators in a group, the other one by one: it would have to meet for
/// the first while the first rank waits for it in the group.
TEST(MeetingPlace, CommunicatorsOfAGroupHereAndOneByOneThereAreWaitedForOnce) {
  Processes processes;
  const ncclUniqueId ids[2] = {processes.of_rank[0].make_id(), processes.of_rank[0].make_id()};
  std::barrier both(2);  // What the ranks send is counted together.
  ::testing::internal::CaptureStderr();
  run_threads(2, [&](int rank) {
    Job& job = processes.of_rank[rank];
    ncclComm_t comms[2] = {};
    if (rank == 0) {
      ASSERT_EQ(job.engine.group_start(), ncclSuccess);
    }
    for (int i = 0; i < 2; ++i) {
      job.engine.making().joining(ids[i]);
      ASSERT_EQ(job.engine.real().CommInitRank(&comms[i], 2, ids[i], rank), ncclSuccess);
      job.engine.making().made_rank(&comms[i], ids[i]);
    }
    if (rank == 0) {
      ASSERT_EQ(job.engine.group_end(), ncclSuccess);
    }
    both.arrive_and_wait();
    EXPECT_FALSE(is_compressed(job, comms[0], rank));
    both.arrive_and_wait();
    // For the second one both are there.
    std::vector<float> values(5000, 1.0F);
    EXPECT_EQ(job.all_reduce(comms[1], values, values), ncclSuccess);
    EXPECT_NEAR(values[0], 2, 0.01);
    for (const ncclComm_t comm : comms) job.destroy(comm);
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("rank 0 of 2 never came"), std::string::npos) << said;
  EXPECT_NE(said.find("some of them in one group"), std::string::npos) << said;
}

TEST(MeetingPlace, AnIdOfAProcessThatIsNoRankMeansPlainNccl) {
  Processes processes;
  Job launcher(processes.settings);
  EXPECT_FALSE(make_and_use(processes, launcher.make_id(), 2, 2));
  // It is not taken for a rank without ringpress.
  EXPECT_TRUE(make_and_use(processes, processes.of_rank[0].make_id(), 2, 2));
}

TEST(MeetingPlace, LeavesTheRealIdAlone) {
  ncclUniqueId id{};
  for (int i = 0; i < 48; ++i) id.internal[i] = static_cast<char>(i + 1);
  const ncclUniqueId before = id;
  EXPECT_FALSE(read_meeting_place(id));
  const UniqueId place = make_unique_id(make_settings()).value();
  ASSERT_TRUE(write_meeting_place(place, &id));
  EXPECT_EQ(std::memcmp(id.internal, before.internal, 56), 0);
  EXPECT_EQ(read_meeting_place(id), place);
}

TEST(MeetingPlace, IsNotWrittenWhereThereIsNoRoom) {
  const UniqueId place = make_unique_id(make_settings()).value();
  ncclUniqueId id{};
  id.internal[127] = 1;
  const ncclUniqueId before = id;
  EXPECT_FALSE(write_meeting_place(place, &id));
  EXPECT_EQ(std::memcmp(&id, &before, sizeof id), 0);
  UniqueId long_place = place;
  long_place[80] = std::byte{1};
  ncclUniqueId empty{};
  EXPECT_FALSE(write_meeting_place(long_place, &empty));
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
