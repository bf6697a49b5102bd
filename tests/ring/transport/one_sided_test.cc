// One-sided calls between threads, over TCP and shared memory.
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ring/factory.h"

namespace ringpress::testing {
namespace {

struct OneSidedJob {
  int size = 2;
  bool shared_memory = false;
  OneSidedLimits limits{};
  std::chrono::milliseconds timeout{20000};
};

using OneSidedBody = std::function<void(OneSided&, int rank)>;

void run_one_sided(const OneSidedJob& job, const OneSidedBody& body) {
  const auto id = ring::open_rendezvous({}, "", std::chrono::milliseconds(20000));
  ASSERT_TRUE(id.is_ok()) << id.status().message();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < job.size; ++rank) {
    threads.emplace_back([&, rank] {
      ring::MeshOptions options;
      options.id = id.value();
      options.rank = rank;
      options.size = job.size;
      options.timeout = job.timeout;
      options.join_timeout = std::chrono::milliseconds(20000);
      options.shared_memory = job.shared_memory;
      auto calls = ring::make_one_sided(options, job.limits);
      ASSERT_TRUE(calls.is_ok()) << calls.status().message();
      body(*calls.value(), rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Buffer buffer_of(std::vector<std::byte>& memory) {
  Buffer buffer;
  buffer.data = memory.data();
  buffer.bytes = memory.size();
  return buffer;
}

AwaitedSignals signals_of(int peer, std::uint64_t count) {
  return {peer, {}, count};
}

/// All threads are there, each having returned from its calls: what one does next harms no call
/// before.
class Crossing {
 public:
  explicit Crossing(int size) : barrier_(size) {}
  void wait() { barrier_.arrive_and_wait(); }

 private:
  std::barrier<> barrier_;
};

/// Returns once everybody has come.
void meet(OneSided& calls, int rank, int size) {
  for (int peer = 0; peer < size; ++peer) {
    EXPECT_TRUE(calls.put({peer, 0, 0, {}, {0, 1}}).is_ok()) << rank;
  }
  for (int peer = 0; peer < size; ++peer) {
    const AwaitedSignals one{peer, {0, 1}, 1};
    EXPECT_TRUE(calls.wait({&one, 1}).is_ok()) << rank;
  }
}

class OneSidedTraffic : public ::testing::TestWithParam<bool> {};

/// Puts of all sizes from all to all, some threads at a time; the last one at each place wins.
TEST_P(OneSidedTraffic, ArrivesInOrder) {
  constexpr int kSize = 3;
  constexpr int kPuts = 40;
  constexpr std::size_t kPart = 600000;
  OneSidedJob job{kSize, GetParam(), {1, 2}};
  run_one_sided(job, [](OneSided& calls, int rank) {
    std::vector<std::byte> memory(kPart * kSize);
    calls.open_window(4, buffer_of(memory));
    meet(calls, rank, kSize);
    std::vector<std::thread> senders;
    for (int peer = 0; peer < kSize; ++peer) {
      senders.emplace_back([&calls, rank, peer] {
        std::mt19937 random(static_cast<unsigned>(rank * kSize + peer));
        for (int i = 1; i <= kPuts; ++i) {
          const std::size_t bytes = i == kPuts ? kPart : random() % (i % 5 == 0 ? kPart : 100);
          const std::vector<std::byte> source(bytes, static_cast<std::byte>(i));
          const std::uint64_t offset = static_cast<std::uint64_t>(rank) * kPart;
          const Status status = calls.put({peer, 4, offset, {source.data(), bytes}, {}});
          EXPECT_TRUE(status.is_ok()) << status.message();
        }
      });
    }
    for (int peer = 0; peer < kSize; ++peer) {
      const AwaitedSignals all = signals_of(peer, kPuts);
      const Status status = calls.wait({&all, 1});
      EXPECT_TRUE(status.is_ok()) << status.message();
      const std::vector<std::byte> expected(kPart, static_cast<std::byte>(kPuts));
      const auto part = static_cast<std::size_t>(peer) * kPart;
      EXPECT_EQ(std::memcmp(memory.data() + part, expected.data(), kPart), 0) << rank << peer;
    }
    for (std::thread& sender : senders) sender.join();
    calls.close_window(4);
    meet(calls, rank, kSize);
  });
}

INSTANTIATE_TEST_SUITE_P(TcpAndSharedMemory, OneSidedTraffic, ::testing::Bool());

/// A rank that does not keep to the window of another: that one is not harmed, and says so.
TEST(OneSidedErrors, PutsOutsideOfAWindow) {
  for (const std::uint64_t offset : {std::uint64_t{5}, UINT64_MAX - 2, std::uint64_t{9}}) {
    Crossing crossing(2);
    run_one_sided({2, false, {1, 2}}, [offset, &crossing](OneSided& calls, int rank) {
      std::vector<std::byte> memory(8);
      calls.open_window(0, buffer_of(memory));
      meet(calls, rank, 2);
      crossing.wait();
      const std::byte source[4] = {std::byte{1}, std::byte{1}, std::byte{1}, std::byte{1}};
      if (rank == 0) static_cast<void>(calls.put({1, 0, offset, {source, 4}, {}}));
      const AwaitedSignals never = signals_of(1 - rank, 1);
      const Status status = calls.wait({&never, 1});
      EXPECT_EQ(status.code(), Code::kInvalidUsage);
      EXPECT_NE(status.message().find("rank 0 puts 4 bytes at "), std::string::npos)
          << status.message();
      EXPECT_EQ(memory, std::vector<std::byte>(8));
      calls.close_window(0);
    });
  }
}

TEST(OneSidedErrors, SignalsThatARankDoesNotHave) {
  Crossing crossing(2);
  run_one_sided({2, false, {1, 2}}, [&crossing](OneSided& calls, int rank) {
    meet(calls, rank, 2);
    crossing.wait();
    if (rank == 0) static_cast<void>(calls.put({1, 0, 0, {}, {0, 2}}));
    const AwaitedSignals never = signals_of(1 - rank, 1);
    EXPECT_EQ(calls.wait({&never, 1}).code(), Code::kInvalidUsage);
  });
}

TEST(OneSidedErrors, AWaitForNothingEnds) {
  OneSidedJob job;
  job.timeout = std::chrono::milliseconds(300);
  run_one_sided(job, [](OneSided& calls, int rank) {
    const AwaitedSignals never = signals_of(1 - rank, 2);
    const Status status = calls.wait({&never, 1});
    EXPECT_EQ(status.code(), Code::kTimeout);
    EXPECT_NE(status.message().find("there are 0, and 2 are waited for"), std::string::npos)
        << status.message();
  });
}

TEST(OneSidedErrors, AnAbortIsHeardByThoseThatWait) {
  Crossing crossing(3);
  run_one_sided({3, false, {1, 2}}, [&crossing](OneSided& calls, int rank) {
    meet(calls, rank, 3);
    crossing.wait();
    if (rank == 0) calls.abort({Code::kAborted, "rank 0 has had enough"});
    const AwaitedSignals never = signals_of(1, 1);
    const Status status = calls.wait({&never, 1});
    EXPECT_EQ(status.code(), Code::kAborted);
    EXPECT_NE(status.message().find("rank 0 has had enough"), std::string::npos);
    EXPECT_FALSE(calls.put({1, 0, 0, {}, {}}).is_ok());
  });
}

}  // namespace
}  // namespace ringpress::testing
