// Automatic mode between processes over TCP, each on a host of its own as far as it is told.
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "ringpress/internal/communicator.h"
#include "tests/support/peer_group.h"
#include "tests/support/random_tensor.h"

namespace ringpress::testing {
namespace {

/// What body(communicator) has to say, by rank.
template <typename Body>
std::vector<PeerReport> run_processes(int ranks, Body body) {
  IdExchange ids(ranks);
  return run_peers(PeerKind::kProcesses, ranks, [&](int rank) -> std::string {
    setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
    const Settings settings = parse_settings({{"RINGPRESS_GRADIENTS", "all"},
                                              {"RINGPRESS_CACHE", "off"},
                                              {"RINGPRESS_SOCKET_IFNAME", "lo"},
                                              {"RINGPRESS_ADJUST_STEPS", "5"},
                                              {"RINGPRESS_TIMEOUT_MS", "60000"}},
                                             nullptr);
    const UniqueIdBytes id = ids.share(rank, [&] { return make_unique_id(settings).value(); });
    const auto communicator = Communicator::create(id, rank, ranks, settings);
    if (!communicator.is_ok()) return to_text(communicator.status());
    return body(*communicator.value());
  });
}

Status reduce(Communicator& communicator, std::size_t count, std::uint64_t* digest) {
  std::vector<float> values = random_gradient(count, count, communicator.rank());
  const Status status =
      communicator.all_reduce(values.data(), values.data(), count, DType::kFloat32, {});
  for (const float value : values) {
    std::uint32_t bits = 0;
    static_assert(sizeof bits == sizeof value);
    __builtin_memcpy(&bits, &value, sizeof bits);
    *digest = (*digest ^ bits) * 0x100000001b3ull;
  }
  return status;
}

TEST(AutomaticProcesses, HaveTheSameBytesWhateverIsTried) {
  for (const int ranks : {2, 4}) {
    const auto reports = run_processes(ranks, [](Communicator& communicator) -> std::string {
      std::uint64_t digest = 0;
      Status status;
      // Buckets, rebuilt after the first step; another model in between; an odd last batch.
      std::vector<std::vector<std::size_t>> steps(40, {31000, 34000});
      steps.front() = {20000, 17000, 34000};
      steps[20] = {25000};
      steps.back() = {31000, 17000};
      for (const std::vector<std::size_t>& step : steps) {
        for (const std::size_t count : step) {
          if (status.is_ok()) status = reduce(communicator, count, &digest);
        }
      }
      const Statistics statistics = communicator.statistics();
      if (!status.is_ok()) return to_text(status);
      // On a loaded machine nothing may have paid.
      if (statistics.compressed_calls == 0) printf("nothing was ever compressed\n");
      return std::to_string(digest);
    });
    for (const PeerReport& report : reports) {
      EXPECT_EQ(report.text, reports[0].text) << ranks;
      EXPECT_EQ(report.text.find_first_not_of("0123456789"), std::string::npos) << report.text;
    }
  }
}

/// Where an announcement is due, it meets another rank's call. Each rank names the program's.
TEST(AutomaticProcesses, AnotherCallAtAnAnnouncementIsNamed) {
  const auto reports = run_processes(2, [](Communicator& communicator) -> std::string {
    std::uint64_t digest = 0;
    Status status;
    // The third of a kind is the first that is tuned.
    for (int call = 0; call < 2 && status.is_ok(); ++call) {
      status = reduce(communicator, 20000, &digest);
    }
    if (!status.is_ok()) return to_text(status);
    status = communicator.rank() == 0 ? reduce(communicator, 20000, &digest)
                                      : reduce(communicator, 5000, &digest);
    return to_text(status);
  });
  EXPECT_NE(reports[0].text.find("all_reduce of 20000 float32 that this rank is at"),
            std::string::npos)
      << reports[0].text;
}

}  // namespace
}  // namespace ringpress::testing
