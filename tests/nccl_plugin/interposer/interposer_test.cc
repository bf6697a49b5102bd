// The engine of door A in one process: its ranks are threads, the real NCCL is the stand-in.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "compress_kernels/factory.h"
#include "ringpress/internal/communicator.h"
#include "tests/support/interposer_hosts.h"
#include "tests/support/interposer_job.h"
#include "tests/support/interruption.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

/// The same calls by door C: same codec, same shards, same residuals, so the same bytes.
std::vector<std::vector<float>> host_results(const Settings& settings, int size, std::size_t count,
                                             int steps, ReduceOp op) {
  const UniqueId id = make_unique_id(settings).value();
  std::vector<std::vector<float>> results(static_cast<std::size_t>(steps));
  run_threads(size, [&](int rank) {
    auto comm = Communicator::create(id, rank, size, settings).value();
    std::vector<float> send = make_values(rank, count), receive(count);
    for (int step = 0; step < steps; ++step) {
      send[0] = static_cast<float>(step);
      EXPECT_TRUE(comm->all_reduce(send.data(), receive.data(), count, DType::kFloat32,
                                   Reduction{op, 1, false})
                      .is_ok());
      if (rank == 0) results[static_cast<std::size_t>(step)] = receive;
    }
  });
  return results;
}

struct Case {
  const char* codec;
  int size;
  std::size_t count;
  ncclRedOp_t op;
  const char* algorithm = "sra";
  int real_all_reduces = 0;  // Of a call: those that projections are made of.
  const char* chunk_bytes = "0";
};

class SameBytesAsTheHost : public ::testing::TestWithParam<Case> {};

TEST_P(SameBytesAsTheHost, StepByStep) {
  const Case& tried = GetParam();
  const std::size_t count = tried.count;
  constexpr int kSteps = 6;
  const Settings settings = make_settings({{"RINGPRESS_CODEC", tried.codec},
                                           {"RINGPRESS_ALGO", tried.algorithm},
                                           {"RINGPRESS_CHUNK_BYTES", tried.chunk_bytes}});
  Settings of_host = settings;
  of_host.codec.specification = compress_kernels::stream_specification(tried.codec);
  const auto expected =
      host_results(of_host, tried.size, count, kSteps, static_cast<ReduceOp>(tried.op));
  Job job(settings);
  all_reduces = 0;
  run_ranks(job, tried.size, [&](ncclComm_t comm, int rank) {
    std::vector<float> send = make_values(rank, count), receive(count);
    for (int step = 0; step < kSteps; ++step) {
      send[0] = static_cast<float>(step);
      ASSERT_EQ(job.all_reduce(comm, send, receive, tried.op), ncclSuccess);
      const auto& wanted = expected[static_cast<std::size_t>(step)];
      EXPECT_EQ(std::memcmp(receive.data(), wanted.data(), count * sizeof(float)), 0)
          << tried.codec << " step " << step << " rank " << rank;
    }
  });
  EXPECT_EQ(all_reduces, kSteps * tried.size * tried.real_all_reduces)
      << "the real library's own was used";
}

