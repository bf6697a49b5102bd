// ringpressGossip...: what it takes, what it refuses, and that models meet.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ringpress/nccl.h"
#include "ringpress/ringpress.h"
#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

ringpressGossipConfig_t gossip_config(double theta = 0) {
  ringpressGossipConfig_t config{};
  config.size = sizeof config;
  config.theta = theta;
  config.t_min = 1;
  return config;
}

TEST(ApiGossip, WorkersComeTogether) {
  constexpr int kRanks = 4;
  constexpr std::size_t kCount = 1000;
  std::vector<std::vector<float>> models(kRanks);
  run_nccl_ranks(kRanks, [&](ncclComm_t comm, int rank) {
    std::vector<float> model(kCount, static_cast<float>(rank));
    const ringpressGossipConfig_t config = gossip_config();
    ringpressGossip_t gossip = nullptr;
    ASSERT_EQ(ringpressGossipInit(&gossip, model.data(), kCount, ncclFloat, &config, comm, nullptr),
              0);
    ringpressGossipStep_t step{};
    step.size = sizeof step;
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(ringpressGossipStep(gossip, model.data(), &step, nullptr), 0);
      EXPECT_EQ(step.exchanged, 1);
      EXPECT_NE(step.peer, rank);
      EXPECT_EQ(step.sent_bytes, 32 + kCount * sizeof(float));
    }
    EXPECT_NEAR(model[5], 1.5, 0.01);
    ASSERT_EQ(ringpressGossipStep(gossip, model.data(), nullptr, nullptr), 0);
    ASSERT_EQ(ringpressGossipFlush(gossip, model.data(), nullptr), 0);
    models[static_cast<std::size_t>(rank)] = model;
    ringpressGossipStatistics_t statistics{};
    statistics.size = sizeof statistics;
    ASSERT_EQ(ringpressGossipGetStatistics(gossip, &statistics), 0);
    EXPECT_EQ(statistics.steps, 21u);
    EXPECT_EQ(statistics.asked, 21u);
    EXPECT_EQ(statistics.exchanges, 21u);
    EXPECT_EQ(statistics.sent_bytes, 21 * step.sent_bytes);
    EXPECT_EQ(ringpressGossipDestroy(gossip), 0);
    EXPECT_EQ(ringpressGossipDestroy(gossip), ncclInvalidArgument);
    expect_last_error("not a handle that is in use");
  });
  for (const std::vector<float>& model : models) {
    EXPECT_EQ(model, models[0]);
    EXPECT_NEAR(model[7], 1.5, 1e-6);
  }
}

