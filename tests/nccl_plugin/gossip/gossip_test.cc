// Gossip on model buffers: who meets whom, when they exchange, and what of.
#include "nccl_plugin/gossip/gossip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/gossip/communicator_peers.h"
#include "nccl_plugin/gossip/host_models.h"
#include "ring/factory.h"
#include "ringpress/internal/communicator.h"
#include "tests/support/narrow_values.h"

namespace ringpress::nccl_plugin::gossip {
namespace {

TEST(Matching, IsPerfectAndTheSameForAll) {
  for (int size = 1; size <= 9; ++size) {
    for (std::uint64_t round = 0; round < 200; ++round) {
      int alone = 0;
      for (int rank = 0; rank < size; ++rank) {
        const int partner = ring::find_partner({7, round}, size, rank);
        if (partner < 0) {
          ++alone;
          continue;
        }
        ASSERT_NE(partner, rank);
        ASSERT_LT(partner, size);
        ASSERT_EQ(ring::find_partner({7, round}, size, partner), rank);
      }
      ASSERT_EQ(alone, size % 2);
    }
  }
}

TEST(Matching, EverybodyMeetsEverybodyAsOften) {
  constexpr int kSize = 6, kRounds = 30000;
  std::map<int, int> met;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    ++met[ring::find_partner({3, round}, kSize, 2)];
  }
  ASSERT_EQ(met.size(), kSize - 1u);
  const double expected = static_cast<double>(kRounds) / (kSize - 1);
  for (const auto& [peer, times] : met) {
    EXPECT_NEAR(times, expected, 6 * std::sqrt(expected)) << peer;
  }
  std::set<int> other_seed;
  for (std::uint64_t round = 0; round < 20; ++round) {
    other_seed.insert(ring::find_partner({3, round}, kSize, 2) ==
                      ring::find_partner({4, round}, kSize, 2));
  }
  EXPECT_EQ(other_seed.size(), 2u) << "the seed makes no difference, or is all";
}

TEST(Trigger, FiresAboveThetaAlone) {
  Trigger trigger({0.1, 1, 0, 0});
  EXPECT_FALSE(trigger.asks(0.1));
  EXPECT_TRUE(trigger.asks(0.1000001));
  Trigger always({0, 1, 0, 0});
  EXPECT_TRUE(always.asks(0));
}

TEST(Trigger, WaitsForTMinAndNotLongerThanTMax) {
  Trigger trigger({0.1, 3, 5, 0});
  EXPECT_FALSE(trigger.asks(1));
  EXPECT_FALSE(trigger.asks(1));
  EXPECT_TRUE(trigger.asks(1));
  trigger.note_exchange();
  for (int step = 0; step < 4; ++step) EXPECT_FALSE(trigger.asks(0));
  EXPECT_TRUE(trigger.asks(0));
}

TEST(Trigger, APeriodIgnoresTheChange) {
  Trigger trigger({0.1, 1, 0, 4});
  for (int step = 1; step <= 12; ++step) EXPECT_EQ(trigger.asks(1), step % 4 == 0);
}

std::vector<float> make_model(int rank, std::size_t count) {
  std::mt19937 generator(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

/// Runs body(peers, rank) in threads that form a communicator.
void run_workers(int size, const std::function<void(Peers&, int)>& body) {
  const Settings settings =
      parse_settings({{"RINGPRESS_SOCKET_IFNAME", "lo"}, {"RINGPRESS_CODEC", "q4"}}, nullptr);
  const UniqueId id = make_unique_id(settings).value();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto communicator = Communicator::create(id, rank, size, settings);
      ASSERT_TRUE(communicator.is_ok()) << communicator.status().message();
      CommunicatorPeers peers(*communicator.value());
      body(peers, rank);
    });
  }
}

GossipOptions options_of(std::size_t count, const TriggerRule& rule = {}) {
  GossipOptions options;
  options.count = count;
  options.rule = rule;
  return options;
}

