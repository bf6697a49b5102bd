// Options of one call (ringpress.h): the codec that it has, what names its tensor, what is refused,
// and what becomes of options that differ by rank.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ringpress/nccl.h"
#include "ringpress/ringpress.h"
#include "tests/support/nccl_ranks.h"

namespace ringpress::testing {
namespace {

constexpr std::size_t kCount = 20000;

/// A configuration with options of ours, behind one of another vendor.
class OfCall {
 public:
  explicit OfCall(const char* codec, const char* tensor = nullptr) {
    foreign_.key = {RINGPRESS_VENDOR_ID ^ 1, RINGPRESS_OPTION_CODEC};
    foreign_.val.s = "not one of ours";
    config_.ext = &foreign_;
    add(&codec_, RINGPRESS_OPTION_CODEC, codec);
    add(&tensor_, RINGPRESS_OPTION_TENSOR, tensor);
  }
  OfCall(const OfCall&) = delete;
  OfCall& operator=(const OfCall&) = delete;

  ncclCollConfig_t* operator->() { return &config_; }
  const ncclCollConfig_t* get() const { return &config_; }

 private:
  void add(ncclConfigExt_t* option, int id, const char* value) {
    if (value == nullptr) return;
    option->key = {RINGPRESS_VENDOR_ID, id};
    option->val.s = value;
    option->next = config_.ext;
    config_.ext = option;
  }