TEST(ApiGossip, RefusesWhatItCannotUse) {
  run_nccl_ranks(1, [](ncclComm_t comm, int) {
    std::vector<float> model(10);
    ringpressGossip_t gossip = nullptr;
    const auto refused = [&](const ringpressGossipConfig_t* config, const float* values,
                             std::size_t count, int type, const char* reason) {
      EXPECT_EQ(ringpressGossipInit(&gossip, values, count, type, config, comm, nullptr),
                ncclInvalidArgument)
          << reason;
      expect_last_error(reason);
      EXPECT_EQ(gossip, nullptr);
    };
    ringpressGossipConfig_t config = gossip_config();
    refused(nullptr, model.data(), 10, ncclFloat, "config is null");
    refused(&config, nullptr, 10, ncclFloat, "model is null");
    refused(&config, model.data(), 0, ncclFloat, "count is 0");
    refused(&config, model.data(), 10, ncclInt, "datatype is int32");
    refused(&config, model.data(), 10, 99, "99");
    refused(&config, model.data(), std::size_t{1} << 62, ncclFloat, "count");
    config.size = 8;
    refused(&config, model.data(), 10, ncclFloat, "config->size is 8");
    config = gossip_config(-1);
    refused(&config, model.data(), 10, ncclFloat, "theta is -1");
    config = gossip_config();
    config.codec = "q99";
    refused(&config, model.data(), 10, ncclFloat, "codec: ");
    config.codec = "q8";
    EXPECT_EQ(ringpressGossipInit(nullptr, model.data(), 10, ncclFloat, &config, comm, nullptr),
              ncclInvalidArgument);
    ASSERT_EQ(ringpressGossipInit(&gossip, model.data(), 10, ncclFloat, &config, comm, nullptr), 0);
    EXPECT_EQ(ringpressGossipStep(gossip, nullptr, nullptr, nullptr), ncclInvalidArgument);
    ringpressGossipStep_t step{};
    EXPECT_EQ(ringpressGossipStep(gossip, model.data(), &step, nullptr), ncclInvalidArgument);
    step.size = sizeof step;
    EXPECT_EQ(ringpressGossipStep(gossip, model.data(), &step, nullptr), 0);
    EXPECT_EQ(step.peer, -1) << "there is nobody else";
    ringpressGossipStatistics_t statistics{};
    EXPECT_EQ(ringpressGossipGetStatistics(gossip, &statistics), ncclInvalidArgument);
    EXPECT_EQ(ringpressGossipGetStatistics(gossip, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ringpressGossipDestroy(gossip), 0);
  });
  EXPECT_EQ(ringpressGossipInit(nullptr, nullptr, 0, 0, nullptr, nullptr, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ringpressGossipStep(nullptr, nullptr, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ringpressGossipFlush(nullptr, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ringpressGossipDestroy(nullptr), ncclInvalidArgument);
}

TEST(ApiGossip, OutlivesItsCommunicatorWithoutHarm) {
  ringpressGossip_t gossip = nullptr;
  std::vector<float> model(10);
  run_nccl_ranks(1, [&](ncclComm_t comm, int) {
    const ringpressGossipConfig_t config = gossip_config();
    ASSERT_EQ(ringpressGossipInit(&gossip, model.data(), 10, ncclFloat, &config, comm, nullptr), 0);
  });
  EXPECT_EQ(ringpressGossipStep(gossip, model.data(), nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ringpressGossipDestroy(gossip), 0);
}

/// Another communicator may be made where the first one was.
TEST(ApiGossip, BelongsToTheCommunicatorThatMadeIt) {
  std::vector<float> model(10);
  for (int attempt = 0; attempt < 20; ++attempt) {
    ringpressGossip_t gossip = nullptr;
    run_nccl_ranks(1, [&](ncclComm_t comm, int) {
      const ringpressGossipConfig_t config = gossip_config();
      ASSERT_EQ(ringpressGossipInit(&gossip, model.data(), 10, ncclFloat, &config, comm, nullptr),
                0);
    });
    run_nccl_ranks(1, [&](ncclComm_t, int) {
      EXPECT_EQ(ringpressGossipStep(gossip, model.data(), nullptr, nullptr), ncclInvalidArgument);
    });
    EXPECT_EQ(ringpressGossipDestroy(gossip), 0);
  }
}

/// What it exchanges would wait for the group's end, which waits for it.
TEST(ApiGossip, IsRefusedWithinAGroup) {
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    std::vector<float> model(100, 1.0F);
    const ringpressGossipConfig_t config = gossip_config();
    ringpressGossip_t gossip = nullptr;
    ASSERT_EQ(ringpressGossipInit(&gossip, model.data(), 100, ncclFloat, &config, comm, nullptr),
              0);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ringpressGossipStep(gossip, model.data(), nullptr, nullptr), ncclInvalidUsage);
    expect_last_error("within a group");
    ringpressGossip_t other = nullptr;
    EXPECT_EQ(ringpressGossipInit(&other, model.data(), 100, ncclFloat, &config, comm, nullptr),
              ncclInvalidUsage);
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(ringpressGossipStep(gossip, model.data(), nullptr, nullptr), 0);
    EXPECT_EQ(ringpressGossipDestroy(gossip), 0);
  });
}

/// Both that meet say why, through ncclGetLastError(), too.
TEST(ApiGossip, NanIsNamed) {
  run_nccl_ranks(2, [](ncclComm_t comm, int rank) {
    std::vector<float> model(100, 1.0F);
    const ringpressGossipConfig_t config = gossip_config();
    ringpressGossip_t gossip = nullptr;
    ASSERT_EQ(ringpressGossipInit(&gossip, model.data(), 100, ncclFloat, &config, comm, nullptr),
              0);
    if (rank == 1) model[17] = NAN;
    EXPECT_EQ(ringpressGossipStep(gossip, model.data(), nullptr, nullptr), ncclInvalidArgument);
    expect_last_error("the model of rank 1 has nan at element 17");
    EXPECT_NE(std::string(ncclGetLastError(comm)).find("nan at element 17"), std::string::npos);
    if (rank == 1) model[17] = 1;
    EXPECT_EQ(ringpressGossipStep(gossip, model.data(), nullptr, nullptr), 0);
    EXPECT_EQ(ringpressGossipDestroy(gossip), 0);
  });
}

}  // namespace
}  // namespace ringpress::testing