TEST(Gossip, TwoThatMeetTakeTheMean) {
  constexpr std::size_t kCount = 300001;  // More than a chunk.
  constexpr int kSize = 4;
  std::vector<std::vector<float>> models(kSize);
  std::vector<int> partners(kSize);
  run_workers(kSize, [&](Peers& peers, int rank) {
    std::vector<float> model = make_model(rank, kCount);
    auto gossip =
        Gossip::make(peers, std::make_unique<HostModels>(), options_of(kCount), model.data())
            .value();
    const StepReport report = gossip->step(peers, model.data()).value();
    EXPECT_TRUE(report.has_exchanged);
    EXPECT_EQ(report.change, 0);
    EXPECT_EQ(report.sent_bytes, Gossip::kHeaderBytes + kCount * sizeof(float));
    models[static_cast<std::size_t>(rank)] = model;
    partners[static_cast<std::size_t>(rank)] = report.peer;
    // The reference is what came out, on both: nothing has changed since.
    const StepReport next = gossip->step(peers, model.data()).value();
    EXPECT_EQ(next.change, 0);
  });
  for (int rank = 0; rank < kSize; ++rank) {
    const int partner = partners[static_cast<std::size_t>(rank)];
    const std::vector<float> a = make_model(rank, kCount), b = make_model(partner, kCount);
    const auto& model = models[static_cast<std::size_t>(rank)];
    EXPECT_EQ(model, models[static_cast<std::size_t>(partner)]) << rank;
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(model[i], 0.5F * a[i] + 0.5F * b[i]);
  }
}

TEST(Gossip, NobodyExchangesBeforeSomebodyHasChanged) {
  constexpr std::size_t kCount = 5000;
  run_workers(2, [&](Peers& peers, int rank) {
    std::vector<float> model(kCount, 1.0F);
    auto gossip = Gossip::make(peers, std::make_unique<HostModels>(),
                               options_of(kCount, {0.05, 1, 0, 0}), model.data())
                      .value();
    for (int step = 0; step < 3; ++step) {
      const StepReport report = gossip->step(peers, model.data()).value();
      EXPECT_FALSE(report.has_exchanged);
      EXPECT_EQ(report.sent_bytes, Gossip::kHeaderBytes);
    }
    // Rank 1's model moves by 4 %, then by 8.
    if (rank == 1) std::fill(model.begin(), model.end(), 1.04F);
    StepReport report = gossip->step(peers, model.data()).value();
    EXPECT_NEAR(report.change, rank == 1 ? 0.04 : 0, 1e-6);
    EXPECT_FALSE(report.has_exchanged);
    if (rank == 1) std::fill(model.begin(), model.end(), 1.08F);
    report = gossip->step(peers, model.data()).value();
    EXPECT_NEAR(report.change, rank == 1 ? 0.08 : 0, 1e-6);
    EXPECT_TRUE(report.has_exchanged) << "who did not ask answers";
    EXPECT_EQ(gossip->totals().asked, rank == 1 ? 1u : 0u);
    EXPECT_NEAR(model[7], 1.04, 1e-6);
    report = gossip->step(peers, model.data()).value();
    EXPECT_EQ(report.change, 0);
    EXPECT_FALSE(report.has_exchanged);
    EXPECT_EQ(gossip->totals().exchanges, 1u);
    EXPECT_EQ(gossip->totals().steps, 6u);
  });
}

/// What is exchanged is compressed; the mean of the two stays what it was.
TEST(Gossip, ACodecLeavesTheMean) {
  constexpr std::size_t kCount = 300001;
  for (const char* codec : {"q8", "bf16", "q4", "topk:select=chunk,density=0.1", "lossless"}) {
    std::vector<std::vector<float>> models(2), before(2);
    std::uint64_t sent = 0;
    run_workers(2, [&](Peers& peers, int rank) {
      const auto index = static_cast<std::size_t>(rank);
      std::vector<float> model = make_model(0, kCount);
      const std::vector<float> moved = make_model(rank + 5, kCount);
      GossipOptions options = options_of(kCount);
      options.codec = codec;
      auto made = Gossip::make(peers, std::make_unique<HostModels>(), options, model.data());
      ASSERT_TRUE(made.is_ok()) << codec << ": " << made.status().message();
      const std::unique_ptr<Gossip> gossip = std::move(made).value();
      for (std::size_t i = 0; i < kCount; ++i) model[i] += 0.1F * moved[i];
      before[index] = model;
      const Result<StepReport> report = gossip->step(peers, model.data());
      ASSERT_TRUE(report.is_ok()) << codec << ": " << report.status().message();
      EXPECT_TRUE(report.value().has_exchanged);
      models[index] = model;
      if (rank == 0) sent = report.value().sent_bytes;
    });
    double apart = 0, was_apart = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(models[0][i] + models[1][i], before[0][i] + before[1][i], 1e-5) << codec;
      apart += std::pow(models[0][i] - models[1][i], 2);
      was_apart += std::pow(before[0][i] - before[1][i], 2);
    }
    EXPECT_LT(apart, 0.7 * was_apart) << codec;
    EXPECT_LT(sent, kCount * sizeof(float)) << codec;
  }
}