  ncclCollConfig_t config_ = NCCL_COLLCONFIG_INITIALIZER;
  ncclConfigExt_t foreign_{};
  ncclConfigExt_t codec_{};
  ncclConfigExt_t tensor_{};
};

/// The same on every rank, but for its factor.
std::vector<float> values_of(int seed, float factor) {
  std::vector<float> values(kCount);
  std::mt19937 engine(static_cast<std::uint32_t>(seed));
  std::normal_distribution<float> normal;
  for (float& value : values) value = factor * normal(engine);
  return values;
}

ncclResult_t sum(const std::vector<float>& values, std::vector<float>* result, ncclComm_t comm,
                 const OfCall& call) {
  return ncclAllReduceConfig(values.data(), result->data(), values.size(), ncclFloat, ncclSum, comm,
                             nullptr, call.get());
}

ringpressStatistics_t statistics_of(ncclComm_t comm) {
  ringpressStatistics_t statistics{};
  statistics.size = sizeof statistics;
  EXPECT_EQ(ringpressGetStatistics(comm, &statistics), ncclSuccess);
  return statistics;
}

bool is_compressed_now(ncclComm_t comm) {
  return statistics_of(comm).reason[0] == '\0';
}

TEST(CallOptions, ACallHasItsOwnCodec) {
  for (const char* const usual : {"none", "q2"}) {
    const ScopedEnvironment codec("RINGPRESS_CODEC", usual);
    for (int size = 2; size <= 4; ++size) {
      run_nccl_ranks(size, [&](ncclComm_t comm, int) {
        const std::vector<float> values = values_of(1, 1);
        std::vector<float> result(kCount);
        ASSERT_NCCL_OK(sum(values, &result, comm, OfCall("q8")));
        EXPECT_TRUE(is_compressed_now(comm)) << statistics_of(comm).reason;
        EXPECT_EQ(std::string(statistics_of(comm).codec).substr(0, 2), "q8");
        ASSERT_NCCL_OK(sum(values, &result, comm, OfCall("exact")));
        EXPECT_STREQ(statistics_of(comm).reason, "the call's own option is that it stays exact");
        for (std::size_t i = 0; i < kCount; ++i) {
          ASSERT_FLOAT_EQ(result[i], static_cast<float>(size) * values[i]);
        }
        // Smaller than RINGPRESS_MIN_BYTES: it was asked for all the same.
        std::vector<float> shard(64);
        ASSERT_NCCL_OK(ncclReduceScatterConfig(values.data(), shard.data(), shard.size(), ncclFloat,
                                               ncclSum, comm, nullptr, OfCall("fp16").get()));
        EXPECT_TRUE(is_compressed_now(comm)) << statistics_of(comm).reason;
        // What is always exact.
        std::vector<int> integers(100, 1);
        ASSERT_NCCL_OK(ncclAllReduceConfig(integers.data(), integers.data(), integers.size(),
                                           ncclInt, ncclSum, comm, nullptr, OfCall("q8").get()));
        EXPECT_EQ(integers, std::vector<int>(100, size));
        ASSERT_NCCL_OK(ncclReduceScatterConfig(values.data(), shard.data(), shard.size(), ncclFloat,
                                               ncclSum, comm, nullptr, OfCall("powersgd").get()));
        EXPECT_STREQ(statistics_of(comm).reason, "powersgd compresses all-reduces only");
        ASSERT_NCCL_OK(sum(values, &result, comm, OfCall("powersgd")));
        EXPECT_TRUE(is_compressed_now(comm)) << statistics_of(comm).reason;
        // The next call without options is as it was.
        ASSERT_NCCL_OK(
            ncclAllReduce(values.data(), result.data(), kCount, ncclFloat, ncclSum, comm, nullptr));
        EXPECT_EQ(is_compressed_now(comm), usual[0] == 'q');
      });
    }
  }
}

TEST(CallOptions, OneRankTakesThemToo) {
  run_nccl_ranks(1, [](ncclComm_t comm, int) {
    const std::vector<float> values = values_of(1, 1);
    std::vector<float> result(kCount);
    for (const char* const codec : {"q4", "exact", "powersgd"}) {
      ASSERT_NCCL_OK(sum(values, &result, comm, OfCall(codec, "weight")));
      EXPECT_EQ(result, values);
    }
  });
}

TEST(CallOptions, TheUsersWordOnAllCallsHolds) {
  const auto reason_with = [](const char* variable, const char* value) {
    const ScopedEnvironment environment(variable, value);
    std::string reason, codec;
    run_nccl_ranks(2, [&](ncclComm_t comm, int rank) {
      const std::vector<float> values = values_of(1, 1);
      std::vector<float> result(kCount);
      ASSERT_NCCL_OK(sum(values, &result, comm, OfCall("q4")));
      if (rank == 0) reason = statistics_of(comm).reason;
      if (rank == 0) codec = statistics_of(comm).codec;
    });
    return codec + ": " + reason;
  };
  EXPECT_EQ(reason_with("RINGPRESS", "off"), "none: RINGPRESS=off");
  EXPECT_EQ(reason_with("RINGPRESS", "observe"), "none: RINGPRESS=observe: would be q4");
  EXPECT_EQ(reason_with("RINGPRESS", "lossless").substr(0, 8), "lossless");
}

/// What calls of two tensors in one buffer lose on average, in an order that never repeats, over
/// what one call of them loses.
double lost_on_average(ncclComm_t comm, int size, const char* first, const char* second,
                       std::uint64_t tag) {
  constexpr int kCalls = 40;
  const std::vector<float> tensors[] = {values_of(1, 1), values_of(2, 5)};
  std::vector<double> sums[] = {std::vector<double>(kCount), std::vector<double>(kCount)};
  double one_call = 0;
  int calls[] = {0, 0};
  std::vector<float> buffer(kCount);
  std::mt19937 engine(7);
  for (int call = 0; call < kCalls; ++call) {
    const std::size_t which = engine() % 2;
    OfCall config("q2", which == 0 ? first : second);
    config->userProfilerTag = tag == 0 ? 0 : tag + which;
    buffer = tensors[which];
    EXPECT_NCCL_OK(sum(buffer, &buffer, comm, config));
    const bool is_first = which == 0 && calls[0]++ == 0;
    if (which == 1) ++calls[1];
    for (std::size_t i = 0; i < kCount; ++i) {
      const double error = buffer[i] / size - tensors[which][i];
      sums[which][i] += error;
      if (is_first) one_call += error * error;
    }
  }
  double average = 0;
  for (const double error : sums[0]) average += error * error / calls[0] / calls[0];
  return std::sqrt(average / one_call);
}

TEST(CallOptions, ANamedTensorHasItsOwnResidual) {
  for (int size = 2; size <= 4; ++size) {
    run_nccl_ranks(size, [&](ncclComm_t comm, int) {
      const double named = lost_on_average(comm, size, "a", "b", 0);
      EXPECT_LT(named, 0.2);
      EXPECT_EQ(statistics_of(comm).residual_bytes, 2 * kCount * sizeof(float));
      const double tagged = lost_on_average(comm, size, nullptr, nullptr, 100);
      EXPECT_LT(tagged, 0.3);  // The first call of each goes without.
    });
  }
}

/// A name is a rank's own affair, and may be there on some ranks alone.
TEST(CallOptions, NamesMayDifferByRank) {
  for (const char* const codec : {"q4", "powersgd", "topk"}) {
    run_nccl_ranks(3, [&](ncclComm_t comm, int rank) {
      const std::vector<float> values = values_of(rank, 1);
      std::vector<float> result(kCount), of_root(kCount);
      for (int call = 0; call < 6; ++call) {
        const std::string name = std::to_string((rank + call) % 3);
        OfCall config(codec, rank == call % 3 ? nullptr : name.c_str());
        config->userProfilerTag = static_cast<std::uint64_t>(rank * call);
        ASSERT_NCCL_OK(sum(values, &result, comm, config));
        ASSERT_NCCL_OK(
            ncclBroadcast(result.data(), of_root.data(), kCount, ncclFloat, 0, comm, nullptr));
        EXPECT_EQ(result, of_root) << codec << " " << call;
      }
    });
  }
}

TEST(CallOptions, CodecsThatDifferEndInAnErrorOnEveryRank) {
  constexpr const char* kPairs[][2] = {
      {"q4", "q8"}, {"q4", "exact"}, {"q4", nullptr}, {"exact", "fp16"}, {"powersgd", "q4"}};
  for (const auto& pair : kPairs) {
    for (int size = 2; size <= 4; ++size) {
      for (const int other : {0, size - 1}) {
        const ScopedEnvironment usual("RINGPRESS_CODEC", "none");
        const ncclUniqueId id = make_nccl_id();
        run_threads(size, [&](int rank) {
          ncclComm_t comm = nullptr;
          ASSERT_NCCL_OK(ncclCommInitRank(&comm, size, id, rank));
          const std::vector<float> values = values_of(1, 1);
          std::vector<float> result(kCount);
          const OfCall call(pair[rank == other ? 1 : 0]);
          EXPECT_NE(sum(values, &result, comm, call), ncclSuccess)
              << pair[0] << " of " << size << ", rank " << rank;
          EXPECT_NE(std::string(ncclGetLastError(comm)), "");
          EXPECT_NCCL_OK(ncclCommAbort(comm));
        });
      }
    }
  }
}

/// Whatever is asked for, it is the same bytes everywhere.
TEST(CallOptions, RandomOptionsGiveTheSameBytesOnAllRanks) {
  constexpr const char* kUsual[] = {"none", "q4", "auto", "powersgd"};
  constexpr const char* kModes[] = {"on", "on", "lossless", "observe", "off"};
  constexpr const char* kCodecs[] = {nullptr, "exact", "none",     "q4",      "q8:block=64",
                                     "fp16",  "topk",  "powersgd", "lossless"};
  for (int program = 0; program < 12; ++program) {
    std::mt19937 choices(static_cast<std::uint32_t>(program));
    const auto pick = [](std::mt19937& engine, const auto& of) {
      return of[engine() % std::size(of)];
    };
    const ScopedEnvironment usual("RINGPRESS_CODEC", pick(choices, kUsual));
    const ScopedEnvironment mode("RINGPRESS", pick(choices, kModes));
    const ScopedEnvironment lazy("RINGPRESS_LAZY", choices() % 4 == 0 ? "2" : "0");
    run_nccl_ranks(1 + program % 4, [&](ncclComm_t comm, int rank) {
      std::mt19937 engine(static_cast<std::uint32_t>(program) + 100);
      for (int call = 0; call < 16; ++call) {
        const char* const name = engine() % 2 == 0 ? "tensor" : nullptr;
        OfCall config(pick(engine, kCodecs), name);
        config->userProfilerTag = engine() % 3;
        std::vector<float> values = values_of(rank + call, 1);
        std::vector<float> result(kCount), of_root(kCount);
        const bool is_grouped = engine() % 4 == 0;
        if (is_grouped) {
          EXPECT_NCCL_OK(ncclGroupStart());
        }
        ASSERT_NCCL_OK(sum(values, &result, comm, config));
        if (is_grouped) {
          EXPECT_NCCL_OK(ncclGroupEnd());
        }
        ASSERT_NCCL_OK(ncclBroadcastConfig(result.data(), of_root.data(), kCount, ncclFloat, 0,
                                           comm, nullptr, config.get()));
        ASSERT_EQ(0, std::memcmp(result.data(), of_root.data(), kCount * sizeof(float)))
            << program << " " << call;
      }
    });
  }
}

TEST(CallOptions, WhatIsNoOptionIsRefusedByName) {
  run_nccl_ranks(1, [](ncclComm_t comm, int) {
    float value = 5;
    const auto call = [&](ncclConfigExt_t* first) {
      ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
      config.ext = first;
      return ncclAllReduceConfig(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr, &config);
    };
    ncclConfigExt_t option{};
    option.key.vendorId = RINGPRESS_VENDOR_ID;
    const auto expect_refused = [&](int id, const char* text, const char* reason) {
      option.key.optionId = id;
      option.val.s = text;
      EXPECT_EQ(call(&option), ncclInvalidArgument) << reason;
      expect_last_error(reason);
    };
    expect_refused(3, "x",
                   "config.ext: this library has no option 3: there are RINGPRESS_OPTION_CO");
    expect_refused(0, nullptr, "no option 0");
    expect_refused(-1, nullptr, "no option -1");
    expect_refused(RINGPRESS_OPTION_CODEC, nullptr, "RINGPRESS_OPTION_CODEC is null");
    expect_refused(RINGPRESS_OPTION_TENSOR, nullptr, "RINGPRESS_OPTION_TENSOR is null");
    expect_refused(RINGPRESS_OPTION_CODEC, "", "RINGPRESS_OPTION_CODEC is an empty string");
    expect_refused(RINGPRESS_OPTION_TENSOR, "", "RINGPRESS_OPTION_TENSOR is an empty string");
    expect_refused(RINGPRESS_OPTION_CODEC, "q44",
                   "RINGPRESS_OPTION_CODEC: \"q44\" is neither \"exact\" nor a codec: ");
    expect_refused(RINGPRESS_OPTION_CODEC, "q4:blok=64", "\"q4:blok=64\" is neither");
    expect_refused(RINGPRESS_OPTION_CODEC, "auto", "\"auto\" is neither");
    option.val.raw = nullptr;
    option.val.i = 5;  // A number where a string belongs.
    EXPECT_EQ(call(&option), ncclInvalidArgument);
    expect_last_error("RINGPRESS_OPTION_CODEC is the number 5, but must be a string");
    ncclConfigExt_t second = option;
    option.val.s = second.val.s = "q4";
    option.next = &second;
    EXPECT_EQ(call(&option), ncclInvalidArgument);
    expect_last_error("RINGPRESS_OPTION_CODEC comes twice");
    second.next = &option;
    option.key.vendorId = second.key.vendorId = 7;
    EXPECT_EQ(call(&option), ncclInvalidArgument);
    expect_last_error("config.ext has a circle");
    second.next = nullptr;
    EXPECT_EQ(call(&option), ncclSuccess);  // Another vendor's may do so.
    EXPECT_EQ(value, 5);
  });
}

/// What a group keeps of a call is its own.
TEST(CallOptions, AreReadBeforeTheCallReturns) {
  const ScopedEnvironment usual("RINGPRESS_CODEC", "none");
  run_nccl_ranks(2, [](ncclComm_t comm, int) {
    const std::vector<float> values = values_of(1, 1);
    std::vector<float> result(kCount);
    EXPECT_NCCL_OK(ncclGroupStart());
    {
      std::string codec = "q4:block=256", tensor = "weight";
      const OfCall call(codec.c_str(), tensor.c_str());
      EXPECT_NCCL_OK(sum(values, &result, comm, call));
      codec.assign(codec.size(), 'x');
      tensor.assign(tensor.size(), 'x');
    }
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(std::string(statistics_of(comm).codec).substr(0, 12), "q4:block=256");
  });
}

}  // namespace
}  // namespace ringpress::testing
