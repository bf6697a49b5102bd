// The tuner plugin through its tables, as NCCL calls it, and the decisions behind them.
#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/abi/tuner_v2.h"
#include "nccl_plugin/abi/tuner_v3.h"
#include "nccl_plugin/abi/tuner_v4.h"
#include "nccl_plugin/abi/tuner_v5.h"
#include "nccl_plugin/abi/tuner_v6.h"
#include "nccl_plugin/plugin/report.h"
#include "nccl_plugin/plugin/tuner.h"
#include "tests/support/scoped_environment.h"

extern "C" {
extern const ringpress::abi::TunerV2 ncclTunerPlugin_v2;
extern const ringpress::abi::TunerV3 ncclTunerPlugin_v3;
extern const ringpress::abi::TunerV4 ncclTunerPlugin_v4;
extern const ringpress::abi::TunerV5 ncclTunerPlugin_v5;
extern const ringpress::abi::TunerV6 ncclTunerPlugin_v6;
}

namespace ringpress::nccl_plugin::plugin {
namespace {

using abi::Algorithm;
using abi::Function;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr int kProtocols = 3;
constexpr int kDirect = static_cast<int>(Algorithm::kCollNetDirect);
constexpr int kChain = static_cast<int>(Algorithm::kCollNetChain);
constexpr float kGuard = 12345.0F;

void silent(abi::LogLevel, unsigned long, const char*, int, const char*, ...) {}

/// A cost table as NCCL makes it, between guards that nobody may touch.
struct Table {
  explicit Table(int rows) : algorithms(rows) {
    costs.assign(static_cast<std::size_t>(rows * kProtocols + 2), kGuard);
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < kProtocols; ++column) {
        at(row, column) = 10.0F + static_cast<float>(row * kProtocols + column);
      }
    }
    for (const int row : {kDirect, kChain}) {
      if (row >= rows) continue;
      at(row, 0) = at(row, 1) = abi::kNotAvailable;  // CollNet has Simple only.
    }
  }

  float& at(int row, int column) {
    return costs[static_cast<std::size_t>(1 + row * kProtocols + column)];
  }
  float** for_nccl() { return reinterpret_cast<float**>(&costs[1]); }

  int algorithms;
  std::vector<float> costs;
};

/// The places where two tables differ.
std::vector<std::size_t> changed(const Table& before, const Table& after) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < before.costs.size(); ++i) {
    if (before.costs[i] != after.costs[i]) places.push_back(i);
  }
  return places;
}

struct Ctx {
  explicit Ctx(std::size_t ranks = 4, std::size_t nodes = 4) {
    EXPECT_EQ(ncclTunerPlugin_v6.init(&ctx, 7, ranks, nodes, silent, nullptr, nullptr),
              ncclSuccess);
    EXPECT_NE(ctx, nullptr);
  }
  ~Ctx() { EXPECT_EQ(ncclTunerPlugin_v6.finalize(ctx), ncclSuccess); }
  Ctx(const Ctx&) = delete;
  Ctx& operator=(const Ctx&) = delete;

  int advise(Table* table, std::size_t bytes, Function function = Function::kAllReduce) {
    int channels = 0;
    EXPECT_EQ(ncclTunerPlugin_v6.get_coll_info(ctx, function, bytes, 1, table->for_nccl(),
                                               table->algorithms, kProtocols, 0, &channels),
              ncclSuccess);
    return channels;
  }

  void* ctx = nullptr;
};

class PluginTuner : public testing::Test {
 protected:
  PluginTuner()
      : environment_({{"RINGPRESS", nullptr},
                      {"RINGPRESS_CODEC", nullptr},
                      {"RINGPRESS_MIN_BYTES", nullptr},
                      {"NCCL_MIN_NCHANNELS", nullptr},
                      {"NCCL_MIN_CTAS", nullptr},
                      {"NCCL_MAX_CTAS", nullptr},
                      {"NCCL_ALGO", nullptr},
                      {"NCCL_PROTO", nullptr}}) {}
  test::ScopedEnvironment environment_;
};

TEST_F(PluginTuner, LargeAllReducesBetweenNodesGoToCollNet) {
  Ctx tuner;
  for (const int rows : {5, 6, 7, 9}) {
    Table table(rows);
    EXPECT_EQ(tuner.advise(&table, kMiB), 0);  // The number of channels is not known.
    Table expected(rows);
    expected.at(kChain, 2) = expected.at(kDirect, 2) = 0.0F;
    EXPECT_EQ(table.costs, expected.costs);
  }
}

