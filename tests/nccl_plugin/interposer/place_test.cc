// Meeting places to which not all ranks come, or nobody, and what is said of them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "nccl_plugin/errors/descriptors.h"
#include "tests/support/interposer_job.h"
#include "tests/support/meeting_port.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// What the real library answers, and the functions of this process's engine, as the shim has them.
ncclResult_t answer = ncclSuccess;
ncclResult_t end_answer = ncclSuccess;

const ringpressEngine& open_engine_on_answers() {
  static ringpressEngine functions;
  static const int result = [] {
    functions.size = sizeof functions;
    functions.version = RINGPRESS_ENGINE_VERSION;
    setenv("RINGPRESS_SOCKET_IFNAME", "lo", 1);
    setenv("RINGPRESS_BACKEND", "host", 1);
    ringpressRealNccl nccl = recording_nccl();
    nccl.CommInitRank = [](ncclComm_t*, int, ncclUniqueId, int) { return answer; };
    nccl.CommInitRankConfig = [](ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*) {
      return answer;
    };
    nccl.GroupStart = [] { return ncclSuccess; };
    nccl.GroupEnd = [] { return end_answer; };
    nccl.GroupSimulateEnd = [](ncclSimInfo_t*) { return ncclSuccess; };
    return ringpressOpenEngine(&nccl, &functions);
  }();
  EXPECT_EQ(result, 0);
  return functions;
}

ncclUniqueId make_id(const ringpressEngine& engine) {
  ncclUniqueId id{};
  EXPECT_EQ(engine.GetUniqueId(&id), ncclSuccess);
  EXPECT_TRUE(read_meeting_place(id));
  return id;
}

/// While it lives, so many files can be opened and no more.
class FewDescriptors {
 public:
  explicit FewDescriptors(std::size_t left) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit few = before_;
    few.rlim_cur = count_descriptors().open + left;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(MeetingPlace, LeavesTheLastOpenFilesToTheRealLibrary) {
  Job job;
  {
    const FewDescriptors few(160);  // The recording library opens some of them.
    EXPECT_TRUE(read_meeting_place(job.make_id()));
  }
  const FewDescriptors few(64);
  const ncclUniqueId id = job.make_id();
  EXPECT_FALSE(read_meeting_place(id));
  EXPECT_EQ(why_no_place(id),
            "the process that made its id says: fewer than 128 open files are left (ulimit -n)");
}

// All at once: each is open for some seconds, so that others hear why.
TEST(MeetingPlace, IsClosedWhereTheRealLibraryMakesNoCommunicator) {
  const ringpressEngine& engine = open_engine_on_answers();
  const ncclUniqueId failed = make_id(engine), nonblocking = make_id(engine);
  const ncclUniqueId of_group = make_id(engine), simulated = make_id(engine);
  ncclComm_t comm = nullptr;
  answer = ncclSystemError;
  EXPECT_EQ(engine.CommInitRank(&comm, 2, failed, 0), ncclSystemError);
  answer = ncclSuccess;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  EXPECT_EQ(engine.CommInitRankConfig(&comm, 2, nonblocking, 0, &config), ncclSuccess);
  EXPECT_EQ(engine.GroupStart(), ncclSuccess);
  EXPECT_EQ(engine.CommInitRank(&comm, 2, of_group, 0), ncclSuccess);
  end_answer = ncclRemoteError;
  EXPECT_EQ(engine.GroupEnd(), ncclRemoteError);
  EXPECT_EQ(engine.GroupStart(), ncclSuccess);
  EXPECT_EQ(engine.CommInitRank(&comm, 2, simulated, 0), ncclSuccess);
  EXPECT_EQ(engine.GroupSimulateEnd(nullptr), ncclSuccess);
  EXPECT_TRUE(closes(failed));
  EXPECT_TRUE(closes(nonblocking));
  EXPECT_TRUE(closes(of_group));
  EXPECT_TRUE(closes(simulated));
}

TEST(MeetingPlace, OfASingleRankCloses) {
  Job job;
  const ncclUniqueId id = job.make_id();
  ncclComm_t comm = job.join(id, 1, 0);
  EXPECT_TRUE(closes(id));
  job.destroy(comm);
}

/// The lines about a communicator of two ranks in two processes, whose second one comes to meet.
template <typename First>
std::string lines_of_second(const ncclUniqueId& id, Job& first_job, First&& first) {
  Job second_job;
  ::testing::internal::CaptureStderr();
  run_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (rank == 0) {
      first_job.engine.making().joining(id);
      EXPECT_EQ(first_job.engine.real().CommInitRank(&comm, 2, id, rank), ncclSuccess);
      first(comm);
    } else {
      comm = second_job.join(id, 2, rank);
      std::vector<float> values = make_values(rank, 5000);
      const int before = sends;
      EXPECT_EQ(second_job.all_reduce(comm, values, values), ncclSuccess);
      EXPECT_EQ(sends, before);
    }
    (rank == 0 ? first_job : second_job).destroy(comm);
  });
  return ::testing::internal::GetCapturedStderr();
}

ncclResult_t reduce_exactly(ncclComm_t comm) {
  std::vector<float> values = make_values(0, 5000);
  return real_nccl.AllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum,
                             comm, nullptr);
}

TEST(MeetingPlace, WhoComesToOneThatWasCalledOffHearsWhy) {
  Job first;
  const ncclUniqueId id = first.make_id();
  const std::string lines = lines_of_second(id, first, [&](ncclComm_t comm) {
    first.engine.making().not_joined(id, "its ncclCommInit answers ", ncclRemoteError);
    EXPECT_EQ(reduce_exactly(comm), ncclSuccess);
  });
  EXPECT_NE(lines.find("the process that made its id says: its ncclCommInit answers 6"),
            std::string::npos)
      << lines;
}

/// More ids than hold a port, all unused.
std::vector<ncclUniqueId> make_many_ids(Job& job) {
  std::vector<ncclUniqueId> ids;
  for (int i = 0; i < 70; ++i) ids.push_back(job.make_id());
  return ids;
}

TEST(MeetingPlace, OfTheFirstOfManyIdsIsThereStill) {
  Job job;
  const std::vector<ncclUniqueId> ids = make_many_ids(job);
  run_threads(2, [&](int rank) {
    ncclComm_t comm = job.join(ids[0], 2, rank);
    std::vector<float> values = make_values(rank, 5000);
    const int before = sends;
    EXPECT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
    EXPECT_GT(sends, before);
    job.destroy(comm);
  });
}

TEST(MeetingPlace, WhosePortIsLostIsNamed) {
  Job job;
  const ncclUniqueId first = make_many_ids(job)[0];
  const sockaddr_in address = address_of(first);
  const int taker = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // Another test's process may have taken it already.
  ASSERT_TRUE(bind(taker, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
              errno == EADDRINUSE);
  ::testing::internal::CaptureStderr();
  job.engine.making().joining(first);
  const std::string lines = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("given back for a while, is not free: "), std::string::npos) << lines;
  close(taker);
}

TEST(MeetingPlace, AWrongInterfaceIsNamedByAllRanks) {
  Job first(make_settings({{"RINGPRESS_SOCKET_IFNAME", "nosuch0"}}));
  ::testing::internal::CaptureStderr();
  const ncclUniqueId id = first.make_id();
  const std::string own = ::testing::internal::GetCapturedStderr();
  const std::string cause = "RINGPRESS_SOCKET_IFNAME=nosuch0 matches no network interface";
  EXPECT_NE(own.find(cause), std::string::npos) << own;
  const std::string lines = lines_of_second(
      id, first, [&](ncclComm_t comm) { EXPECT_EQ(reduce_exactly(comm), ncclSuccess); });
  EXPECT_NE(lines.find("the process that made its id says: " + cause), std::string::npos) << lines;
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
