// RINGPRESS_SOCKET_IFNAME at door A: what matches nothing is refused, by all ranks of a
// communicator.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nccl_plugin/interposer/last_error.h"
#include "tests/support/interposer_job.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

const std::string kNothing =
    "RINGPRESS_SOCKET_IFNAME=nosuch0 matches no network interface; there are: ";

Settings settings_without_interface() {
  return make_settings({{"RINGPRESS_SOCKET_IFNAME", "nosuch0"}});
}

void expect_reason() {
  EXPECT_NE(std::string(last_error()).find(kNothing), std::string::npos) << last_error();
  set_last_error("");
}

TEST(InterposerInterfaces, NoIdIsMadeWhereNobodyCouldListen) {
  Job job(settings_without_interface());
  EXPECT_EQ(job.engine.making().may_make_id(), ncclInvalidArgument);
  expect_reason();
  Job other;
  EXPECT_EQ(other.engine.making().may_make_id(), ncclSuccess);
}

/// Engines of as many processes; only one of them has no such interface. No rank is left waiting.
TEST(InterposerInterfaces, ARankThatLacksItIsHeardByAll) {
  for (const int lacking : {0, 1, 2}) {
    Job good[3];
    Job bad(settings_without_interface());
    const ncclUniqueId id = good[0].make_id();
    std::vector<ncclResult_t> results(3, ncclSuccess);
    std::vector<ncclComm_t> comms(3);
    run_threads(3, [&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      Job& job = rank == lacking ? bad : good[at];
      good[at].engine.making().joining(id);  // Whoever made the id serves its place.
      ASSERT_EQ(job.engine.real().CommInitRank(&comms[at], 3, id, rank), ncclSuccess);
      results[at] = job.engine.making().made_rank(&comms[at], id);
    });
    EXPECT_EQ(results, std::vector<ncclResult_t>(3, ncclInvalidArgument)) << lacking;
    EXPECT_EQ(comms, std::vector<ncclComm_t>(3, nullptr));
    expect_reason();
  }
}

TEST(InterposerInterfaces, AGroupAnswersAtItsEnd) {
  Job good;
  Job bad(settings_without_interface());
  const ncclUniqueId id = good.make_id();
  std::vector<ncclResult_t> results(2, ncclSuccess);
  run_threads(2, [&](int rank) {
    Job& job = rank == 0 ? good : bad;
    ncclComm_t comm = nullptr;
    ASSERT_EQ(job.engine.group_start(), ncclSuccess);
    job.engine.making().joining(id);
    ASSERT_EQ(job.engine.real().CommInitRank(&comm, 2, id, rank), ncclSuccess);
    EXPECT_EQ(job.engine.making().made_rank(&comm, id), ncclSuccess);
    results[static_cast<std::size_t>(rank)] = job.engine.group_end();
    EXPECT_EQ(comm, nullptr);
  });
  EXPECT_EQ(results, std::vector<ncclResult_t>(2, ncclInvalidArgument));
  expect_reason();
}

TEST(InterposerInterfaces, ThoseOfOneProcessAreRefusedTogether) {
  Job job(settings_without_interface());
  std::vector<ncclComm_t> comms(2);
  ASSERT_EQ(job.engine.real().CommInitAll(comms.data(), 2, nullptr), ncclSuccess);
  EXPECT_EQ(job.engine.making().made_all(comms.data(), 2), ncclInvalidArgument);
  EXPECT_EQ(comms, std::vector<ncclComm_t>(2, nullptr));
  expect_reason();
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