TEST_F(PluginTuner, TheThresholdIsInBytesAndInclusive) {
  for (const char* minimum : {"1000000", "0"}) {
    const test::ScopedEnvironment setting({{"RINGPRESS_MIN_BYTES", minimum}});
    Ctx tuner;
    const auto limit = static_cast<std::size_t>(std::atoi(minimum));
    Table at(7);
    tuner.advise(&at, limit);
    EXPECT_EQ(at.at(kChain, 2), 0.0F);
    if (limit == 0) continue;
    Table below(7);
    EXPECT_EQ(tuner.advise(&below, limit - 2), 0);
    EXPECT_EQ(below.at(kChain, 2), kAvoided);
    EXPECT_EQ(below.at(kDirect, 2), kAvoided);
    EXPECT_EQ(changed(Table(7), below).size(), 2U);
  }
}

TEST_F(PluginTuner, WhatIsNotAvailableStaysSo) {
  Ctx tuner;
  for (const std::size_t bytes : {std::size_t{8}, 64 * kMiB}) {
    Table table(7);
    table.at(kChain, 2) = table.at(kDirect, 2) = abi::kNotAvailable;
    const Table before = table;
    EXPECT_EQ(tuner.advise(&table, bytes), 0);
    EXPECT_EQ(table.costs, before.costs);
    table.at(kChain, 2) = 3.0F;
    tuner.advise(&table, bytes);
    EXPECT_EQ(table.at(kDirect, 2), abi::kNotAvailable);
    EXPECT_EQ(table.at(kChain, 2), bytes == 8 ? kAvoided : 0.0F);
  }
}

TEST_F(PluginTuner, TablesWithoutCollNetRowsOrSimpleAreLeftAlone) {
  Ctx tuner;
  Table narrow(7);
  const Table before = narrow;
  int channels = 0;
  EXPECT_EQ(ncclTunerPlugin_v6.get_coll_info(tuner.ctx, Function::kAllReduce, kMiB, 1,
                                             narrow.for_nccl(), 7, 2, 0, &channels),
            ncclSuccess);
  EXPECT_EQ(narrow.costs, before.costs);
  for (const int rows : {-1, 0, 1, 2}) {
    EXPECT_EQ(ncclTunerPlugin_v6.get_coll_info(tuner.ctx, Function::kAllReduce, kMiB, 1,
                                               narrow.for_nccl(), rows, 3, 0, &channels),
              ncclSuccess);
    EXPECT_EQ(narrow.costs, before.costs);
  }
  EXPECT_EQ(channels, 0);
}

TEST_F(PluginTuner, OffAndObserveChangeNothing) {
  for (const char* mode : {"off", "observe"}) {
    const test::ScopedEnvironment setting({{"RINGPRESS", mode}, {"NCCL_MIN_NCHANNELS", "16"}});
    Ctx tuner;
    for (const std::size_t bytes : {std::size_t{8}, 64 * kMiB}) {
      Table table(7);
      EXPECT_EQ(tuner.advise(&table, bytes), 0);
      EXPECT_EQ(table.costs, Table(7).costs);
    }
  }
}

TEST_F(PluginTuner, WhatIsNotCompressedDoesNotGoToCollNet) {
  const auto chain_cost = [](Function function, std::size_t nodes) {
    Ctx tuner(8, nodes);
    Table table(7);
    EXPECT_EQ(tuner.advise(&table, 64 * kMiB, function), 0);
    return table.at(kChain, 2);
  };
  EXPECT_EQ(chain_cost(Function::kAllReduce, 1), kAvoided);
  for (const Function other :
       {Function::kBroadcast, Function::kReduce, Function::kAllGather, Function::kReduceScatter}) {
    EXPECT_EQ(chain_cost(other, 8), kAvoided);
  }
  {
    const test::ScopedEnvironment codec({{"RINGPRESS_CODEC", "none"}});
    EXPECT_EQ(chain_cost(Function::kAllReduce, 8), kAvoided);
    const test::ScopedEnvironment mode({{"RINGPRESS", "lossless"}});
    EXPECT_EQ(chain_cost(Function::kAllReduce, 8), kAvoided);
  }
  // They need a tensor as a whole.
  for (const char* projecting : {"powersgd", "randk:density=0.1"}) {
    const test::ScopedEnvironment codec({{"RINGPRESS_CODEC", projecting}});
    EXPECT_EQ(chain_cost(Function::kAllReduce, 8), kAvoided) << projecting;
  }
  const test::ScopedEnvironment mode({{"RINGPRESS", "lossless"}});
  EXPECT_EQ(chain_cost(Function::kAllReduce, 8), 0.0F);
}

