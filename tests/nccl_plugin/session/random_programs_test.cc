// Programs and settings by chance: whatever calls come, of whatever sizes, ranks end with the same
// bytes, exact calls with the exact ones, and nothing is read or written beside a call's buffers,
// which are as long as the call and nobody else's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "tests/support/random_tensor.h"
#include "tests/support/sanitizers.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin::random_programs_test {
namespace {

using Random = std::mt19937_64;
using Environment = std::vector<std::pair<std::string, std::string>>;

enum class CallKind { kSum, kAverage, kMax, kReduceScatter, kAllGather, kBroadcast };

struct ProgramCall {
  CallKind kind = CallKind::kSum;
  std::size_t count = 0;  // Of a rank.
  bool has_new_buffer = false;
  bool is_in_place = false;
  int rank_without_number = -1;  // One of whose values is none.
};

struct Program {
  int world = 2;
  Environment environment;
  std::vector<ProgramCall> calls;
};

std::size_t below(std::size_t end, Random& random) {
  return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
}

template <typename T>
const T& one_of(const std::vector<T>& choices, Random& random) {
  return choices[below(choices.size(), random)];
}

Environment random_settings(Random& random) {
  static const std::vector<std::string> codecs = {"q4",
                                                  "q4",
                                                  "q3:block=64",
                                                  "q8",
                                                  "q2:grid=lloyd",
                                                  "q4:round=stochastic",
                                                  "bf16",
                                                  "q1",
                                                  "auto",
                                                  "qsgd",
                                                  "topk:density=0.1",
                                                  "randk:density=0.2",
                                                  "powersgd:rank=2",
                                                  "sign"};
  const std::vector<std::pair<std::string, std::vector<std::string>>> others = {
      {"RINGPRESS_EF", {"auto", "scales", "scales", "plain", "0"}},
      {"RINGPRESS_ADJUST_STEPS", {"0", "0", "0", "3"}},
      {"RINGPRESS_LAZY", {"0", "0", "0", "2"}},
      {"RINGPRESS_WARMUP_STEPS", {"auto", "0", "3"}},
      {"RINGPRESS_WARMUP_CODECS", {"none", "q8", "none;topk:density=0.3;powersgd:rank=4"}},
      {"RINGPRESS_EF_MAX_BYTES", {"0", "0", "30000"}},
      {"RINGPRESS_MIN_BYTES", {"1", "400", "65536"}},
      {"RINGPRESS_ALGO", {"auto", "ring", "sra", "hier"}},
      {"RINGPRESS_CHUNK_BYTES", {"0", "4096"}},
      {"RINGPRESS_BUDGET", {"q4", "error=0.02"}},
  };
  Environment chosen = {{"RINGPRESS_CODEC", one_of(codecs, random)},
                        {"RINGPRESS_CACHE", "off"},
                        {"RINGPRESS_GRADIENTS", "all"},
                        {"RINGPRESS_DEBUG", "error"},
                        {"RINGPRESS_TUNING_CALLS", "1"},
                        {"RINGPRESS_TUNING_WARM_UP", "1"}};
  for (const auto& [name, values] : others) chosen.emplace_back(name, one_of(values, random));
  return chosen;
}

ProgramCall random_call(Random& random, int world) {
  ProgramCall call;
  call.kind = one_of<CallKind>(
      {CallKind::kSum, CallKind::kSum, CallKind::kSum, CallKind::kAverage, CallKind::kMax,
       CallKind::kReduceScatter, CallKind::kAllGather, CallKind::kBroadcast},
      random);
  call.count =
      one_of<std::size_t>({1, 7, 128, 1000, 1024, 4000, 20000, below(3000, random)}, random);
  call.has_new_buffer = below(4, random) == 0;
  call.is_in_place = below(2, random) == 0;
  if (below(40, random) == 0) {
    call.rank_without_number = static_cast<int>(below(static_cast<std::size_t>(world), random));
  }
  return call;
}

/// Steps of the same calls, with others between.
Program random_program(std::uint64_t seed) {
  Random random(seed);
  Program program;
  program.world = 2 + static_cast<int>(below(3, random));
  program.environment = random_settings(random);
  std::vector<ProgramCall> step(1 + below(5, random));
  for (ProgramCall& call : step) call = random_call(random, program.world);
  for (std::size_t i = 0; i < 16; ++i) {
    for (ProgramCall call : step) {
      call.rank_without_number = below(60, random) == 0 ? 0 : -1;
      program.calls.push_back(call);
      if (below(12, random) == 0) program.calls.push_back(random_call(random, program.world));
    }
  }
  return program;
}

/// Of exactly so many values, so that what is read beside them is seen.
std::unique_ptr<float[]> values_of(const ProgramCall& call, std::size_t number, int rank) {
  const std::vector<float> made = testing::random_gradient(call.count, number, rank);
  std::unique_ptr<float[]> values(new float[call.count]);
  for (std::size_t i = 0; i < call.count; ++i) values[i] = made[i] * (i % 5 == 0 ? 8 : 1);
  if (call.rank_without_number == rank && call.count > 0) {
    values[call.count / 2] = std::numeric_limits<float>::quiet_NaN();
  }
  return values;
}

class RankOfProgram {
 public:
  RankOfProgram(std::unique_ptr<Mesh> mesh, const Settings& settings)
      : communicator_(std::move(mesh), settings) {}

  /// Empty: all calls ended well.
  std::string run(const Program& program) {
    for (std::size_t i = 0; i < program.calls.size(); ++i) {
      const Status status = make(program.calls[i], i);
      if (!status.is_ok()) return "call " + std::to_string(i) + ": " + status.message();
    }
    return "";
  }
  /// Of calls whose ranks all have the same: of another kind none.
  const std::vector<std::vector<float>>& results() const { return results_; }