/// What is sent after it is how far models are from its result, which is little, however far they
/// are from where they began.
TEST(Gossip, AFlushIsWhatDifferencesAreTakenFrom) {
  constexpr std::size_t kCount = 300001;
  std::vector<std::vector<float>> models(2);
  run_workers(2, [&](Peers& peers, int rank) {
    std::vector<float> model(kCount);
    GossipOptions options = options_of(kCount);
    options.codec = "q8";
    auto gossip =
        Gossip::make(peers, std::make_unique<HostModels>(), options, model.data()).value();
    std::fill(model.begin(), model.end(), rank == 0 ? 999.0F : 1001.0F);
    ASSERT_TRUE(gossip->flush(peers, model.data()).is_ok());
    const std::vector<float> own = make_model(rank, kCount);
    for (std::size_t i = 0; i < kCount; ++i) model[i] += 0.01F * own[i];
    ASSERT_TRUE(gossip->step(peers, model.data()).value().has_exchanged);
    models[static_cast<std::size_t>(rank)] = model;
  });
  const std::vector<float> a = make_model(0, kCount), b = make_model(1, kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(models[0][i], 1000 + 0.005 * (a[i] + b[i]), 1e-3) << i;
    ASSERT_NEAR(models[1][i], 1000 + 0.005 * (a[i] + b[i]), 1e-3) << i;
  }
}

TEST(Gossip, FlushIsTheExactMeanEverywhere) {
  constexpr std::size_t kCount = 70000;
  constexpr int kSize = 3;
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    std::vector<std::vector<std::byte>> models(kSize);
    run_workers(kSize, [&](Peers& peers, int rank) {
      std::vector<std::byte> model(kCount * dtype_size(dtype));
      const std::vector<float> values = make_model(rank, kCount), zeros(kCount);
      compress_kernels::add_half_difference(model.data(), zeros.data(), values.data(), kCount,
                                            dtype);
      GossipOptions options = options_of(kCount, {1, 1, 0, 0});
      options.dtype = dtype;
      auto gossip =
          Gossip::make(peers, std::make_unique<HostModels>(), options, model.data()).value();
      ASSERT_TRUE(gossip->step(peers, model.data()).is_ok());
      ASSERT_TRUE(gossip->flush(peers, model.data()).is_ok());
      EXPECT_EQ(gossip->step(peers, model.data()).value().change, 0);
      models[static_cast<std::size_t>(rank)] = model;
    });
    EXPECT_EQ(models[1], models[0]);
    EXPECT_EQ(models[2], models[0]);
    if (dtype != DType::kFloat32) continue;
    std::vector<float> mean(kCount);
    std::memcpy(mean.data(), models[0].data(), models[0].size());
    for (std::size_t i = 0; i < kCount; i += 97) {
      double expected = 0;
      for (int rank = 0; rank < kSize; ++rank) expected += make_model(rank, kCount)[i] / 2.0;
      ASSERT_NEAR(mean[i], expected / kSize, 1e-6);
      if (i > 2000) break;
    }
  }
}