/// As ranks of the host library do that have been told so by a file.
std::vector<float> expect_the_hosts_bytes(const char* codec, const char* topology,
                                          const std::string& map) {
  constexpr int kSize = 4;
  constexpr std::size_t kCount = 100001;
  Settings settings = make_settings(
      {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_ALGO", "ring"}, {"RINGPRESS_TOPOLOGY", topology}});
  Settings of_host = settings;
  of_host.topology = parse_settings({{"RINGPRESS_TOPOLOGY", map}}, nullptr).topology;
  const auto expected = host_results(of_host, kSize, kCount, 1, ReduceOp::kSum);
  run_hosts(settings, {0, 1, 0, 1}, [&](const std::shared_ptr<Comm>& comm, int rank) {
    std::vector<float> send = make_values(rank, kCount), receive(kCount);
    send[0] = 0;  // As in the first step of host_results().
    ASSERT_EQ(all_reduce(comm, send, receive, ncclSum), ncclSuccess);
    EXPECT_EQ(std::memcmp(receive.data(), expected[0].data(), kCount * sizeof(float)), 0)
        << codec << " " << topology << ", rank " << rank;
  });
  return expected[0];
}

TEST(InterposerRing, VisitsHostsOneAfterTheOther) {
  const std::string map =
      (std::filesystem::temp_directory_path() / ("ringpress-map-" + std::to_string(getpid())))
          .string();
  std::ofstream(map) << "rank 0=a\nrank 1=b\nrank 2=a\nrank 3=b\n";
  for (const char* codec : {"q4", "fp16"}) {
    const std::vector<float> by_hosts = expect_the_hosts_bytes(codec, "hosts", map);
    EXPECT_NE(by_hosts, expect_the_hosts_bytes(codec, "ranks", "ranks"));
  }
  std::filesystem::remove(map);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, SameBytesAsTheHost,
    ::testing::Values(
        Case{"q4", 2, 1000, ncclSum}, Case{"q4", 3, 100001, ncclSum},
        Case{"q4", 4, 600000, ncclAvg}, Case{"q8", 2, 65536, ncclAvg},
        Case{"q4:round=stochastic", 3, 50000, ncclSum}, Case{"fp16", 4, 100000, ncclSum},
        Case{"q1", 2, 200000, ncclSum}, Case{"q4", 2, 100001, ncclSum, "ring"},
        Case{"q4", 3, 500, ncclSum, "ring"}, Case{"q8", 5, 100000, ncclAvg, "ring"},
        Case{"q2:round=stochastic", 4, 70000, ncclSum, "ring"}, Case{"qsgd", 2, 70000, ncclSum},
        Case{"qsgd:round=zero", 3, 50001, ncclAvg}, Case{"qsgd:norm=global", 4, 3000, ncclAvg},
        Case{"qsgd-ms", 3, 100001, ncclSum}, Case{"qsgd-ms:norm=global", 2, 20000, ncclAvg},
        Case{"qsgd", 2, 50000, ncclAvg, "ring"}, Case{"qsgd:norm=global", 3, 900, ncclAvg, "ring"},
        Case{"qsgd-ms:bits=2/4/6", 4, 70001, ncclSum, "ring"},
        // What is selected of a chunk depends on where it ends.
        Case{"topk", 2, 100001, ncclSum, "sra", 0, "65536"},
        Case{"topk:density=0.2", 3, 70001, ncclAvg, "sra", 0, "1000000"},
        Case{"topk:density=0.05,value=16", 4, 50000, ncclSum, "ring", 0, "40960"},
        Case{"topk:select=chunk,density=0.3", 5, 90001, ncclAvg, "ring", 0, "65536"},
        Case{"randk", 2, 5003, ncclSum, "sra", 2},
        Case{"randk:density=0.2,code=q8", 3, 20000, ncclAvg, "sra", 1},
        Case{"randk:density=0.5,code=q4", 4, 9000, ncclSum, "ring", 1},
        Case{"randk:density=0.4,code=qsgd", 3, 9000, ncclAvg, "sra", 1},
        Case{"powersgd:rank=2", 2, 10000, ncclSum, "sra", 3},
        Case{"powersgd", 3, 5003, ncclAvg, "sra", 3},
        Case{"powersgd:rank=1", 4, 2000, ncclSum, "sra", 3}));

/// A shrunk child, of which not every rank of the parent has heard, and one of the same thread.
TEST(Interposer, ShrunkChildrenInherit) {
  Job job;
  constexpr int kSize = 3;
  ncclComm_t comms[kSize], children[kSize] = {};
  ASSERT_EQ(job.engine.real().CommInitAll(comms, kSize, nullptr), ncclSuccess);
  job.engine.making().made_all(comms, kSize);
  int excluded[] = {1};
  ASSERT_EQ(job.engine.group_start(), ncclSuccess);
  for (const int rank : {0, 2}) {
    ASSERT_EQ(job.engine.real().CommShrink(comms[rank], excluded, 1, &children[rank], nullptr,
                                           NCCL_SHRINK_DEFAULT),
              ncclSuccess);
    job.engine.making().made_shrunk(&children[rank], comms[rank]);
  }
  ASSERT_EQ(job.engine.group_end(), ncclSuccess);
  std::vector<float> a = make_values(0, 5000), c = make_values(2, 5000);
  const int before = sends;
  ASSERT_EQ(job.engine.group_start(), ncclSuccess);
  ASSERT_EQ(job.all_reduce(children[0], a, a), ncclSuccess);
  ASSERT_EQ(job.all_reduce(children[2], c, c), ncclSuccess);
  ASSERT_EQ(job.engine.group_end(), ncclSuccess);
  EXPECT_EQ(a, c);
  EXPECT_GT(sends, before) << "the child is not compressed";
  for (const int rank : {0, 2}) job.destroy(children[rank]);
  // All ranks have a child again: those who were left out agree with the others.
  ncclComm_t again[kSize] = {};
  ASSERT_EQ(job.engine.group_start(), ncclSuccess);
  for (int rank = 0; rank < kSize; ++rank) {
    ASSERT_EQ(job.engine.real().CommSplit(comms[rank], 0, rank, &again[rank], nullptr),
              ncclSuccess);
    job.engine.making().made_child(&again[rank], comms[rank], 0);
  }
  ASSERT_EQ(job.engine.group_end(), ncclSuccess);
  std::vector<std::vector<float>> values;
  for (int rank = 0; rank < kSize; ++rank) values.push_back(make_values(rank, 5000));
  ASSERT_EQ(job.engine.group_start(), ncclSuccess);
  for (std::size_t rank = 0; rank < kSize; ++rank) {
    ASSERT_EQ(job.all_reduce(again[rank], values[rank], values[rank]), ncclSuccess);
  }
  ASSERT_EQ(job.engine.group_end(), ncclSuccess);
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[0], values[2]);
  for (int rank = 0; rank < kSize; ++rank) {
    job.destroy(again[rank]);
    job.destroy(comms[rank]);
  }
}

void reduce_scatter_in_place(const char* codec, std::size_t count) {
  Job job(make_settings({{"RINGPRESS_CODEC", codec}}));
  constexpr int kSize = 3;
  run_ranks(job, kSize, [&](ncclComm_t comm, int rank) {
    std::vector<float> values = make_values(rank, count * kSize);
    float* own = values.data() + static_cast<std::size_t>(rank) * count;
    ASSERT_EQ(job.engine.reduce({CollectiveKind::kReduceScatter, values.data(), own, count,
                                 ncclFloat32, ncclSum, comm, nullptr}),
              ncclSuccess);
    double squared = 0, norm = 0;
    std::vector<std::vector<float>> all;
    for (int peer = 0; peer < kSize; ++peer) all.push_back(make_values(peer, count * kSize));
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (const auto& peer : all) sum += peer[static_cast<std::size_t>(rank) * count + i];
      squared += (own[i] - sum) * (own[i] - sum);
      norm += sum * sum;
    }
    EXPECT_GT(squared, 0) << codec;
    EXPECT_LT(std::sqrt(squared / norm), 0.15) << codec;
  });
}

