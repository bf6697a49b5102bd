// What the engine costs a call besides the call, where error feedback, levels, lazy all-reduces or
// recorders of steps are on. Nanoseconds, the median of several rounds.
//
//   calls_perf                the tables
//   calls_perf ROW CALLS      so many calls of a row of the first table, for tools that count
//                             instructions
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/mesh_communicator.h"
#include "perf/tuning/nanoseconds.h"
#include "ringpress/internal/mesh.h"
#include "ringpress/internal/settings.h"

namespace ringpress {
namespace {

using nccl_plugin::CallUser;
using nccl_plugin::CallUsers;
using nccl_plugin::TensorCall;

constexpr int kCalls = 20000;
constexpr std::size_t kStepCalls = 50;

/// Of two ranks on two hosts. Whatever this one sends has arrived, and what comes is zeros.
class ZeroMesh final : public Mesh {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  bool is_local(int peer) const override { return peer == 0; }
  int ranks_per_host() const override { return 1; }
  Result<Request*> isend(int, ConstBuffer payload, const FrameLabel&) override {
    counters_.sent_bytes += payload.bytes;
    return take(0);
  }
  Result<Request*> irecv(int, Buffer into, const FrameLabel&) override {
    std::memset(into.data, 0, into.bytes);
    return take(into.bytes);
  }
  Result<Request*> irecv_view(int, FrameLength length, const FrameLabel&) override {
    return take(length.bytes);
  }
  Result<ConstBuffer> wait(Request* request) override {
    return ConstBuffer{zeros_.data(), static_cast<Transfer*>(request)->bytes};
  }
  Result<bool> poll(Request*) override { return true; }
  void release(Request*) override {}
  Result<Buffer> staging(std::size_t, std::size_t bytes) override {
    staging_.resize(std::max(staging_.size(), bytes));
    return Buffer{staging_.data(), staging_.size()};
  }
  bool reads_staging(int, std::size_t) const override { return false; }
  void set_timeout(std::chrono::milliseconds) override {}
  void abort(const Status& reason) override { failure_ = reason; }
  Status check() override { return failure_; }
  Status failure() const override { return failure_; }
  MeshCounters counters() const override { return counters_; }

 private:
  struct Transfer : Request {
    std::size_t bytes = 0;
  };

  Request* take(std::size_t bytes) {
    Transfer& one = transfers_[next_++ % transfers_.size()];
    one.bytes = bytes;
    return &one;
  }