 private:
  Status make(const ProgramCall& call, std::size_t number) {
    std::unique_ptr<float[]> send = values_of(call, number, communicator_.rank());
    if (!call.has_new_buffer) {
      // Where the last one of this size was.
      std::unique_ptr<float[]>& kept = buffers_[call.count];
      if (kept != nullptr) std::copy_n(send.get(), call.count, kept.get());
      if (kept == nullptr) kept = std::move(send);
      const Status status = make_on(call, kept.get());
      return status;
    }
    return make_on(call, send.get());
  }

  Status make_on(const ProgramCall& call, float* send) {
    const auto world = static_cast<std::size_t>(communicator_.size());
    const std::size_t received = call.kind == CallKind::kReduceScatter
                                     ? call.count / world
                                     : call.count * (call.kind == CallKind::kAllGather ? world : 1);
    const bool is_in_place = call.is_in_place && received == call.count;
    std::unique_ptr<float[]> other(is_in_place ? nullptr : new float[received]);
    float* const receive = is_in_place ? send : other.get();
    const Status status = start(call, send, receive, received);
    const bool is_kept = status.is_ok() && call.kind != CallKind::kReduceScatter;
    results_.emplace_back(receive, is_kept ? receive + received : receive);
    return status;
  }

  Status start(const ProgramCall& call, const float* send, float* receive, std::size_t received) {
    constexpr DType kType = DType::kFloat32;
    switch (call.kind) {
      case CallKind::kSum:
        return communicator_.all_reduce(send, receive, call.count, kType, {});
      case CallKind::kAverage:
        return communicator_.all_reduce(send, receive, call.count, kType, {ReduceOp::kAvg});
      case CallKind::kMax:
        return communicator_.all_reduce(send, receive, call.count, kType, {ReduceOp::kMax});
      case CallKind::kReduceScatter:
        return communicator_.reduce_scatter(send, receive, received, kType, {});
      case CallKind::kAllGather:
        return communicator_.all_gather(send, receive, call.count, kType);
      case CallKind::kBroadcast:
        return communicator_.broadcast(send, receive, call.count, kType, 1);
    }
    return {Code::kInvalidArgument, "no such call"};
  }

  MeshCommunicator communicator_;
  std::map<std::size_t, std::unique_ptr<float[]>> buffers_;
  std::vector<std::vector<float>> results_;
};

std::string describe(const Program& program) {
  std::string text = std::to_string(program.world) + " ranks";
  for (const auto& [name, value] : program.environment) text += " " + name + "=" + value;
  return text;
}

bool are_same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool is_exact(const ProgramCall& call) {
  return call.kind == CallKind::kMax || call.kind == CallKind::kAllGather ||
         call.kind == CallKind::kBroadcast;
}

/// What each value of an exact call's result is.
float expected_value(const Program& program, std::size_t number, std::size_t i,
                     const std::vector<std::unique_ptr<float[]>>& of_ranks) {
  const ProgramCall& call = program.calls[number];
  if (call.kind == CallKind::kBroadcast) return of_ranks[1][i];
  if (call.kind == CallKind::kAllGather) return of_ranks[i / call.count][i % call.count];
  float most = of_ranks[0][i];
  for (const auto& values : of_ranks) most = std::max(most, values[i]);
  return most;
}

void expect_exact(const Program& program, std::size_t number, const std::vector<float>& result) {
  std::vector<std::unique_ptr<float[]>> of_ranks;
  for (int rank = 0; rank < program.world; ++rank) {
    of_ranks.push_back(values_of(program.calls[number], number, rank));
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float expected = expected_value(program, number, i, of_ranks);
    ASSERT_EQ(std::memcmp(&result[i], &expected, sizeof(float)), 0) << "value " << i;
  }
}

void expect_right(const Program& program,
                  const std::vector<std::unique_ptr<RankOfProgram>>& ranks) {
  for (std::size_t number = 0; number < program.calls.size(); ++number) {
    SCOPED_TRACE("call " + std::to_string(number));
    const ProgramCall& call = program.calls[number];
    const std::vector<float>& result = ranks[0]->results()[number];
    for (const auto& rank : ranks) ASSERT_TRUE(are_same_bytes(rank->results()[number], result));
    if (is_exact(call) && call.rank_without_number < 0) expect_exact(program, number, result);
  }
}

void run_program(const Program& program) {
  SCOPED_TRACE(describe(program));
  const Settings settings = parse_settings(program.environment, nullptr);
  ASSERT_EQ(settings.mistake, "");
  const auto fabric = std::make_shared<testing::ThreadFabric>(program.world, false);
  std::vector<std::unique_ptr<RankOfProgram>> ranks(static_cast<std::size_t>(program.world));
  std::vector<std::string> failures(ranks.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      ranks[rank] = std::make_unique<RankOfProgram>(
          std::make_unique<testing::ThreadMesh>(fabric, static_cast<int>(rank)), settings);
      failures[rank] = ranks[rank]->run(program);
    });
  }
  threads.clear();
  for (const std::string& failure : failures) ASSERT_EQ(failure, "");
  expect_right(program, ranks);
}

TEST(RandomPrograms, RanksEndWithTheSameBytes) {
#if defined(RINGPRESS_WITH_ASAN) || defined(RINGPRESS_WITH_TSAN)
  constexpr std::uint64_t kPrograms = 25;
#else
  constexpr std::uint64_t kPrograms = 60;
#endif
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE("program " + std::to_string(seed));
    run_program(random_program(seed));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::random_programs_test