TEST(Interposer, ReduceScatterInPlace) {
  reduce_scatter_in_place("q4", 300001);
  for (const char* codec : {"qsgd-ms", "qsgd:norm=global"}) reduce_scatter_in_place(codec, 30001);
}

TEST(Interposer, WarnsOnceOfReduceScattersWithCodecsForErrorFeedback) {
  ::testing::internal::CaptureStderr();
  Job job(make_settings({{"RINGPRESS_CODEC", "q2:block=64"}}));
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values = make_values(rank, 40000);
    for (int call = 0; call < 3; ++call) {
      ASSERT_EQ(job.engine.reduce({CollectiveKind::kReduceScatter, values.data(), values.data(),
                                   20000, ncclFloat32, ncclSum, comm, nullptr}),
                ncclSuccess);
    }
  });
  const std::string lines = ::testing::internal::GetCapturedStderr();
  const std::string warning =
      " WARN all-gathers and some reduce-scatters have no error feedback: what q2:block=64 ";
  const std::size_t first = lines.find(warning);
  ASSERT_NE(first, std::string::npos) << lines;
  EXPECT_EQ(lines.find(warning, first + 1), std::string::npos) << lines;
}

/// By rank, what all-gathers of `count` values of each of three ranks give; the second in place.
std::vector<std::vector<float>> all_gather_twice(const Settings& settings, std::size_t count) {
  constexpr int kSize = 3;
  Job job(settings);
  std::vector<std::vector<float>> results(kSize);
  run_ranks(job, kSize, [&](ncclComm_t comm, int rank) {
    const std::vector<float> own = make_values(rank, count);
    std::vector<float> first(count * kSize), second(count * kSize);
    std::copy(own.begin(), own.end(), second.begin() + rank * static_cast<std::ptrdiff_t>(count));
    for (const bool is_in_place : {false, true}) {
      std::vector<float>& into = is_in_place ? second : first;
      const float* from =
          is_in_place ? second.data() + static_cast<std::size_t>(rank) * count : own.data();
      ASSERT_EQ(job.engine.reduce({CollectiveKind::kAllGather, from, into.data(), count,
                                   ncclFloat32, ncclSum, comm, nullptr}),
                ncclSuccess);
    }
    EXPECT_EQ(first, second) << usual_codec(settings);
    results[static_cast<std::size_t>(rank)] = first;
  });
  for (const auto& result : results) EXPECT_EQ(result, results[0]) << usual_codec(settings);
  return results;
}