// NCCL uses a tuner's number of channels unchecked.
TEST_F(PluginTuner, ChannelsOnlyWhereTheEnvironmentGuaranteesThem) {
  const auto channels = [](const char* min_nchannels, const char* min_ctas, std::size_t bytes) {
    const test::ScopedEnvironment setting(
        {{"NCCL_MIN_NCHANNELS", min_nchannels}, {"NCCL_MIN_CTAS", min_ctas}});
    Ctx tuner;
    Table table(7);
    table.at(kDirect, 2) = abi::kNotAvailable;
    return tuner.advise(&table, bytes);
  };
  EXPECT_EQ(channels(nullptr, nullptr, 128 * kMiB), 0);
  EXPECT_EQ(channels("8", nullptr, 128 * kMiB), 8);
  EXPECT_EQ(channels(nullptr, "4", 128 * kMiB), 0);  // A program's maxCTAs may be less.
  EXPECT_EQ(channels("32", "4", 128 * kMiB), 8);
  EXPECT_EQ(channels("8", nullptr, 64 * kKiB), 2);
  for (const char* wrong : {"", "x", "8x", "-3", "99999999999999999999"}) {
    EXPECT_EQ(channels(wrong, nullptr, 128 * kMiB), 0) << wrong;
  }
  const test::ScopedEnvironment limit({{"NCCL_MAX_CTAS", "5"}});
  EXPECT_EQ(channels(nullptr, "4", 128 * kMiB), 4);
  EXPECT_EQ(channels(nullptr, "64", 128 * kMiB), 5);
}

// From version 6 on NCCL says how many channels a call has: the next may have as many.
TEST_F(PluginTuner, AndWhereAnEarlierCallHadThem) {
  Ctx tuner;
  Ctx other;
  const auto channels = [](Ctx& asked, std::size_t bytes) {
    Table table(7);
    table.at(kDirect, 2) = abi::kNotAvailable;
    return asked.advise(&table, bytes);
  };
  const auto had = [&](int algorithm, int count) {
    std::size_t chunk = 128 * kKiB;
    EXPECT_EQ(ncclTunerPlugin_v6.get_chunk_size(tuner.ctx, Function::kAllGather, 1000, algorithm, 0,
                                                count, &chunk),
              ncclSuccess);
    EXPECT_EQ(chunk, 128 * kKiB);
  };
  had(static_cast<int>(Algorithm::kNvls), 32);  // Channels of its own.
  had(static_cast<int>(Algorithm::kNvlsTree), 32);
  EXPECT_EQ(channels(tuner, 128 * kMiB), 0);
  had(static_cast<int>(Algorithm::kRing), 3);
  had(static_cast<int>(Algorithm::kTree), 1);
  EXPECT_EQ(channels(tuner, 128 * kMiB), 3);
  had(kChain, 12);
  EXPECT_EQ(channels(tuner, 128 * kMiB), 8);
  EXPECT_EQ(channels(tuner, 64 * kKiB), 2);
  EXPECT_EQ(channels(other, 128 * kMiB), 0);
}

TEST_F(PluginTuner, OlderTablesDoTheSame) {
  const test::ScopedEnvironment setting({{"NCCL_MIN_NCHANNELS", "8"}});
  void* ctx = nullptr;
  ASSERT_EQ(ncclTunerPlugin_v3.init(4, 4, silent, &ctx), ncclSuccess);
  Table expected(7);
  expected.at(kChain, 2) = expected.at(kDirect, 2) = 0.0F;
  int channels = 0;
  Table third(7);
  EXPECT_EQ(ncclTunerPlugin_v3.get_coll_info(ctx, Function::kAllReduce, 64 * kMiB, 1,
                                             third.for_nccl(), 7, 3, &channels),
            ncclSuccess);
  EXPECT_EQ(third.costs, expected.costs);
  EXPECT_EQ(channels, 8);
  Table fourth(7);
  EXPECT_EQ(ncclTunerPlugin_v4.get_coll_info(ctx, Function::kAllReduce, 64 * kMiB, 1,
                                             fourth.for_nccl(), 7, 3, 1, &channels),
            ncclSuccess);
  EXPECT_EQ(fourth.costs, expected.costs);
  EXPECT_EQ(ncclTunerPlugin_v4.destroy(ctx), ncclSuccess);
  EXPECT_EQ(ncclTunerPlugin_v5.get_coll_info, ncclTunerPlugin_v6.get_coll_info);
}

