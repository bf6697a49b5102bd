// CollNet through the library that NCCL loads, driven by a stand-in for NCCL's proxy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/support/collnet_nodes.h"
#include "tests/support/interruption.h"
#include "tests/support/numbers.h"

namespace ringpress::testing {
namespace {

struct Versions {
  int collnet;
  int profiler;
};

#ifdef RINGPRESS_SANITIZED
// All is ten times slower.
constexpr ncclDataType_t kTypes[] = {ncclBfloat16};
constexpr int kSizes[] = {3};
constexpr std::size_t kCounts[] = {100000, 41153};  // Of the tensors that come again.
#else
constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
constexpr int kSizes[] = {2, 3};
constexpr std::size_t kCounts[] = {300000, 123457};
#endif

class CollNetVersions : public ::testing::TestWithParam<Versions> {};

TEST_P(CollNetVersions, SumAlikeOnAllNodesAndCompress) {
  for (const int size : kSizes) {
    NodeMeeting hashes(size);
    ProxyOptions options;
    options.collnet_version = GetParam().collnet;
    options.profiler_version = GetParam().profiler;
    options.channels = 10;
    options.initial_byte = GetParam().profiler == 0 ? 0 : 0xff;  // NaN, if it is looked at.
    const auto reports = run_nodes(
        kLibrary, size, options, {{"RINGPRESS_CODEC", "q4"}},
        [&](ProxyNode& node, int rank) -> std::string {
          for (const auto type : kTypes) {
            for (const std::size_t count : {1UL, 70001UL, 300000UL}) {
              for (const std::size_t channels : {1UL, 10UL}) {
                const auto send = gradient_of(count, count, rank, type);
                std::vector<std::byte> receive(send.size());
                ProxyOperation operation{send.data(), receive.data(),
                                         count,       type,
                                         channels,    channels == 1 ? 256UL * 1024 : 16UL * 1024};
                if (node.run({operation}) != ncclSuccess) return "an error";
                const double error = relative_error(receive, type, exact_sum(count, count, size));
                if (!(error < 0.7)) {
                  return "error " + number(error) + " of " + std::to_string(count) + " x " +
                         std::to_string(channels);
                }
                if (!is_identical(&hashes, rank, receive)) return "nodes differ";
                if (count > 1000 && error < 0.01) return "not compressed";
              }
            }
          }
          return "ok";
        });
    expect_reports(reports, "ok");
  }
}

#ifdef RINGPRESS_SANITIZED
// The versions differ in their signatures alone.
const std::vector<Versions> kVersions = {{7, 0}, {12, 7}};
#else
const std::vector<Versions> kVersions = {{7, 0},  {8, 0},  {9, 0},  {10, 4},
                                         {11, 5}, {12, 6}, {12, 7}, {12, 0}};
#endif

INSTANTIATE_TEST_SUITE_P(Tables, CollNetVersions, ::testing::ValuesIn(kVersions),
                         [](const auto& instance) {
                           return "V" + std::to_string(instance.param.collnet) + "Profiler" +
                                  std::to_string(instance.param.profiler);
                         });

/// It gets pieces of tensors: whoever wants them put off is told.
TEST(CollNet, PutsNothingOff) {
  const auto reports = run_nodes(
      kLibrary, 2, {}, {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_LAZY", "1000"}},
      [](ProxyNode& node, int rank) -> std::string {
        constexpr std::size_t kElements = 70001;
        const auto send = gradient_of(kElements, kElements, rank, ncclFloat32);
        for (int call = 0; call < 12; ++call) {
          std::vector<std::byte> receive(send.size());
          const ProxyOperation operation{send.data(), receive.data(), kElements, ncclFloat32,
                                         1,           256UL * 1024};
          if (node.run({operation}) != ncclSuccess) return "an error";
          const double error =
              relative_error(receive, ncclFloat32, exact_sum(kElements, kElements, 2));
          if (!(error < 0.7)) return "error " + number(error);
        }
        return NetLog::contains("RINGPRESS_LAZY puts nothing off here") ? "told" : "not told";
      });
  expect_reports(reports, "told");
}

/// The mean of many sums of the same two tensors, with tails that other tensors leave in the slots.
std::string mean_error(ProxyNode& node, int rank, int size, int steps, double* error) {
  std::vector<std::vector<std::byte>> send;
  std::vector<std::vector<std::byte>> receive;
  std::vector<std::vector<double>> mean;
  for (const std::size_t count : kCounts) {
    send.push_back(gradient_of(count, count, rank, ncclFloat32));
    receive.emplace_back(count * sizeof(float));
    mean.emplace_back(count);
  }
  for (int step = 0; step < steps; ++step) {
    std::vector<ProxyOperation> operations;
    for (std::size_t t = 0; t < send.size(); ++t) {
      operations.push_back({send[t].data(), receive[t].data(), kCounts[t], ncclFloat32, 2, 65536});
    }
    if (node.run(operations) != ncclSuccess) return "an error";
    for (std::size_t t = 0; t < send.size(); ++t) {
      for (std::size_t i = 0; i < kCounts[t]; ++i) {
        mean[t][i] += read_number(receive[t].data() + i * 4, DType::kFloat32) / steps;
      }
    }
  }
  *error = 0;
  for (std::size_t t = 0; t < send.size(); ++t) {
    std::vector<std::byte> bytes(kCounts[t] * sizeof(float));
    for (std::size_t i = 0; i < kCounts[t]; ++i) {
      const auto value = static_cast<float>(mean[t][i]);
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
    *error = std::max(*error,
                      relative_error(bytes, ncclFloat32, exact_sum(kCounts[t], kCounts[t], size)));
  }
  return "ok";
}

/// With the profiler of NCCL 2.27, and with those of later releases.
class CollNetProfiler : public ::testing::TestWithParam<int> {};

TEST_P(CollNetProfiler, ErrorFeedbackFindsItsTensorInThePieces) {
  const std::string statistics =
      ::testing::TempDir() + "collnet_feedback" + std::to_string(GetParam()) + ".json";
  unlink(statistics.c_str());
  ProxyOptions options;
  options.profiler_version = GetParam();
  options.initial_byte = 0xff;
  const auto reports =
      run_nodes(kLibrary, 2, options, {{"RINGPRESS_CODEC", "q2"}, {"RINGPRESS_STATS", statistics}},
                [](ProxyNode& node, int rank) -> std::string {
                  double once = 0;
                  double often = 0;
                  if (mean_error(node, rank, 2, 1, &once) != "ok") return "an error";
                  if (mean_error(node, rank, 2, 40, &often) != "ok") return "an error";
                  return often < once / 5 ? "ok" : number(once) + " to " + number(often);
                });
  expect_reports(reports, "ok");
  const std::string lines = read_file(statistics);
  EXPECT_NE(lines.find("\"unbiased_calls\": 0,"), std::string::npos) << lines;
  EXPECT_NE(lines.find("\"residual_bytes\": " + std::to_string((kCounts[0] + kCounts[1]) * 4)),
            std::string::npos)
      << lines;
}

INSTANTIATE_TEST_SUITE_P(Versions, CollNetProfiler, ::testing::Values(4, 6, 7));

/// At which call after the others a node has a residual again.
std::string resumed_at_call(ProxyNode& node, int rank, const Interruption& tried) {
  std::map<char, std::vector<std::byte>> sent;
  bool has_failed = false;
  const std::size_t resumed = resumed_at(tried, [&](char call) {
    const std::size_t count = elements_of(call);
    std::vector<std::byte>& send = sent[call];
    if (send.empty()) send = gradient_of(count, 1, rank, ncclFloat32);
    std::vector<std::byte> receive(send.size());
    has_failed |=
        node.run({{send.data(), receive.data(), count, ncclFloat32, 2, 65536}}) != ncclSuccess;
    return receive;
  });
  return has_failed ? "an error" : "call " + std::to_string(resumed);
}

TEST(CollNet, ErrorFeedbackIsBackSoonAfterOtherCalls) {
  const auto back_after = [](const Interruption& tried) {
    return run_nodes(kLibrary, 2, {}, {{"RINGPRESS_CODEC", "q2"}, {"RINGPRESS_MIN_BYTES", "0"}},
                     [&tried](ProxyNode& node, int rank) -> std::string {
                       return resumed_at_call(node, rank, tried);
                     });
  };
  expect_reports(back_after({"A", 100, "X"}), "call 2");
  expect_reports(back_after({"ABCD", 10, "X"}), "call 4");
  expect_reports(back_after({"ABCD", 10, "ABxy"}), "call 4");
}

TEST(CollNet, WithoutAProfilerSlotItIsUnbiasedWithoutResidual) {
  const std::string statistics = ::testing::TempDir() + "collnet_unbiased.json";
  unlink(statistics.c_str());
  ProxyOptions options;
  options.profiler_version = 0;
  const auto reports =
      run_nodes(kLibrary, 2, options, {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_STATS", statistics}},
                [](ProxyNode& node, int rank) -> std::string {
                  double once = 0;
                  double often = 0;
                  if (mean_error(node, rank, 2, 1, &once) != "ok") return "an error";
                  if (mean_error(node, rank, 2, 64, &often) != "ok") return "an error";
                  return often < once / 4 ? "ok" : number(once) + " to " + number(often);
                });
  expect_reports(reports, "ok");
  const std::string lines = read_file(statistics);
  EXPECT_NE(lines.find("\"residual_bytes\": 0,"), std::string::npos) << lines;
  EXPECT_NE(lines.find("round=stochastic"), std::string::npos) << lines;
}

// All that is known is how large the piece is; what the nodes did to get ready is no call.
TEST(CollNet, WithoutAProfilerSlotSmallCallsAreExact) {
  const std::string statistics = ::testing::TempDir() + "collnet_small.json";
  unlink(statistics.c_str());
  ProxyOptions options;
  options.profiler_version = 0;
  const auto reports = run_nodes(
      kLibrary, 2, options, {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_STATS", statistics}},
      [](ProxyNode& node, int rank) -> std::string {
        const auto send = gradient_of(2000, 1, rank, ncclFloat32);
        std::vector<std::byte> receive(send.size());
        const ProxyOperation operation{send.data(), receive.data(), 2000, ncclFloat32, 1, 32768};
        if (node.run({operation}) != ncclSuccess) return "an error";
        const double error = relative_error(receive, ncclFloat32, exact_sum(2000, 1, 2));
        return error < 1e-6 ? "ok" : "error " + number(error);
      });
  expect_reports(reports, "ok");
  const std::string lines = read_file(statistics);
  EXPECT_NE(lines.find("\"calls\": 1,"), std::string::npos) << lines;
}

TEST(CollNet, WhatIsDoneToConnectAndToCloseIsNotCounted) {
  const std::string statistics = ::testing::TempDir() + "collnet_no_calls.json";
  unlink(statistics.c_str());
  const auto reports = run_nodes(kLibrary, 3, {}, {{"RINGPRESS_STATS", statistics}},
                                 [](ProxyNode&, int) { return std::string("ok"); });
  expect_reports(reports, "ok");
  std::istringstream lines(read_file(statistics));
  int nodes = 0;
  for (std::string line; std::getline(lines, line); ++nodes) {
    for (const char* field : {"\"calls\": 0,", "\"raw_bytes\": 0,", "\"wire_bytes\": 0,",
                              "\"nanoseconds\": 0,", "\"exact_calls\": {},", "\"last_codec\": \"\"",
                              "\"last_algorithm\": \"\"", "\"last_reason\": \"\""}) {
      EXPECT_NE(line.find(field), std::string::npos) << field << " in " << line;
    }
  }
  EXPECT_EQ(nodes, 3);
}

// NCCL makes the calls itself then, as the tuner tells it to: nothing comes here to be counted.
TEST(CollNet, ACommunicatorThatGetsNothingSaysWhy) {
  struct Tried {
    const char *variable, *value, *reason;
  };
  for (const auto& [variable, value, reason] :
       {Tried{"RINGPRESS_CODEC", "none", "RINGPRESS_CODEC=none"},
        Tried{"RINGPRESS_CODEC", "powersgd", "powersgd projects whole tensors, not pieces"},
        Tried{"RINGPRESS_CODEC", "randk", "randk projects whole tensors, not pieces"},
        Tried{"RINGPRESS_BUDGET", "none", "RINGPRESS_BUDGET=none"},
        Tried{"RINGPRESS", "off", "RINGPRESS=off"}, Tried{"RINGPRESS_CODEC", "fp16", ""}}) {
    const std::string statistics = ::testing::TempDir() + "collnet_gets_nothing.json";
    unlink(statistics.c_str());
    const auto reports =
        run_nodes(kLibrary, 2, {}, {{"RINGPRESS_STATS", statistics}, {variable, value}},
                  [](ProxyNode&, int) { return std::string("ok"); });
    expect_reports(reports, "ok");
    std::istringstream lines(read_file(statistics));
    int nodes = 0;
    for (std::string line; std::getline(lines, line); ++nodes) {
      const std::string wanted = std::string("\"last_reason\": \"") + reason + "\"";
      EXPECT_NE(line.find("\"calls\": 0,"), std::string::npos) << line;
      EXPECT_NE(line.find(wanted), std::string::npos) << wanted << " in " << line;
    }
    EXPECT_EQ(nodes, 2);
  }
}

// The tail of a slot is what an earlier, longer tensor left there: here, infinities.
TEST(CollNet, WhatLiesBehindATensorDoesNotTouchIt) {
  for (const int profiler : {0, 6}) {
    ProxyOptions options;
    options.profiler_version = profiler;
    const auto reports = run_nodes(
        kLibrary, 2, options, {{"RINGPRESS_CODEC", "q4"}},
        [&](ProxyNode& node, int rank) -> std::string {
          std::vector<float> infinite(600000, std::numeric_limits<float>::infinity());
          std::vector<float> result(infinite.size());
          const ProxyOperation overflow{
              infinite.data(), result.data(), infinite.size(), ncclFloat32, 2, 65536};
          for (const std::size_t count : {5UL, 1000UL, 16385UL, 70001UL}) {
            if (node.run({overflow}) != ncclSuccess) return "an error";
            if (!std::isinf(result[0]) && !std::isnan(result[0])) return "infinity was lost";
            const auto send = gradient_of(count, count, rank, ncclFloat32);
            std::vector<std::byte> receive(send.size());
            const ProxyOperation operation{send.data(), receive.data(), count, ncclFloat32,
                                           2,           65536};
            if (node.run({operation}) != ncclSuccess) return "an error";
            const double error = relative_error(receive, ncclFloat32, exact_sum(count, count, 2));
            if (!(error < 0.7)) return std::to_string(count) + ": error " + number(error);
          }
          return "ok";
        });
    expect_reports(reports, "ok");
  }
}

TEST(CollNet, AReplayedGraphIsUnbiasedWithoutResidual) {
  const std::string statistics = ::testing::TempDir() + "collnet_replay.json";
  unlink(statistics.c_str());
  const auto reports = run_nodes(
      kLibrary, 2, {}, {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_STATS", statistics}},
      [](ProxyNode& node, int rank) -> std::string {
        const auto send = gradient_of(100000, 1, rank, ncclFloat32);
        std::vector<std::byte> receive(send.size());
        ProxyOperation operation{send.data(), receive.data(), 100000, ncclFloat32, 2, 65536, true};
        for (int replay = 0; replay < 5; ++replay) {
          if (node.run({operation}) != ncclSuccess) return "an error";
        }
        return "ok";
      });
  expect_reports(reports, "ok");
  // Four pieces each; the first replay is not known for one.
  EXPECT_NE(read_file(statistics).find("\"unbiased_calls\": 16,"), std::string::npos)
      << read_file(statistics);
}

/// How often NCCL was told that a piece is not known.
std::ptrdiff_t unknown_warnings() {
  const auto warnings = NetLog::take_warnings();
  return std::count_if(warnings.begin(), warnings.end(), [](const auto& line) {
    return line.find("without error feedback") != std::string::npos;
  });
}

// A piece taken for one of the next tensor would end where that one does. The others are known, and
// what is not known is compressed once the staging memory behind it is clear.
TEST(CollNet, SumsAllWhereTheProfilerWasToldSomethingElse) {
  for (const char* codec : {"none", "q8"}) {
    const std::string statistics = ::testing::TempDir() + "collnet_untold_" + codec + ".json";
    unlink(statistics.c_str());
    const auto reports = run_nodes(
        kLibrary, 2, {}, {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_STATS", statistics}},
        [](ProxyNode& node, int rank) -> std::string {
          const std::size_t counts[] = {60000, 100, 40001};
          std::vector<std::vector<std::byte>> send, receive;
          std::vector<ProxyOperation> operations;
          for (const std::size_t count : counts) {
            send.push_back(gradient_of(count, count, rank, ncclFloat32));
            receive.emplace_back(send.back().size());
            operations.push_back(
                {send.back().data(), receive.back().data(), count, ncclFloat32, 2, 32768});
          }
          for (int round = 0; round < 5; ++round) {
            operations[0].steps_too_many = round == 0 ? 0 : 1;
            for (auto& bytes : receive) std::fill(bytes.begin(), bytes.end(), std::byte{0x41});
            if (node.run(operations) != ncclSuccess) return "an error";
            for (std::size_t i = 0; i < 3; ++i) {
              const double error =
                  relative_error(receive[i], ncclFloat32, exact_sum(counts[i], counts[i], 2));
              if (!(error < 0.05)) return number(error) + " in tensor " + std::to_string(i);
            }
          }
          const auto told = unknown_warnings();
          return told == 1 ? "ok" : std::to_string(told) + " warnings";
        });
    expect_reports(reports, "ok");
    if (std::string(codec) == "none") continue;
    // Four pieces a round of the first tensor. In the second round the slots hold what was there
    // before.
    const std::string lines = read_file(statistics);
    EXPECT_NE(lines.find("\"not known where the tensor ends\": 4,"), std::string::npos) << lines;
    EXPECT_NE(lines.find("\"unbiased_calls\": 12,"), std::string::npos) << lines;
  }
}

TEST(CollNet, NodesThatDifferDeclineTogether) {
  const auto decline = [](const Environment& first, const std::string& cause) {
    NodeMeeting meeting(3);
    const auto reports = run_peers(PeerKind::kProcesses, 3, [&](int rank) -> std::string {
      set_environment(rank == 1 ? first : Environment{});
      ProxyOptions options;
      options.rank = rank;
      ProxyNode node(open_plugin(kLibrary), options, &meeting, &NetLog::write);
      const ncclResult_t connected = node.connect();
      if (connected == ncclSuccess) return "connected";
      return NetLog::contains(cause) ? "declined" : "another cause";
    });
    expect_reports(reports, "declined");
  };
  decline({{"RINGPRESS_CODEC", "q2"}}, "RINGPRESS_CODEC");
  decline({{"RINGPRESS_MIN_BYTES", "12345"}}, "RINGPRESS_MIN_BYTES");
  decline({{"RINGPRESS_SOCKETS", "many"}}, "RINGPRESS_SOCKETS");
  decline({{"NCCL_MIN_NCHANNELS", "3"}}, "those of node 0 guarantee 0 channels, those of node 1 3");
}

TEST(CollNet, ADeadNodeIsAnErrorOnTheOthers) {
  NodeMeeting meeting(3);
  const auto reports = run_peers(PeerKind::kProcesses, 3, [&](int rank) -> std::string {
    set_environment({{"RINGPRESS_CODEC", "q4"}});
    ProxyOptions options;
    options.rank = rank;
    ProxyNode node(open_plugin(kLibrary), options, &meeting, &NetLog::write);
    if (node.connect() != ncclSuccess) return "connect";
    const auto send = gradient_of(400000, 1, rank, ncclFloat32);
    std::vector<std::byte> receive(send.size());
    const ProxyOperation operation{send.data(), receive.data(), 400000, ncclFloat32, 2, 65536};
    if (node.run({operation}) != ncclSuccess) return "too early";
    if (rank == 1) _exit(0);
    const ncclResult_t result = node.run({operation});
    if (result != ncclRemoteError) return "result " + std::to_string(result);
    if (!NetLog::contains("rank 1")) return "not told who";
    const std::size_t told = NetLog::take_warnings().size();
    return told == 1 ? "told" : "told " + std::to_string(told) + " times";
  });
  EXPECT_EQ(reports[0].text, "told");
  EXPECT_EQ(reports[2].text, "told");
}

TEST(CollNet, ClosesWithCallsUnderWay) {
  for (const std::size_t calls : {2UL, 5UL, 8UL}) {
    const auto reports =
        run_nodes(kLibrary, 2, {}, {{"RINGPRESS_CODEC", "q4"}},
                  [&](ProxyNode& node, int rank) -> std::string {
                    const auto send = gradient_of(2000000, 1, rank, ncclFloat32);
                    std::vector<std::byte> receive(send.size());
                    const ProxyOperation operation{
                        send.data(), receive.data(), 2000000, ncclFloat32, 2, 65536};
                    static_cast<void>(node.run({operation}, calls));
                    node.close();
                    return "ok";
                  });
    expect_reports(reports, "ok");
  }
}

TEST(CollNet, SeveralCommunicatorsAtOnceAndAgain) {
  constexpr int kCommunicators = 3;
  std::vector<std::unique_ptr<NodeMeeting>> meetings;
  for (int i = 0; i < kCommunicators; ++i) meetings.push_back(std::make_unique<NodeMeeting>(2));
  const auto reports = run_peers(PeerKind::kProcesses, 2, [&](int rank) -> std::string {
    set_environment({{"RINGPRESS_CODEC", "q4"}});
    void* const library = open_plugin(kLibrary);
    std::vector<std::string> texts(kCommunicators, "none");
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      threads.emplace_back([&, i] {
        for (int round = 0; round < 5; ++round) {
          ProxyOptions options;
          options.rank = rank;
          options.comm_id = i;
          ProxyNode node(library, options, meetings[i].get(), &NetLog::write);
          if (node.connect() != ncclSuccess) return;
          const auto send = gradient_of(100000, i, rank, ncclFloat32);
          std::vector<std::byte> receive(send.size());
          const ProxyOperation operation{send.data(), receive.data(), 100000, ncclFloat32,
                                         2,           65536};
          if (node.run({operation, operation, operation}) != ncclSuccess) return;
          if (!(relative_error(receive, ncclFloat32, exact_sum(100000, i, 2)) < 0.7)) return;
        }
        texts[i] = "ok";
      });
    }
    for (std::thread& thread : threads) thread.join();
    return texts == std::vector<std::string>(kCommunicators, "ok") ? "ok" : "failed";
  });
  expect_reports(reports, "ok");
}

// COLLNET_TEST_CALLS=100000 makes it long.
TEST(CollNet, ManyCalls) {
  const char* const wanted = std::getenv("COLLNET_TEST_CALLS");
  const std::size_t calls = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 2000;
  constexpr std::size_t kCount = 16 * 4096;  // Sixteen calls.
  NodeMeeting meeting(2);
  const auto reports = run_peers(
      PeerKind::kProcesses, 2,
      [&](int rank) -> std::string {
        set_environment({{"RINGPRESS_CODEC", "q4"}});
        ProxyOptions options;
        options.rank = rank;
        ProxyNode node(open_plugin(kLibrary), options, &meeting, &NetLog::write);
        if (node.connect() != ncclSuccess) return "connect";
        const auto send = gradient_of(kCount, 1, rank, ncclFloat32);
        std::vector<std::byte> receive(send.size());
        const ProxyOperation operation{send.data(), receive.data(), kCount, ncclFloat32, 1, 16384};
        const std::vector<ProxyOperation> batch(25, operation);
        for (std::size_t done = 0; done < calls; done += 16 * batch.size()) {
          if (node.run(batch) != ncclSuccess) return "an error";
          if (!(relative_error(receive, ncclFloat32, exact_sum(kCount, 1, 2)) < 0.7))
            return "wrong";
        }
        return "ok";
      },
      std::chrono::seconds(3600));
  expect_reports(reports, "ok");
}

TEST(CollNet, SumsInPlace) {
  const auto reports = run_nodes(
      kLibrary, 2, {}, {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_SOCKET_IFNAME", "=lo,eth"}},
      [](ProxyNode& node, int rank) -> std::string {
        // As NCCL calls for registered buffers: not staging memory, and nothing behind the end.
        std::vector<float> values(100000, static_cast<float>(rank + 1));
        void* mhandles[2] = {nullptr, nullptr};
        for (void*& mhandle : mhandles) {
          if (node.api().reg_mr(node.coll_comm(), values.data(), values.size() * sizeof(float),
                                abi::kPointerHost, &mhandle) != ncclSuccess) {
            return "regMr";
          }
        }
        void* request = nullptr;
        if (node.api().iallreduce(node.coll_comm(), values.data(), values.data(), values.size(),
                                  ncclFloat32, mhandles, &request) != ncclSuccess) {
          return "an error";
        }
        int done = 0;
        while (done == 0) {
          if (node.api().test(request, &done, nullptr) != ncclSuccess) return "an error";
        }
        return values == std::vector<float>(values.size(), 3.0F) ? "ok" : "a wrong sum";
      });
  expect_reports(reports, "ok");
}

TEST(CollNet, WrongArgumentsAreRefused) {
  set_environment({});
  for (int version = 7; version <= 12; ++version) {
    const CollNetApi api = collnet_api_of(open_plugin(kLibrary), version);
    void* ctx = nullptr;
    ASSERT_EQ(api.init(&ctx, 1, &NetLog::write), ncclSuccess);
    EXPECT_EQ(api.devices(nullptr), ncclInvalidArgument);
    int count = 0;
    ASSERT_EQ(api.devices(&count), ncclSuccess);
    CollNetProperties properties;
    EXPECT_EQ(api.get_properties(count, &properties), ncclInvalidArgument);
    ASSERT_EQ(api.get_properties(0, &properties), ncclSuccess);
    EXPECT_EQ(properties.name, "lo");
    EXPECT_EQ(properties.pointer_support, abi::kPointerHost);
    EXPECT_GE(properties.speed_mbps, 10000);
    EXPECT_GT(properties.max_coll_bytes, 0U);
    EXPECT_LE(properties.max_coll_bytes, abi::kMaxTransferBytes);
    EXPECT_FALSE(api.gathers);
    void* comm = &count;
    EXPECT_EQ(api.connect(nullptr, 1, 0, nullptr, &comm), ncclInvalidArgument);
    EXPECT_EQ(comm, nullptr);
    void* request = &count;
    float value = 0;
    void* mhandles[2] = {nullptr, nullptr};
    EXPECT_EQ(api.iallreduce(nullptr, &value, &value, 1, ncclFloat32, mhandles, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    int done = 1;
    EXPECT_EQ(api.test(nullptr, &done, nullptr), ncclInvalidArgument);
    for (const auto type : {ncclFloat32, ncclFloat16, ncclBfloat16, ncclFloat64, ncclInt32}) {
      for (const auto op : {ncclSum, ncclProd, ncclMax, ncclMin}) {
        int supported = -1;
        EXPECT_EQ(api.reduce_support(type, op, &supported), ncclSuccess);
        const bool expected =
            op == ncclSum && (type == ncclFloat32 || type == ncclFloat16 || type == ncclBfloat16);
        EXPECT_EQ(supported, expected ? 1 : 0);
      }
    }
    // A device that is not there: listen never fails, and all nodes decline by the handle.
    std::array<char, abi::kHandleBytes> handle{};
    void* listener = nullptr;
    ASSERT_EQ(api.listen(ctx, 99, handle.data(), &listener), ncclSuccess);
    void* handles[1] = {handle.data()};
    // A pointer to something else than it should be.
    request = &count;
    EXPECT_EQ(api.iallreduce(listener, &value, &value, 1, ncclFloat32, mhandles, &request),
              ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(api.test(listener, &done, nullptr), ncclInvalidArgument);
    EXPECT_EQ(api.close_coll(listener), ncclInvalidArgument);
    EXPECT_NE(api.connect(handles, 1, 0, listener, &comm), ncclSuccess);
    EXPECT_EQ(comm, nullptr);
    EXPECT_EQ(api.close_coll(nullptr), ncclSuccess);
    EXPECT_EQ(api.close_listen(nullptr), ncclSuccess);
    EXPECT_EQ(api.finalize(nullptr), ncclSuccess);
    EXPECT_EQ(api.finalize(ctx), ncclSuccess);
  }
}

}  // namespace
}  // namespace ringpress::testing
