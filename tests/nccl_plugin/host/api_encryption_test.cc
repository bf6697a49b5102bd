// ncclSetEncryption: who has the key takes part.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ringpress/ringpress.h"
#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

ncclResult_t set_key(const char* key) {
  ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  config.mode = key == nullptr ? NCCL_ENCRYPTION_MODE_NONE : NCCL_ENCRYPTION_MODE_PSK;
  config.psk = key;
  return ncclSetEncryption(&config);
}

std::uint64_t wire_bytes_of_a_call() {
  std::uint64_t bytes = 0;
  run_nccl_ranks(2, [&bytes](ncclComm_t comm, int rank) {
    std::vector<float> values(100000, 2), sums(values.size());
    EXPECT_NCCL_OK(
        ncclAllReduce(values.data(), sums.data(), sums.size(), ncclFloat, ncclSum, comm, nullptr));
    EXPECT_EQ(sums, std::vector<float>(sums.size(), 4));
    ringpressStatistics_t statistics{};
    statistics.size = sizeof statistics;
    EXPECT_EQ(ringpressGetStatistics(comm, &statistics), 0);
    if (rank == 0) bytes = statistics.wire_bytes;
  });
  return bytes;
}

TEST(Encryption, OfCommunicatorsThatAreMadeWithAKey) {
  const ScopedEnvironment over_tcp("RINGPRESS_SHM", "0");
  const ScopedEnvironment exact("RINGPRESS_CODEC", "none");
  const std::uint64_t plain = wire_bytes_of_a_call();
  EXPECT_NCCL_OK(set_key("a key that both have"));
  const std::uint64_t encrypted = wire_bytes_of_a_call();
  EXPECT_GT(encrypted, plain);
  {
    const ScopedEnvironment off("RINGPRESS_ENCRYPT", "off");
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(wire_bytes_of_a_call(), plain);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("RINGPRESS_ENCRYPT=off: nothing is encrypted"), std::string::npos) << said;
  }
  EXPECT_NCCL_OK(set_key(nullptr));
  EXPECT_EQ(wire_bytes_of_a_call(), plain);
}

TEST(Encryption, WrongKeysAreRefused) {
  ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  EXPECT_NCCL_OK(ncclSetEncryption(&config));
  config.mode = NCCL_ENCRYPTION_MODE_PSK;
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidArgument);
  config.psk = "";
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidArgument);
  expect_last_error("config.psk is empty");
  config.mode = 7;
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidArgument);
  config.magic = 0;
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidArgument);
  EXPECT_EQ(ncclSetEncryption(nullptr), ncclInvalidArgument);
}

}  // namespace
}  // namespace ringpress::testing