  std::array<Transfer, 64> transfers_;
  std::size_t next_ = 0;
  std::vector<std::byte> zeros_ = std::vector<std::byte>(1 << 20);
  std::vector<std::byte> staging_;
  MeshCounters counters_;
  Status failure_;
};

struct Row {
  const char* what;
  std::vector<std::pair<std::string, std::string>> variables;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> rows = {
      {"RINGPRESS=off", {{"RINGPRESS", "off"}}},
      {"q4", {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_EF", "0"}}},
      {"q4, error feedback, levels",
       {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_ADJUST_STEPS", "100"}}},
      {"q4, error feedback, levels, lazy",
       {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_ADJUST_STEPS", "100"}, {"RINGPRESS_LAZY", "2"}}},
      {"auto, error feedback, plans for steps",
       {{"RINGPRESS_CODEC", "auto"}, {"RINGPRESS_CACHE", "off"}}},
      {"q4, error feedback, levels, RINGPRESS_TRACE",
       {{"RINGPRESS_CODEC", "q4"},
        {"RINGPRESS_ADJUST_STEPS", "100"},
        {"RINGPRESS_TRACE", "/dev/null"}}},
      {"auto, error feedback, lazy, levels, RINGPRESS_TRACE",
       {{"RINGPRESS_CODEC", "auto"},
        {"RINGPRESS_CACHE", "off"},
        {"RINGPRESS_ADJUST_STEPS", "100"},
        {"RINGPRESS_LAZY", "2"},
        {"RINGPRESS_TRACE", "/dev/null"}}},
      {"q4, error feedback, lazy, levels, RINGPRESS_TRACE",
       {{"RINGPRESS_CODEC", "q4"},
        {"RINGPRESS_ADJUST_STEPS", "100"},
        {"RINGPRESS_LAZY", "2"},
        {"RINGPRESS_TRACE", "/dev/null"}}},
      {"q4, RINGPRESS_LIVE",
       {{"RINGPRESS_CODEC", "q4"}, {"RINGPRESS_EF", "0"}, {"RINGPRESS_LIVE", "/dev/null"}}},
      {"q4, RINGPRESS_LIVE, RINGPRESS_TIMELINE",
       {{"RINGPRESS_CODEC", "q4"},
        {"RINGPRESS_EF", "0"},
        {"RINGPRESS_LIVE", "/dev/null"},
        {"RINGPRESS_TIMELINE", "/dev/null"}}},
  };
  return rows;
}

/// A communicator that makes calls that are left alone, as they are small.
class SmallCalls {
 public:
  explicit SmallCalls(const Row& row)
      : comm_(std::make_unique<ZeroMesh>(), parse_settings(row.variables, nullptr)) {}

  void make() {
    const Status status =
        comm_.all_reduce(values_.data(), values_.data(), values_.size(), DType::kFloat32, {});
    if (!status.is_ok()) std::abort();
  }

 private:
  std::vector<float> values_ = std::vector<float>(64);
  nccl_plugin::MeshCommunicator comm_;
};

/// A tensor of a step of kStepCalls, or one that comes once.
TensorCall next_tensor(bool repeats, std::size_t made, std::mt19937* dice) {
  TensorCall tensor;
  tensor.count = 100000 + (repeats ? made % kStepCalls : (*dice)() % 1000000);
  tensor.address = &rows() + tensor.count;
  return tensor;
}

/// All users, each with patterns of its own.
double nanoseconds_of_own_patterns(bool repeats) {
  std::array<nccl_plugin::CallPattern, 3> buffers;
  std::array<nccl_plugin::CallPattern, 4> shapes;
  std::mt19937 dice(1);
  std::size_t made = 0;
  const auto call = [&] {
    TensorCall tensor = next_tensor(repeats, made++, &dice);
    for (auto& pattern : buffers) static_cast<void>(pattern.observe(tensor));
    tensor.address = nullptr;
    for (auto& pattern : shapes) static_cast<void>(pattern.observe(tensor));
  };
  return nanoseconds_of(call, repeats ? kCalls : 500);
}

double nanoseconds_of_sequence(bool repeats) {
  nccl_plugin::CallSequence sequence;
  constexpr CallUsers kUsers{CallUser::kFeedback, CallUser::kTrace, CallUser::kPlan,
                             CallUser::kLevels};
  std::mt19937 dice(1);
  std::size_t made = 0;
  const auto call = [&] {
    const TensorCall tensor = next_tensor(repeats, made++, &dice);
    sequence.begin_call();
    sequence.tell(tensor, kUsers);
    for (const CallUser user :
         {CallUser::kFeedback, CallUser::kTrace, CallUser::kPlan, CallUser::kLevels}) {
      static_cast<void>(sequence.ask(user, tensor));
    }
  };
  return nanoseconds_of(call, repeats ? kCalls : 500);
}

void print_tables() {
  std::printf("%-60s %8s %8s\n", "ns: an all-reduce of 64 floats, over a mesh that does nothing",
              "a call", "more");
  double off = 0;
  for (const Row& row : rows()) {
    SmallCalls calls(row);
    const double taken = nanoseconds_of([&] { calls.make(); }, kCalls);
    if (off == 0) off = taken;
    std::printf("%-60s %8.1f %8.1f\n", row.what, taken, taken - off);
  }
  std::printf("\n%-60s %8s %8s\n", "ns: four users are told of a call", "patterns", "sequence");
  std::printf("%-60s %8.1f %8.1f\n", "of a step of 50 that is known",
              nanoseconds_of_own_patterns(true), nanoseconds_of_sequence(true));
  std::printf("%-60s %8.1f %8.1f\n", "of calls that repeat nothing",
              nanoseconds_of_own_patterns(false), nanoseconds_of_sequence(false));
}

}  // namespace
}  // namespace ringpress

int main(int argc, char** argv) {
  using namespace ringpress;
  if (argc != 3) {
    print_tables();
    return 0;
  }
  const auto row = static_cast<std::size_t>(std::atoi(argv[1]));
  if (row >= rows().size()) return 2;
  SmallCalls calls(rows()[row]);
  for (int i = std::atoi(argv[2]); i > 0; --i) calls.make();
  return 0;
}