TEST(Interposer, AllGathersAreCompressedOnlyIfAskedFor) {
  constexpr std::size_t kCount = 100001;
  std::vector<float> exact;
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<float> own = make_values(rank, kCount);
    exact.insert(exact.end(), own.begin(), own.end());
  }
  EXPECT_EQ(all_gather_twice(make_settings(), kCount)[0], exact);
  for (const char* algorithm : {"sra", "ring"}) {
    for (const char* chunk : {"0", "16384"}) {
      const auto results = all_gather_twice(make_settings({{"RINGPRESS_ALL_GATHER", "1"},
                                                           {"RINGPRESS_CODEC", "q8"},
                                                           {"RINGPRESS_ALGO", algorithm},
                                                           {"RINGPRESS_CHUNK_BYTES", chunk}}),
                                            kCount);
      double squared = 0, norm = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) {
        squared += (results[0][i] - exact[i]) * (results[0][i] - exact[i]);
        norm += exact[i] * exact[i];
      }
      EXPECT_GT(squared, 0) << algorithm;
      EXPECT_LT(std::sqrt(squared / norm), 0.01) << algorithm;
    }
  }
  // What only sums can do.
  for (const char* codec : {"qsgd", "powersgd"}) {
    EXPECT_EQ(
        all_gather_twice(make_settings({{"RINGPRESS_ALL_GATHER", "1"}, {"RINGPRESS_CODEC", codec}}),
                         kCount)[0],
        exact)
        << codec;
  }
}

TEST(Interposer, ChunksChangeNothing) {
  constexpr std::size_t kCount = 200000;
  std::vector<std::vector<float>> results;
  for (const char* chunk : {"0", "8192", "1000000"}) {
    Job job(make_settings({{"RINGPRESS_CHUNK_BYTES", chunk}}));
    results.emplace_back();
    run_ranks(job, 3, [&](ncclComm_t comm, int rank) {
      std::vector<float> send = make_values(rank, kCount), receive(kCount);
      ASSERT_EQ(job.all_reduce(comm, send, receive), ncclSuccess);
      if (rank == 0) results.back() = receive;
    });
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

/// What a call leaves out comes with a later one.
TEST(Interposer, ErrorFeedbackMakesUpForWhatTopkLeavesOut) {
  constexpr std::size_t kCount = 30000;
  constexpr int kSteps = 60;
  double mean_error[2] = {};
  for (const char* feedback : {"0", "1"}) {
    Job job(make_settings({{"RINGPRESS_CODEC", "topk:density=0.1"}, {"RINGPRESS_EF", feedback}}));
    std::vector<std::vector<float>> last(3);
    run_ranks(job, 3, [&](ncclComm_t comm, int rank) {
      const std::vector<float> send = make_values(rank, kCount);
      std::vector<float> receive(kCount);
      std::vector<double> left(kCount);
      for (int peer = 0; peer < 3; ++peer) {
        const std::vector<float> values = make_values(peer, kCount);
        for (std::size_t i = 0; i < kCount; ++i) left[i] += values[i];
      }
      for (int step = 0; step < kSteps; ++step) {
        ASSERT_EQ(job.all_reduce(comm, send, receive), ncclSuccess);
        for (std::size_t i = 0; i < kCount; ++i) left[i] -= receive[i] / kSteps;
      }
      last[static_cast<std::size_t>(rank)] = receive;
      if (rank != 0) return;
      for (const double error : left) mean_error[feedback[0] - '0'] += error * error;
    });
    EXPECT_EQ(last[0], last[1]);
    EXPECT_EQ(last[0], last[2]);
  }
  EXPECT_GT(mean_error[1], 0);
  EXPECT_LT(mean_error[1], 0.1 * mean_error[0]);
}

/// At which call after the others each of two ranks has a residual again.
std::vector<std::size_t> resumed_by_ranks(const testing::Interruption& tried) {
  Job job(make_settings({{"RINGPRESS_CODEC", "q2"}}));
  std::vector<std::size_t> resumed(2);
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::map<char, std::vector<float>> sent;
    resumed[static_cast<std::size_t>(rank)] = testing::resumed_at(tried, [&](char call) {
      std::vector<float>& send = sent[call];
      if (send.empty()) send = make_values(rank, testing::elements_of(call));
      std::vector<float> receive(send.size());
      EXPECT_EQ(job.all_reduce(comm, send, receive), ncclSuccess);
      return receive;
    });
  });
  return resumed;
}

TEST(Interposer, ErrorFeedbackIsBackSoonAfterOtherCalls) {
  EXPECT_EQ(resumed_by_ranks({"A", 100, "X"}), (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(resumed_by_ranks({"ABCD", 10, "X"}), (std::vector<std::size_t>{4, 4}));
  EXPECT_EQ(resumed_by_ranks({"ABCD", 10, "ABxy"}), (std::vector<std::size_t>{4, 4}));
}

TEST(Interposer, GroupIsPutOffToItsOutermostEnd) {
  Job job;
  constexpr std::size_t kCount = 5000;
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> a = make_values(rank, kCount, 1), b = make_values(rank, kCount, 2);
    const std::vector<float> a_before = a;
    ASSERT_EQ(job.engine.group_start(), ncclSuccess);
    ASSERT_EQ(job.engine.group_start(), ncclSuccess);
    ASSERT_EQ(job.all_reduce(comm, a, a), ncclSuccess);
    ASSERT_EQ(job.engine.group_end(), ncclSuccess);
    ASSERT_EQ(job.all_reduce(comm, b, b), ncclSuccess);
    EXPECT_EQ(a, a_before) << "it ran before the end of the group";
    ASSERT_EQ(job.engine.group_end(), ncclSuccess);
    EXPECT_NE(a, a_before);
  });
}

TEST(Interposer, WhatIsEndedInAGroupEndsAfterItsCalls) {
  Job job;
  const ncclUniqueId id = job.make_id();
  sends = 0;
  run_threads(2, [&](int rank) {
    const ncclComm_t comm = job.join(id, 2, rank);
    std::vector<float> values(30000, rank == 0 ? 1.0f : 2.0f);
    ASSERT_EQ(job.engine.group_start(), ncclSuccess);
    ASSERT_EQ(job.all_reduce(comm, values, values), ncclSuccess);
    ASSERT_EQ(job.engine.end_in_order(comm, job.engine.real().CommFinalize), ncclSuccess);
    job.destroy(comm);
    ASSERT_EQ(job.engine.group_end(), ncclSuccess) << job.engine.last_error(nullptr);
    EXPECT_EQ(values.back(), 3.0f);
  });
  EXPECT_GT(sends, 0);
}

TEST(Interposer, RanksOfOneThreadTakeEveryStepTogether) {
  Job job;
  constexpr int kSize = 3;
  constexpr std::size_t kCount = 400000;
  ncclComm_t comms[kSize];
  ASSERT_EQ(job.engine.real().CommInitAll(comms, kSize, nullptr), ncclSuccess);
  job.engine.making().made_all(comms, kSize);
  std::vector<std::vector<float>> values, more;
  for (int rank = 0; rank < kSize; ++rank) {
    values.push_back(make_values(rank, kCount));
    more.push_back(make_values(rank, 3000, 5));
  }
  all_reduces = 0;
  ASSERT_EQ(job.engine.group_start(), ncclSuccess);
  for (int rank = 0; rank < kSize; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    ASSERT_EQ(job.all_reduce(comms[rank], values[r], values[r]), ncclSuccess);
    ASSERT_EQ(job.all_reduce(comms[rank], more[r], more[r]), ncclSuccess);
  }
  ASSERT_EQ(job.engine.group_end(), ncclSuccess);
  EXPECT_EQ(all_reduces, 0);
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[0], values[2]);
  EXPECT_EQ(more[0], more[2]);
  for (const ncclComm_t comm : comms) job.destroy(comm);
}