TEST(Gossip, OptionsThatDifferAreNamedOnEveryRank) {
  struct Case {
    std::function<void(GossipOptions*)> change;
    const char* text;
  };
  const std::vector<Case> cases = {
      {[](GossipOptions* o) { o->count = 999; }, "count: rank 0 has 1000, rank 2 has 999"},
      {[](GossipOptions* o) { o->dtype = DType::kBfloat16; },
       "datatype: rank 0 has float32, rank 2 has bfloat16"},
      {[](GossipOptions* o) { o->rule.theta = 0.05; }, "theta: rank 0 has 0, rank 2 has 0.05"},
      {[](GossipOptions* o) { o->rule.t_min = 2; }, "t_min: rank 0 has 1, rank 2 has 2"},
      {[](GossipOptions* o) { o->rule.t_max = 9; }, "t_max: rank 0 has 0, rank 2 has 9"},
      {[](GossipOptions* o) { o->rule.period = 4; }, "period: rank 0 has 0, rank 2 has 4"},
      {[](GossipOptions* o) { o->seed = 5; }, "seed: rank 0 has 0, rank 2 has 5"},
      {[](GossipOptions* o) { o->codec = "q8"; }, "codec: rank 0 has none, rank 2 has q8"}};
  run_workers(3, [&](Peers& peers, int rank) {
    const std::vector<float> model(1000);
    for (const Case& one : cases) {
      GossipOptions options = options_of(1000);
      if (rank == 2) one.change(&options);
      const Status status =
          Gossip::make(peers, std::make_unique<HostModels>(), options, model.data()).status();
      EXPECT_EQ(status.code(), Code::kMismatch);
      EXPECT_EQ(status.message(), one.text) << rank;
    }
    // What one rank may not ask for, the others hear of; the next attempt is nobody's loss.
    GossipOptions options = options_of(1000);
    if (rank == 1) options.rule.theta = -1;
    const Status status =
        Gossip::make(peers, std::make_unique<HostModels>(), options, model.data()).status();
    EXPECT_NE(status.message().find(rank == 1 ? "theta is -1" : "rank 1"), std::string::npos)
        << status.message();
    EXPECT_TRUE(Gossip::make(peers, std::make_unique<HostModels>(), options_of(1000), model.data())
                    .is_ok());
  });
}

TEST(Gossip, OptionsOutOfRangeAreNamed) {
  const auto refusal = [](const std::function<void(GossipOptions*)>& change) {
    GossipOptions options = options_of(1000);
    change(&options);
    return check(options).message();
  };
  EXPECT_EQ(refusal([](auto*) {}), "");
  EXPECT_NE(refusal([](auto* o) { o->count = 0; }).find("count is 0"), std::string::npos);
  EXPECT_NE(refusal([](auto* o) { o->dtype = DType::kInt32; }).find("datatype is int32"),
            std::string::npos);
  EXPECT_NE(refusal([](auto* o) { o->rule.theta = NAN; }).find("theta is nan"), std::string::npos);
  EXPECT_NE(refusal([](auto* o) { o->rule.t_min = 0; }).find("t_min is 0"), std::string::npos);
  EXPECT_NE(refusal([](auto* o) { o->rule.t_min = 5, o->rule.t_max = 4; }).find("t_max is 4"),
            std::string::npos);
  EXPECT_NE(refusal([](auto* o) { o->codec = "q9"; }).find("codec: "), std::string::npos);
  EXPECT_NE(refusal([](auto* o) { o->codec = "powersgd"; }).find("codec is powersgd"),
            std::string::npos);
  EXPECT_NE(refusal([](auto* o) { o->codec = "qsgd"; }).find("codec is qsgd"), std::string::npos);
}

TEST(Gossip, AModelThatIsNotFiniteIsNotExchanged) {
  constexpr std::size_t kCount = 5000;
  constexpr int kSize = 4;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<int> failed(kSize);
    run_workers(kSize, [&](Peers& peers, int rank) {
      std::vector<float> model = make_model(rank, kCount);
      auto gossip =
          Gossip::make(peers, std::make_unique<HostModels>(), options_of(kCount), model.data())
              .value();
      const std::vector<float> kept = model;
      if (rank == 3) model[123] = bad;
      const Result<StepReport> report = gossip->step(peers, model.data());
      const bool is_concerned = rank == 3 || ring::find_partner({0, 0}, kSize, 3) == rank;
      EXPECT_EQ(report.is_ok(), !is_concerned) << rank;
      if (is_concerned) {
        EXPECT_EQ(report.status().code(), Code::kInvalidArgument);
        const std::string& text = report.status().message();
        EXPECT_NE(text.find("rank 3"), std::string::npos) << text;
        EXPECT_NE(text.find("element 123"), std::string::npos) << text;
        EXPECT_NE(text.find(std::isnan(bad) ? "nan" : "-inf"), std::string::npos) << text;
        if (rank != 3) {
          EXPECT_EQ(model, kept);
        }
        ++failed[static_cast<std::size_t>(rank)];
      }
      if (rank == 3) model = kept;
      EXPECT_TRUE(gossip->step(peers, model.data()).is_ok()) << "the next step goes on";
    });
    EXPECT_EQ(std::count(failed.begin(), failed.end(), 1), 2);
  }
}

