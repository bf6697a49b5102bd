// After its first steps a communicator allocates nothing, in any thread, and no thread holds a
// mutex while it calls the system for a socket.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "ringpress/internal/communicator.h"
#include "tests/support/call_counter.h"
#include "tests/support/peer_group.h"
#include "tests/support/random_tensor.h"

namespace ringpress::testing {
namespace {

using Known = PiecewiseTensor::Known;

constexpr std::size_t kCount = 300000;  // Several chunks a shard, the last ones ragged.
constexpr std::size_t kSmallCount = 1000;
constexpr int kFirstSteps = 4;
constexpr int kCountedSteps = 10;

struct Case {
  std::string name;
  std::string codec;
  std::string algorithm;
  int size = 3;
  bool shared_memory = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.codec << ", " << c.algorithm << ", " << c.size << " ranks";
}

struct Tensors {
  std::vector<float> input;
  std::vector<float> output;
};

/// As CollNet does: a tensor in two pieces.
Status reduce_pieces(Communicator* communicator, Known known, const Tensors& tensors,
                     float* result) {
  PiecewiseTensor tensor;
  tensor.known = known;
  if (known == Known::kTensor || known == Known::kExtent) tensor.count = kCount;
  tensor.address = tensors.input.data();
  RINGPRESS_RETURN_IF_ERROR(communicator->pieces().start(tensor));
  constexpr std::size_t kFirst = kCount / 3;
  const float* const values = tensors.input.data();
  RINGPRESS_RETURN_IF_ERROR(communicator->pieces().run(values, result, 0, kFirst));
  return communicator->pieces().run(values + kFirst, result + kFirst, kFirst, kCount - kFirst);
}

/// What a step of a program may hold: calls of different sizes and types, and pieces.
Status run_step(Communicator* communicator, Tensors* tensors) {
  const float* const input = tensors->input.data();
  float* const output = tensors->output.data();
  const auto reduce = [&](std::size_t count, DType dtype) {
    return communicator->all_reduce(input, output, count, dtype, {});
  };
  RINGPRESS_RETURN_IF_ERROR(reduce(kCount, DType::kFloat32));
  RINGPRESS_RETURN_IF_ERROR(reduce(kCount, DType::kInt32));
  RINGPRESS_RETURN_IF_ERROR(reduce(kSmallCount, DType::kFloat32));
  for (const Known known : {Known::kTensor, Known::kExtent, Known::kPadded, Known::kNothing}) {
    RINGPRESS_RETURN_IF_ERROR(reduce_pieces(communicator, known, *tensors, output));
  }
  return Status::ok();
}

/// In one rank, a process of its own: what was counted, as text.
std::string count_calls(Communicator* communicator) {
  Tensors tensors;
  tensors.input = random_gradient(kCount, 1, communicator->rank());
  tensors.output.resize(kCount);
  Status status;
  for (int step = 0; step < kFirstSteps + kCountedSteps && status.is_ok(); ++step) {
    if (step == kFirstSteps) start_counting();
    status = run_step(communicator, &tensors);
  }
  const CallCounts counts = stop_counting();
  // Nobody says goodbye while others count.
  if (status.is_ok()) status = run_step(communicator, &tensors);
  if (!status.is_ok()) return to_text(status);
  if (counts.socket_calls == 0) return "no socket calls seen";
  return std::to_string(counts.allocations) + " allocations, " +
         std::to_string(counts.socket_calls_locked) + " socket calls under a lock";
}

class SteadyState : public ::testing::TestWithParam<Case> {};

/// `tool` not null: it is told of calls.
void expect_steady_state(const Case& c, const char* tool) {
  IdExchange ids(c.size);
  const auto reports = run_peers(PeerKind::kProcesses, c.size, [&](int rank) -> std::string {
    if (tool != nullptr) setenv("NVTX_INJECTION64_PATH", tool, 1);
    setenv("NVTX_RECORD", "/dev/null", 1);
    const Settings settings = parse_settings({{"RINGPRESS_CODEC", c.codec},
                                              {"RINGPRESS_ALGO", c.algorithm},
                                              {"RINGPRESS_SOCKET_IFNAME", "lo"},
                                              {"RINGPRESS_SHM", c.shared_memory ? "1" : "0"},
                                              {"RINGPRESS_TIMEOUT_MS", "100000"}},
                                             nullptr);
    const UniqueIdBytes id = ids.share(rank, [&] { return make_unique_id(settings).value(); });
    const auto communicator = Communicator::create(id, rank, c.size, settings);
    if (!communicator.is_ok()) return to_text(communicator.status());
    return count_calls(communicator.value().get());
  });
  for (const PeerReport& report : reports) {
    EXPECT_EQ(report.text, "0 allocations, 0 socket calls under a lock");
  }
}

TEST_P(SteadyState, AllocatesNothingAndLocksNothing) {
  expect_steady_state(GetParam(), nullptr);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& codec, const std::string& algorithm, int size,
                       bool shared_memory) {
    const std::string name = std::to_string(all.size()) + "_" + codec.substr(0, codec.find(':')) +
                             "_" + algorithm + (shared_memory ? "_shm" : "");
    all.push_back({name, codec, algorithm, size, shared_memory});
  };
  for (const char* codec :
       {"none", "fp16", "q2", "q4", "q8", "q4:grid=lloyd", "q4:grid=minmax", "q1", "sign", "tern",
        "qsgd:bits=4", "qsgd-ms:bits=4/8", "fp8", "lossless"}) {
    for (const char* algorithm : {"sra", "ring"}) add(codec, algorithm, 3, false);
  }
  for (const char* algorithm : {"sra", "ring"}) {
    add("q4", algorithm, 2, false);
    add("none", algorithm, 4, false);  // Small calls by doubling.
    add("q4", algorithm, 3, true);
    add("none", algorithm, 3, true);
  }
  for (Case& c : all) std::replace(c.name.begin(), c.name.end(), '-', '_');
  return all;
}

INSTANTIATE_TEST_SUITE_P(Codecs, SteadyState, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

#ifdef NVTX_RECORDER
TEST(SteadyStateAlone, RangesOfNvtxAllocateNothingEither) {
  expect_steady_state({"", "q4:block=128,grid=minmax", "sra", 2}, NVTX_RECORDER);
}
#endif

/// RINGPRESS_CODEC=auto between processes that are hosts of their own, as NCCL is told of such.
/// Calls after the trials, among them those that begin with an announcement.
std::string count_automatic_calls(Communicator* communicator) {
  constexpr std::size_t kTuned = 17000;
  constexpr int kTrials = 600, kSettled = 2500;
  const std::vector<float> input = random_gradient(kTuned, 1, communicator->rank());
  std::vector<float> output(kTuned);
  Status status;
  for (int call = 0; call < kTrials + kSettled && status.is_ok(); ++call) {
    if (call == kTrials) start_counting();
    status = communicator->all_reduce(input.data(), output.data(), kTuned, DType::kFloat32, {});
  }
  const CallCounts counts = stop_counting();
  if (!status.is_ok()) return to_text(status);
  const Statistics statistics = communicator->statistics();
  const auto tried = statistics.exact_calls.find("has not recurred yet");
  if (tried == statistics.exact_calls.end() || tried->second == statistics.calls) {
    return "automatic mode had no part in it";
  }
  // A trial makes a codec, and rank 0 room for times; on a busy machine there are more of them. No
  // call that is not the first of a trial allocates.
  return counts.allocations < kSettled ? "few" : std::to_string(counts.allocations);
}

TEST(SteadyStateAlone, AutomaticModeHardlyAllocatesOnceItHasSettled) {
  constexpr int kRanks = 3;
  IdExchange ids(kRanks);
  const auto reports = run_peers(PeerKind::kProcesses, kRanks, [&](int rank) -> std::string {
    setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
    const Settings settings = parse_settings({{"RINGPRESS_CODEC", "auto"},
                                              {"RINGPRESS_CACHE", "off"},
                                              {"RINGPRESS_SOCKET_IFNAME", "lo"},
                                              {"RINGPRESS_TIMEOUT_MS", "100000"}},
                                             nullptr);
    const UniqueIdBytes id = ids.share(rank, [&] { return make_unique_id(settings).value(); });
    const auto communicator = Communicator::create(id, rank, kRanks, settings);
    if (!communicator.is_ok()) return to_text(communicator.status());
    return count_automatic_calls(communicator.value().get());
  });
  for (const PeerReport& report : reports) EXPECT_EQ(report.text, "few");
}

TEST(CallCounter, CountsAllocationsAndSocketCallsUnderALock) {
  start_counting();
  // Through a pointer that the compiler does not see through.
  void* (*volatile allocate)(std::size_t) = &malloc;
  free(allocate(1));
  std::mutex mutex;
  msghdr message{};
  recvmsg(-1, &message, 0);
  {
    const std::lock_guard lock(mutex);
    recvmsg(-1, &message, 0);
  }
  const CallCounts counts = stop_counting();
  EXPECT_EQ(counts.allocations, 1);
  EXPECT_EQ(counts.socket_calls, 2);
  EXPECT_EQ(counts.socket_calls_locked, 1);
}

}  // namespace
}  // namespace ringpress::testing