TEST(Interposer, RanksThatJoinInOneGroupAgree) {
  Job job;
  const ncclUniqueId id = job.make_id();
  ncclComm_t comms[2] = {};
  ASSERT_EQ(job.engine.group_start(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(job.engine.real().CommInitRank(&comms[rank], 2, id, rank), ncclSuccess);
    job.engine.making().made_rank(&comms[rank], id);
  }
  ASSERT_EQ(job.engine.group_end(), ncclSuccess);
  std::vector<float> a = make_values(0, 5000), b = make_values(1, 5000);
  all_reduces = 0;
  ASSERT_EQ(job.engine.group_start(), ncclSuccess);
  ASSERT_EQ(job.all_reduce(comms[0], a, a), ncclSuccess);
  ASSERT_EQ(job.all_reduce(comms[1], b, b), ncclSuccess);
  ASSERT_EQ(job.engine.group_end(), ncclSuccess);
  EXPECT_EQ(a, b);
  EXPECT_EQ(all_reduces, 0);
  for (const ncclComm_t comm : comms) job.destroy(comm);
}

// Each of three ranks has a communicator with each of the others and names its own first: nobody
// begins where another one does.
TEST(Interposer, CommunicatorsOfAGroupAreNamedInAnyOrder) {
  Job job;
  constexpr int kPairs = 3;
  const ncclUniqueId ids[kPairs] = {job.make_id(), job.make_id(), job.make_id()};
  std::vector<float> results[kPairs][2];
  run_threads(kPairs, [&](int rank) {
    const int own = rank, other = (rank + kPairs - 1) % kPairs;
    ncclComm_t comms[kPairs] = {};
    for (int pair = 0; pair < kPairs; ++pair) {
      if (pair == own) comms[pair] = job.join(ids[pair], 2, 0);
      if (pair == other) comms[pair] = job.join(ids[pair], 2, 1);
    }
    results[own][0] = make_values(rank, 5000);
    results[other][1] = make_values(rank, 5000, 1);
    ASSERT_EQ(job.engine.group_start(), ncclSuccess);
    ASSERT_EQ(job.all_reduce(comms[own], results[own][0], results[own][0]), ncclSuccess);
    ASSERT_EQ(job.all_reduce(comms[other], results[other][1], results[other][1]), ncclSuccess);
    EXPECT_EQ(job.engine.group_end(), ncclSuccess);
    job.destroy(comms[own]);
    job.destroy(comms[other]);
  });
  for (const auto& pair : results) EXPECT_EQ(pair[0], pair[1]);
}

TEST(Interposer, SplitChildrenInherit) {
  Job job;
  run_ranks(job, 4, [&](ncclComm_t comm, int rank) {
    ncclComm_t child = nullptr;
    const int color = rank == 3 ? NCCL_SPLIT_NOCOLOR : 0;
    ASSERT_EQ(job.engine.real().CommSplit(comm, color, -rank, &child, nullptr), ncclSuccess);
    job.engine.making().made_child(&child, comm, color);
    if (color == NCCL_SPLIT_NOCOLOR) return;
    const int before = sends;
    std::vector<float> values = make_values(rank, 5000);
    ASSERT_EQ(job.all_reduce(child, values, values), ncclSuccess);
    EXPECT_GT(sends, before) << "the child is not compressed";
    job.destroy(child);
  });
}

TEST(Interposer, WhatIsNotEligibleIsForwarded) {
  Job job;
  run_ranks(job, 2, [&](ncclComm_t comm, int rank) {
    std::vector<float> values = make_values(rank, 5000), receive(5000);
    const int before = all_reduces;
    ASSERT_EQ(job.all_reduce(comm, values, receive, ncclMax), ncclSuccess);
    std::vector<float> few(10, 1), sum(10);
    ASSERT_EQ(job.all_reduce(comm, few, sum), ncclSuccess);
    EXPECT_EQ(sum, std::vector<float>(10, 2));
    EXPECT_GE(all_reduces, before + 2);
    EXPECT_EQ(job.engine.reduce({CollectiveKind::kAllReduce, nullptr, nullptr, 0, ncclFloat32,
                                 ncclSum, comm, nullptr}),
              ncclSuccess);
    for (const std::size_t absurd : {SIZE_MAX, SIZE_MAX / 8 + 1, SIZE_MAX / 8 + 6}) {
      EXPECT_NE(job.engine.reduce({CollectiveKind::kAllReduce, values.data(), receive.data(),
                                   absurd, ncclFloat32, ncclSum, comm, nullptr}),
                ncclSuccess);
    }
  });
}

TEST(Interposer, AbortFromAnotherThreadEndsACall) {
  Job job;
  const ncclUniqueId id = job.make_id();
  std::atomic<bool> is_gone{false};
  run_threads(2, [&](int rank) {
    const ncclComm_t comm = job.join(id, 2, rank);
    std::vector<float> values = make_values(rank, 2000000);
    if (rank == 0) {
      std::thread watchdog([&] {
        EXPECT_EQ(job.engine.end(comm, Engine::Ending::kAbort,
                                 [&] { return job.engine.real().CommAbort(comm); }),
                  ncclSuccess);
        is_gone = true;
      });
      ncclResult_t result = ncclSuccess;
      // Nothing is called once the watchdog is done: the handle is no more.
      while (result == ncclSuccess && !is_gone) result = job.all_reduce(comm, values, values);
      watchdog.join();
    } else {
      ncclResult_t result = ncclSuccess;
      while (result == ncclSuccess) result = job.all_reduce(comm, values, values);
      EXPECT_NE(result, ncclSuccess);
      job.engine.end(comm, Engine::Ending::kAbort,
                     [&] { return job.engine.real().CommAbort(comm); });
    }
  });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::interposer