TEST(Gossip, NothingThatIsNotFiniteGetsIn) {
  constexpr std::size_t kCount = 5000;
  run_workers(3, [&](Peers& peers, int rank) {
    std::vector<float> model = make_model(rank, kCount);
    std::vector<float> bad = model;
    bad[9] = std::numeric_limits<float>::quiet_NaN();
    const Status refused = Gossip::make(peers, std::make_unique<HostModels>(), options_of(kCount),
                                        rank == 1 ? bad.data() : model.data())
                               .status();
    EXPECT_NE(refused.message().find("the model of rank 1 has nan at element 9"), std::string::npos)
        << refused.message();
    auto gossip =
        Gossip::make(peers, std::make_unique<HostModels>(), options_of(kCount), model.data())
            .value();
    const std::vector<float> kept = model;
    const Status flushed = gossip->flush(peers, rank == 1 ? bad.data() : model.data());
    EXPECT_EQ(flushed.code(), Code::kInvalidArgument);
    EXPECT_NE(flushed.message().find("the model of rank 1 has nan at element 9"), std::string::npos)
        << flushed.message();
    EXPECT_EQ(model, kept);
    const Result<StepReport> step = gossip->step(peers, rank == 1 ? nullptr : model.data());
    if (!step.is_ok()) {
      EXPECT_NE(step.status().message().find("rank 1 gave no model"), std::string::npos);
    }
    EXPECT_TRUE(gossip->flush(peers, model.data()).is_ok());
  });
}

/// Whose sum no such type has, nor a third of it: doubles are added up.
TEST(Gossip, FlushLeavesEqualModelsAsTheyAre) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    run_workers(3, [&](Peers& peers, int) {
      std::vector<float> values = make_model(1, 300000);
      values[5] = dtype == DType::kFloat16 ? 40000.0F : 3e38F;
      std::vector<std::byte> model(values.size() * dtype_size(dtype));
      compress_kernels::narrow_values(values.data(), values.size(), dtype, model.data());
      const std::vector<std::byte> kept = model;
      GossipOptions options = options_of(values.size());
      options.dtype = dtype;
      auto gossip =
          Gossip::make(peers, std::make_unique<HostModels>(), options, model.data()).value();
      ASSERT_TRUE(gossip->flush(peers, model.data()).is_ok());
      EXPECT_EQ(model, kept) << dtype_name(dtype);
    });
  }
}

/// Squares of large models are no floats; of small ones they are not nothing.
TEST(Gossip, LargeAndSmallModelsChange) {
  run_workers(2, [&](Peers& peers, int) {
    for (const float scale : {1e20F, 1e-15F}) {
      std::vector<float> model(1000, scale);
      auto gossip = Gossip::make(peers, std::make_unique<HostModels>(),
                                 options_of(model.size(), {0.1, 1, 0, 0}), model.data())
                        .value();
      std::fill(model.begin(), model.end(), 3 * scale);
      const StepReport report = gossip->step(peers, model.data()).value();
      EXPECT_TRUE(report.has_exchanged) << scale;
      EXPECT_GE(report.change, 1.99) << scale;
    }
  });
}

/// Ranks that call them in another order would mix models.
TEST(Gossip, AnotherOneOfTheCommunicatorIsFoundOut) {
  run_workers(2, [&](Peers& peers, int rank) {
    std::vector<float> model(100, 1.0F);
    const auto make = [&] {
      return Gossip::make(peers, std::make_unique<HostModels>(), options_of(100), model.data())
          .value();
    };
    const auto first = make(), second = make();
    const Status mixed = (rank == 0 ? first : second)->step(peers, model.data()).status();
    EXPECT_EQ(mixed.code(), Code::kMismatch);
    EXPECT_NE(mixed.message().find("another gossip"), std::string::npos) << mixed.message();
  });
}