struct Named {
  int algorithm = -1, protocol = -1, channels = 0;
};

Named ask_v2(std::size_t bytes, int collnet_supported, Function function = Function::kAllReduce) {
  void* ctx = nullptr;
  EXPECT_EQ(ncclTunerPlugin_v2.init(4, 4, silent, &ctx), ncclSuccess);
  Named named;
  EXPECT_EQ(ncclTunerPlugin_v2.get_coll_info(ctx, function, bytes, collnet_supported, 0, 1,
                                             &named.algorithm, &named.protocol, &named.channels),
            ncclSuccess);
  EXPECT_EQ(ncclTunerPlugin_v2.destroy(ctx), ncclSuccess);
  return named;
}

TEST_F(PluginTuner, Version2NamesCollNetWhereItIsThere) {
  EXPECT_EQ(ask_v2(kMiB, 1).algorithm, kChain);
  EXPECT_EQ(ask_v2(kMiB, 1).protocol, 2);
  EXPECT_EQ(ask_v2(kMiB, 1).channels, 0);
  EXPECT_EQ(ask_v2(kMiB, 0).algorithm, -1);
  EXPECT_EQ(ask_v2(kMiB, 0).protocol, -1);
  EXPECT_EQ(ask_v2(1000, 1).algorithm, -1);
  EXPECT_EQ(ask_v2(kMiB, 1, Function::kReduce).algorithm, -1);
  const test::ScopedEnvironment channels({{"NCCL_MIN_NCHANNELS", "8"}});
  EXPECT_EQ(ask_v2(kMiB, 1).channels, 8);
  const test::ScopedEnvironment algorithm({{"NCCL_ALGO", "Ring"}});
  EXPECT_EQ(ask_v2(kMiB, 1).algorithm, -1);
}

TEST_F(PluginTuner, ChunksGrowForCollNetOnly) {
  Ctx tuner;
  const auto chunk = [&](std::size_t bytes, int algorithm, int protocol, int channels,
                         Function function = Function::kAllReduce) {
    std::size_t value = 128 * kKiB;
    EXPECT_EQ(ncclTunerPlugin_v6.get_chunk_size(tuner.ctx, function, bytes, algorithm, protocol,
                                                channels, &value),
              ncclSuccess);
    return value;
  };
  EXPECT_EQ(chunk(64 * kMiB, kChain, 2, 8), 2 * kMiB);
  EXPECT_EQ(chunk(1024 * kMiB, kChain, 2, 2), 4 * kMiB);
  EXPECT_EQ(chunk(kMiB, kChain, 2, 2), 128 * kKiB);       // Never smaller.
  EXPECT_EQ(chunk(64 * kMiB, 1, 2, 8), 128 * kKiB);       // Ring.
  EXPECT_EQ(chunk(64 * kMiB, kChain, 0, 8), 128 * kKiB);  // Not Simple.
  EXPECT_EQ(chunk(64 * kMiB, kChain, 2, 8, Function::kReduce), 128 * kKiB);
  EXPECT_EQ(chunk(64 * kMiB, kChain, 2, 0), 128 * kKiB);
  EXPECT_EQ(chunk(1000, kChain, 2, 1), 128 * kKiB);
}

