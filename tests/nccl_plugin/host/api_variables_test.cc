// NCCL's own variables at the door to host memory, as programs and their launchers set them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/nccl_processes.h"
#include "tests/support/nccl_ranks.h"
#include "tests/support/unused_port.h"

namespace ringpress::testing {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "ringpress-variables-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return file(name);
  }
  /// All files whose names begin so, one after the other.
  std::string read(const std::string& prefix) const {
    std::stringstream all;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path().filename().string().starts_with(prefix)) {
        all << std::ifstream(entry.path()).rdbuf();
      }
    }
    return all.str();
  }

 private:
  fs::path path_;
};

void expect_sum_of_ranks(ncclComm_t comm, int rank, int size) {
  std::vector<float> values(30001, static_cast<float>(rank + 1));
  EXPECT_NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat, ncclSum,
                               comm, nullptr));
  EXPECT_EQ(values, std::vector<float>(values.size(), static_cast<float>(size * (size + 1) / 2)));
}

void reduce_once(const ncclUniqueId& id, int rank, int size) {
  ncclComm_t comm = nullptr;
  ASSERT_NCCL_OK(ncclCommInitRank(&comm, size, id, rank));
  expect_sum_of_ranks(comm, rank, size);
  EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

TEST(NcclVariables, AnInterfaceThatMatchesNothingIsAnErrorThatListsThoseThereAre) {
  const ScopedEnvironment ours("RINGPRESS_SOCKET_IFNAME", "");
  const ScopedEnvironment theirs("NCCL_SOCKET_IFNAME", "nope0");
  ncclUniqueId id{};
  EXPECT_EQ(ncclGetUniqueId(&id), ncclInvalidArgument);
  expect_last_error("NCCL_SOCKET_IFNAME=nope0 matches no network interface; there are: ");
  expect_last_error("lo");
}

TEST(NcclVariables, AnInterfaceThatOneRankLacksIsToldToAllRanks) {
  run_processes(3, [](const ncclUniqueId& id, int rank) {
    const ScopedEnvironment ours("RINGPRESS_SOCKET_IFNAME", "");
    const ScopedEnvironment theirs("NCCL_SOCKET_IFNAME", rank == 1 ? "nope0" : "lo");
    ncclComm_t comm = nullptr;
    EXPECT_NE(ncclCommInitRank(&comm, 3, id, rank), ncclSuccess);
    expect_last_error("NCCL_SOCKET_IFNAME=nope0 matches no network interface");
  });
}

TEST(NcclVariables, OurInterfaceComesFirst) {
  const ScopedEnvironment ours("RINGPRESS_SOCKET_IFNAME", "lo");
  const ScopedEnvironment theirs("NCCL_SOCKET_IFNAME", "nope0");
  run_processes(2, [](const ncclUniqueId& id, int rank) { reduce_once(id, rank, 2); });
}

/// They are of NCCL's own algorithms, of which there are none here.
TEST(NcclVariables, AlgorithmsAndProtocolsOfNcclLeaveTheCodec) {
  const Folder folder;
  const std::string file = folder.file("statistics");
  for (const char* algorithms : {"allreduce:tree", "Ring", "nonsense"}) {
    const ScopedEnvironment algo("NCCL_ALGO", algorithms);
    const ScopedEnvironment protocol("NCCL_PROTO", "LL");
    const ScopedEnvironment codec("RINGPRESS_CODEC", "q4");
    const ScopedEnvironment statistics("RINGPRESS_STATS", file.c_str());
    run_processes(2, [](const ncclUniqueId& id, int rank) {
      ncclComm_t comm = nullptr;
      ASSERT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
      expect_sum_of_ranks(comm, rank, 2);
      std::vector<int> gathered(2, -1);
      EXPECT_NCCL_OK(ncclAllGather(&rank, gathered.data(), 1, ncclInt, comm, nullptr));
      EXPECT_EQ(gathered, (std::vector<int>{0, 1}));
      EXPECT_NCCL_OK(ncclCommDestroy(comm));
    });
    const std::string lines = folder.read("statistics");
    EXPECT_NE(lines.find("\"compressed_calls\": 1,"), std::string::npos) << lines;
    std::filesystem::remove(file);
  }
}

/// What ranks log with these interfaces and families.
std::string logged_with(const char* interface, const char* family) {
  const Folder folder;
  const std::string pattern = folder.file("%h-%p.log");
  const ScopedEnvironment ours("RINGPRESS_SOCKET_IFNAME", "");
  const ScopedEnvironment level("NCCL_DEBUG", "info");
  const ScopedEnvironment file("NCCL_DEBUG_FILE", pattern.c_str());
  const ScopedEnvironment theirs("NCCL_SOCKET_IFNAME", interface);
  const ScopedEnvironment families("NCCL_SOCKET_FAMILY", family);
  run_processes(2, [](const ncclUniqueId& id, int rank) { reduce_once(id, rank, 2); });
  return folder.read("");
}

TEST(NcclVariables, TheFamilyAndTheInterfaceSayWhereRanksListen) {
  const std::string old = logged_with("=lo", "AF_INET");
  EXPECT_NE(old.find("rank 1 of 2 listens at 127.0.0.1:"), std::string::npos) << old;
  const std::string exact = logged_with("^eth,docker", "");
  EXPECT_NE(exact.find("rank 1 of 2 listens at 127.0.0.1:"), std::string::npos) << exact;
}

bool has_ipv6() {
  std::ifstream list("/proc/net/if_inet6");
  return list.peek() != std::ifstream::traits_type::eof();
}

TEST(NcclVariables, Ipv6IsUsedOrRefusedByName) {
  if (has_ipv6()) {
    const std::string lines = logged_with("lo", "AF_INET6");
    EXPECT_NE(lines.find("rank 1 of 2 listens at [::1]:"), std::string::npos) << lines;
    return;
  }
  const ScopedEnvironment family("NCCL_SOCKET_FAMILY", "AF_INET6");
  const ScopedEnvironment interface("NCCL_SOCKET_IFNAME", "lo");
  ncclUniqueId id{};
  EXPECT_EQ(ncclGetUniqueId(&id), ncclInvalidArgument);
  expect_last_error("with an IPv6 address");
}

TEST(NcclVariables, DebugGoesToItsFileAndOurLevelComesFirst) {
  const std::string lines = logged_with("lo", "");
  EXPECT_NE(lines.find(" VERSION version "), std::string::npos) << lines;
  EXPECT_NE(lines.find(" INFO "), std::string::npos) << lines;
  const ScopedEnvironment ours("RINGPRESS_DEBUG", "error");
  const std::string fewer = logged_with("lo", "");
  EXPECT_EQ(fewer.find(" INFO "), std::string::npos) << fewer;
  EXPECT_EQ(fewer.find(" VERSION "), std::string::npos) << fewer;
  const ScopedEnvironment more("RINGPRESS_DEBUG", "info");
  EXPECT_NE(logged_with("lo", "").find(" VERSION version "), std::string::npos);
}

TEST(NcclVariables, AWordThatNcclDoesNotKnowIsSaidOnce) {
  const ScopedEnvironment own("RINGPRESS_DEBUG", "");
  const ScopedEnvironment level("NCCL_DEBUG", "LOUD");
  const ScopedEnvironment interface("NCCL_SOCKET_IFNAME", "lo");
  ::testing::internal::CaptureStderr();
  run_processes(1, [](const ncclUniqueId& id, int rank) {
    reduce_once(id, rank, 1);
    reduce_once(make_nccl_id(), rank, 1);
  });
  const std::string lines = ::testing::internal::GetCapturedStderr();
  const std::string said =
      "NCCL_DEBUG=LOUD is ignored: expected VERSION, WARN, INFO, ABORT or TRACE";
  EXPECT_NE(lines.find(said), std::string::npos) << lines;
  EXPECT_EQ(lines.find(said), lines.rfind(said)) << lines;
}

TEST(NcclVariables, AFileThatCannotBeOpenedDoesNotStopTheJob) {
  const ScopedEnvironment level("NCCL_DEBUG", "WARN");
  const ScopedEnvironment file("NCCL_DEBUG_FILE", "/nowhere/at/all.log");
  run_processes(2, [](const ncclUniqueId& id, int rank) { reduce_once(id, rank, 2); });
}

/// Every rank makes the id by itself, comes when it likes, and makes several communicators.
void meet_by_address(const std::string& host, int size) {
  const std::string place = host + ":" + std::to_string(unused_port());
  const ScopedEnvironment known("NCCL_COMM_ID", place.c_str());
  run_processes(size, [&](const ncclUniqueId&, int rank) {
    std::mt19937 random(std::random_device{}());
    for (int turn = 0; turn < 4; ++turn) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
      reduce_once(make_nccl_id(), rank, size);
    }
  });
}

TEST(NcclVariables, RanksMeetAtAnAddressThatAllKnow) {
  meet_by_address("127.0.0.1", 2);
  meet_by_address("127.0.0.1", 4);
  meet_by_address("localhost", 3);
  if (has_ipv6()) meet_by_address("[::1]", 3);
}

TEST(NcclVariables, SplitsNeedNoSecondAddress) {
  const std::string place = "127.0.0.1:" + std::to_string(unused_port());
  const ScopedEnvironment known("NCCL_COMM_ID", place.c_str());
  run_processes(4, [](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_NCCL_OK(ncclCommInitRank(&comm, 4, id, rank));
    ncclComm_t half = nullptr;
    ASSERT_NCCL_OK(ncclCommSplit(comm, rank % 2, rank, &half, nullptr));
    expect_sum_of_ranks(half, rank / 2, 2);
    expect_sum_of_ranks(comm, rank, 4);
    EXPECT_NCCL_OK(ncclCommDestroy(half));
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(NcclVariables, AnAddressThatIsNoneIsRefused) {
  for (const char* text :
       {"4711", "127.0.0.1", "127.0.0.1:", ":4711", "127.0.0.1:99999", "127.0.0.1:0", "[::1]:99999",
        "[::1:4711", "127.0.0.1:port", "no host:1"}) {
    const ScopedEnvironment known("NCCL_COMM_ID", text);
    ncclUniqueId id{};
    EXPECT_EQ(ncclGetUniqueId(&id), ncclInvalidArgument) << text;
    expect_last_error(std::string("NCCL_COMM_ID=") + text);
    EXPECT_EQ(std::string(ncclGetLastError(nullptr)).find("0.0.0.0"), std::string::npos);
  }
}

TEST(NcclVariables, AConfigurationFileHoldsBelowTheEnvironment) {
  const Folder folder;
  const std::string file =
      folder.write("nccl.conf", "# A comment.\nNCCL_SOCKET_IFNAME=nope0\nRINGPRESS_CODEC=q99\n");
  const ScopedEnvironment ours("RINGPRESS_SOCKET_IFNAME", "");
  const ScopedEnvironment conf("NCCL_CONF_FILE", file.c_str());
  ncclUniqueId id{};
  EXPECT_EQ(ncclGetUniqueId(&id), ncclInvalidArgument);
  expect_last_error("NCCL_SOCKET_IFNAME=nope0");
  const ScopedEnvironment interface("NCCL_SOCKET_IFNAME", "lo");
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 1, make_nccl_id(), 0), ncclInvalidArgument);
  expect_last_error("q99");
  const ScopedEnvironment codec("RINGPRESS_CODEC", "q4");
  EXPECT_NCCL_OK(ncclCommInitRank(&comm, 1, make_nccl_id(), 0));
  EXPECT_NCCL_OK(ncclCommDestroy(comm));
}

}  // namespace
}  // namespace ringpress::testing