/// A step with a model that cannot be used counts: the period stays everybody's.
TEST(Gossip, AFixedPeriodStaysTheSameWhateverHappens) {
  run_workers(2, [&](Peers& peers, int rank) {
    std::vector<float> model(100, 1.0F);
    auto gossip = Gossip::make(peers, std::make_unique<HostModels>(), options_of(100, {0, 1, 0, 3}),
                               model.data())
                      .value();
    EXPECT_FALSE(gossip->step(peers, rank == 0 ? nullptr : model.data()).is_ok());
    EXPECT_FALSE(gossip->step(peers, model.data()).value().has_exchanged);
    EXPECT_TRUE(gossip->step(peers, model.data()).value().has_exchanged);
    EXPECT_EQ(gossip->totals().asked, 1u);
  });
}

/// fp16 cannot say how far they are apart: both keep what they have, there, and say so.
TEST(Gossip, WhatACodecCannotEncodeStaysAsItIs) {
  constexpr std::size_t kCount = 300000;
  run_workers(2, [&](Peers& peers, int rank) {
    std::vector<float> model(kCount, 1.0F);
    GossipOptions options = options_of(kCount);
    options.codec = "fp16";
    auto gossip =
        Gossip::make(peers, std::make_unique<HostModels>(), options, model.data()).value();
    std::fill(model.begin(), model.end(), rank == 0 ? 3.0F : 5.0F);
    model[270000] = 1e6F;
    const Result<StepReport> step = gossip->step(peers, model.data());
    ASSERT_TRUE(step.is_ok()) << step.status().message();
    EXPECT_TRUE(step.value().is_partial);
    EXPECT_EQ(model[5], 4.0F);
    EXPECT_EQ(model[269999], 4.0F);
    EXPECT_EQ(model[270000], 1e6F);
  });
}

TEST(Gossip, AModelAtAnOddAddressIsRefused) {
  run_workers(2, [&](Peers& peers, int rank) {
    std::vector<float> model(65, 1.0F);
    const auto* const odd = reinterpret_cast<const std::byte*>(model.data()) + (rank == 1 ? 1 : 0);
    const auto made = Gossip::make(peers, std::make_unique<HostModels>(), options_of(64), odd);
    ASSERT_FALSE(made.is_ok());
    EXPECT_NE(made.status().message().find(rank == 1 ? "aligned to float32" : "rank 1"),
              std::string::npos)
        << made.status().message();
  });
}

/// Steps whose triggers are left to chance: partners agree in each, have the same model after they
/// exchanged, and nobody waits for ever.
TEST(Gossip, RandomTriggersNeverDriftApart) {
  constexpr std::size_t kCount = 64;
  for (const int size : {2, 5, 8}) {
    std::vector<std::vector<std::uint64_t>> exchanges(static_cast<std::size_t>(size));
    std::vector<std::vector<std::vector<float>>> models(static_cast<std::size_t>(size));
    run_workers(size, [&](Peers& peers, int rank) {
      std::mt19937 generator(static_cast<unsigned>(rank));
      std::vector<float> model = make_model(rank, kCount);
      GossipOptions options = options_of(kCount, {0.3, 2, 20, 0});
      options.seed = 11;
      auto gossip =
          Gossip::make(peers, std::make_unique<HostModels>(), options, model.data()).value();
      auto& mine = exchanges[static_cast<std::size_t>(rank)];
      for (int step = 0; step < 1000; ++step) {
        // Now little, now enough to ask for an exchange. It stays as large as it is.
        const float reach = static_cast<float>(generator() % 1000) / 1000.0F;
        for (float& value : model) {
          value = 0.9F * value + reach * (static_cast<float>(generator() % 1000) / 1000.0F - 0.5F);
        }
        const Result<StepReport> report = gossip->step(peers, model.data());
        ASSERT_TRUE(report.is_ok()) << report.status().message();
        mine.push_back(
            report.value().has_exchanged ? static_cast<std::uint64_t>(report.value().peer) + 1 : 0);
        models[static_cast<std::size_t>(rank)].push_back(model);
      }
    });
    std::size_t some = 0;
    for (std::size_t step = 0; step < 1000; ++step) {
      for (std::size_t rank = 0; rank < exchanges.size(); ++rank) {
        const std::uint64_t peer = exchanges[rank][step];
        if (peer == 0) continue;
        ++some;
        ASSERT_EQ(exchanges[peer - 1][step], rank + 1) << step;
        ASSERT_EQ(models[peer - 1][step], models[rank][step]) << step;
      }
    }
    EXPECT_GT(some, 100u);
    EXPECT_LT(some, 1000u * static_cast<std::size_t>(size));
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::gossip