TEST_F(PluginTuner, NothingIsAnError) {
  EXPECT_EQ(ncclTunerPlugin_v6.init(nullptr, 1, 2, 2, silent, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(ncclTunerPlugin_v2.init(2, 2, silent, nullptr), ncclSuccess);
  EXPECT_EQ(ncclTunerPlugin_v6.finalize(nullptr), ncclSuccess);
  EXPECT_EQ(ncclTunerPlugin_v2.destroy(nullptr), ncclSuccess);
  Table table(7);
  int value = -5;
  std::size_t chunk = 17;
  // A communicator whose init failed.
  EXPECT_EQ(ncclTunerPlugin_v6.get_coll_info(nullptr, Function::kAllReduce, kMiB, 1,
                                             table.for_nccl(), 7, 3, 0, &value),
            ncclSuccess);
  EXPECT_EQ(
      ncclTunerPlugin_v6.get_chunk_size(nullptr, Function::kAllReduce, kMiB, kChain, 2, 1, &chunk),
      ncclSuccess);
  EXPECT_EQ(ncclTunerPlugin_v2.get_coll_info(nullptr, Function::kAllReduce, kMiB, 1, 1, 1, &value,
                                             &value, &value),
            ncclSuccess);
  EXPECT_EQ(table.costs, Table(7).costs);
  EXPECT_EQ(value, -5);
  EXPECT_EQ(chunk, 17U);
  Ctx tuner;
  EXPECT_EQ(ncclTunerPlugin_v6.get_coll_info(tuner.ctx, Function::kAllReduce, kMiB, 1, nullptr, 7,
                                             3, 0, &value),
            ncclSuccess);
  EXPECT_EQ(ncclTunerPlugin_v6.get_coll_info(tuner.ctx, Function::kAllReduce, kMiB, 1,
                                             table.for_nccl(), 7, 3, 0, nullptr),
            ncclSuccess);
  EXPECT_EQ(ncclTunerPlugin_v6.get_chunk_size(tuner.ctx, Function::kAllReduce, kMiB, kChain, 2, 1,
                                              nullptr),
            ncclSuccess);
  EXPECT_EQ(ncclTunerPlugin_v2.get_coll_info(tuner.ctx, Function::kAllReduce, kMiB, 1, 1, 1,
                                             nullptr, nullptr, nullptr),
            ncclSuccess);
}

TEST_F(PluginTuner, OneThatIsGoneIsHarmless) {
  void* ctx = nullptr;
  ASSERT_EQ(ncclTunerPlugin_v5.init(&ctx, 7, 4, 4, silent, nullptr, nullptr), ncclSuccess);
  ASSERT_EQ(ncclTunerPlugin_v5.finalize(ctx), ncclSuccess);
  Ctx other;  // May lie where that one did.
  for (void* const gone : {ctx, reinterpret_cast<void*>(std::uintptr_t{0x1000})}) {
    Table table(7);
    int channels = -5;
    std::size_t chunk = 17;
    EXPECT_EQ(ncclTunerPlugin_v6.get_coll_info(gone, Function::kAllReduce, kMiB, 1,
                                               table.for_nccl(), 7, 3, 0, &channels),
              ncclSuccess);
    EXPECT_EQ(
        ncclTunerPlugin_v6.get_chunk_size(gone, Function::kAllReduce, kMiB, kChain, 2, 1, &chunk),
        ncclSuccess);
    EXPECT_EQ(ncclTunerPlugin_v2.get_coll_info(gone, Function::kAllReduce, kMiB, 1, 1, 1, &channels,
                                               &channels, &channels),
              ncclSuccess);
    EXPECT_EQ(table.costs, Table(7).costs);
    EXPECT_EQ(channels, -5);
    EXPECT_EQ(chunk, 17U);
    EXPECT_EQ(ncclTunerPlugin_v6.finalize(gone), ncclSuccess);
    EXPECT_EQ(ncclTunerPlugin_v2.destroy(gone), ncclSuccess);
  }
}

TEST_F(PluginTuner, WrongSettingsAreNotAnErrorEither) {
  const test::ScopedEnvironment setting({{"RINGPRESS_MIN_BYTES", "many"}, {"RINGPRESS", "maybe"}});
  Ctx tuner(std::numeric_limits<std::size_t>::max(), 0);
  Table table(7);
  tuner.advise(&table, std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(table.at(1, 2), Table(7).at(1, 2));
}

// As if there were no tuner.
TEST_F(PluginTuner, AJobThatCannotBeIsLeftToNccl) {
  const test::ScopedEnvironment setting({{"NCCL_MIN_NCHANNELS", "4"}});
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  constexpr std::size_t kHigh = std::size_t{1} << 63;
  const std::pair<std::size_t, std::size_t> shapes[] = {
      {0, 0}, {4, 0}, {0, 4}, {1, 2}, {kHigh, 2}, {kMost, 2}, {kHigh, kHigh}, {kMost, kMost}};
  for (const auto& [ranks, nodes] : shapes) {
    Ctx tuner(ranks, nodes);
    for (const std::size_t bytes : {std::size_t{0}, kMiB, 64 * kMiB, kHigh, kMost}) {
      Table table(7);
      EXPECT_EQ(tuner.advise(&table, bytes), 0);
      EXPECT_EQ(table.costs, Table(7).costs) << ranks << " ranks on " << nodes << " nodes";
      std::size_t chunk = 17;
      EXPECT_EQ(ncclTunerPlugin_v6.get_chunk_size(tuner.ctx, Function::kAllReduce, bytes, kDirect,
                                                  2, 4, &chunk),
                ncclSuccess);
      EXPECT_EQ(chunk, 17U);
    }
  }
}

TEST_F(PluginTuner, CallsThatCannotBeAreAnswered) {
  const test::ScopedEnvironment setting(
      {{"NCCL_MIN_NCHANNELS", "4"}, {"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_MIN_BYTES", "0"}});
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  constexpr int kLarge = std::numeric_limits<int>::max();
  Ctx tuner(16, 4);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kMost - 1, kMost}) {
    Table table(7);
    EXPECT_LE(tuner.advise(&table, bytes), 4);
    EXPECT_LE(changed(Table(7), table).size(), 2U);
    for (const int number : {-kLarge - 1, -1, 5, 100, kLarge}) {
      Table other(7);
      EXPECT_EQ(tuner.advise(&other, bytes, static_cast<Function>(number)), 0);
      EXPECT_EQ(other.at(kChain, 2), kAvoided);
      int channels = 0;
      EXPECT_EQ(ncclTunerPlugin_v6.get_coll_info(tuner.ctx, Function::kAllReduce, bytes, 1,
                                                 other.for_nccl(), number, kLarge, 0, &channels),
                ncclSuccess);
      std::size_t chunk = 17;
      EXPECT_EQ(ncclTunerPlugin_v6.get_chunk_size(tuner.ctx, Function::kAllReduce, bytes, number,
                                                  number, number, &chunk),
                ncclSuccess);
      EXPECT_EQ(chunk, 17U);
    }
  }
  Table table(7);  // NCCL crashes where a call gets more channels than it has.
  EXPECT_LE(tuner.advise(&table, 128 * kMiB), 4);
}

/// As NCCL 2.22 to 2.28 does: the least cost of at most one hour; -1: NCCL fails the operation.
int choice_of_nccl(const Table& table) {
  float least = 3600000000.0F;
  int choice = -1;
  for (int entry = 0; entry < table.algorithms * kProtocols; ++entry) {
    const float cost = table.costs[static_cast<std::size_t>(entry) + 1];
    if (cost >= 0.0F && cost < least) least = cost, choice = entry / kProtocols;
  }
  return choice;
}

TEST_F(PluginTuner, NcclCanAlwaysChooseSomething) {
  Ctx tuner;
  Table both(7);
  tuner.advise(&both, 1000);
  EXPECT_NE(choice_of_nccl(both), kDirect);
  EXPECT_NE(choice_of_nccl(both), kChain);
  Table collnet_only(7);  // As with NCCL_ALGO=CollnetChain.
  for (float& cost : collnet_only.costs) cost = abi::kNotAvailable;
  collnet_only.at(kChain, 2) = 5.0F;
  tuner.advise(&collnet_only, 1000);
  EXPECT_EQ(choice_of_nccl(collnet_only), kChain);
  Table large(7);
  tuner.advise(&large, kMiB);
  EXPECT_EQ(choice_of_nccl(large), kDirect);
}

std::vector<std::string> logged_lines;

void keep_line(abi::LogLevel, unsigned long, const char*, int, const char* format, ...) {
  char text[500];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  logged_lines.emplace_back(text);
}

TEST_F(PluginTuner, SaysOnceThatCollNetIsMissing) {
  logged_lines.clear();
  void* ctx = nullptr;
  ASSERT_EQ(ncclTunerPlugin_v5.init(&ctx, 0xabc, 4, 4, keep_line, nullptr, nullptr), ncclSuccess);
  ASSERT_EQ(logged_lines.size(), 1U);
  EXPECT_NE(logged_lines[0].find("0000000000000abc, 4 ranks on 4 nodes"), std::string::npos);
  EXPECT_NE(logged_lines[0].find("65536 bytes"), std::string::npos);
  for (int i = 0; i < 3; ++i) {
    Table table(7);
    table.at(kChain, 2) = table.at(kDirect, 2) = abi::kNotAvailable;
    int channels = 0;
    ncclTunerPlugin_v5.get_coll_info(ctx, Function::kAllReduce, kMiB, 1, table.for_nccl(), 7, 3, 0,
                                     &channels);
  }
  EXPECT_EQ(logged_lines.size(), 2U);
  ncclTunerPlugin_v5.finalize(ctx);
  set_logger(silent);
}

TEST_F(PluginTuner, ThreadsMayAskTogether) {
  Ctx tuner;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&tuner] {
      for (int call = 0; call < 1000; ++call) {
        Table table(7);
        if (call % 2 == 0) table.at(kChain, 2) = table.at(kDirect, 2) = abi::kNotAvailable;
        tuner.advise(&table, kMiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin
