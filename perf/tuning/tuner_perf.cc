// What automatic mode costs a call, besides the call: of one that it leaves alone, and of one whose
// choice is settled; and rank 0 while it looks for a step. Nanoseconds, the median of several
// rounds, beside a read of the clock.
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>

#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/steps/step_recorder.h"
#include "nccl_plugin/session/steps/step_trace.h"
#include "nccl_plugin/session/tuning/tuned_calls.h"
#include "perf/tuning/nanoseconds.h"
#include "tuner/factory.h"

namespace ringpress {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kCalls = 100000;
constexpr double kCallSeconds = 1e-3;  // That calls are said to take.
constexpr int kSearchedCalls = 8192;   // After so many that repeat nothing the search ends.
constexpr std::size_t kStepCalls = 50;

/// Of two ranks that are never waited for.
class Alone final : public nccl_plugin::tuning::Peers {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  bool is_local(int peer) const override { return peer == 0; }
  Status sum(std::span<float>) override { return Status::ok(); }
  Status swap(int, std::span<const float>, std::span<float>) override { return Status::ok(); }
  Status max(std::span<double>) override { return Status::ok(); }
  Status broadcast(std::span<std::byte>) override { return Status::ok(); }
  std::uint64_t sent_bytes() const override { return 0; }
};

/// Plans a call as a communicator does, and tunes it, or not.
class Calls {
 public:
  Calls(std::size_t count, DType dtype, bool is_tuned) : is_tuned_(is_tuned) {
    settings_ = parse_settings({{"RINGPRESS_CACHE", "off"}}, nullptr);
    planner_ = tuner::make_planner(settings_);
    request_ = {CollectiveKind::kAllReduce, count, dtype, ReduceOp::kSum, false, 2, true};
    request_.call_class = CallClass::kGradient;
    tuned_ = std::make_unique<nccl_plugin::tuning::TunedCalls>(settings_, peers_);
    for (int i = 0; i < 2000; ++i) make();  // Settles.
  }

  void make() {
    decision_ = planner_->plan(request_);
    if (!is_tuned_) return;
    const auto choice = tuned_->choose(request_, decision_);
    if (!choice.is_ok()) std::abort();
    decision_ = nccl_plugin::follow_tuned(choice.value(), request_, decision_);
    tuned_->note(kCallSeconds);
  }

 private:
  const bool is_tuned_;
  Settings settings_;
  Alone peers_;
  std::unique_ptr<Planner> planner_;
  PlanRequest request_;
  Decision decision_;
  std::unique_ptr<nccl_plugin::tuning::TunedCalls> tuned_;
};

/// A call that is timed and shown to the search for a step, of one of kStepCalls sizes in turn or
/// of any size.
double nanoseconds_of_search(bool repeats) {
  nccl_plugin::StepRecorder recorder;
  nccl_plugin::CallClock clock;
  std::mt19937 dice(1);
  std::size_t made = 0;
  const auto call = [&] {
    nccl_plugin::TensorCall tensor;
    tensor.count = 100000 + (repeats ? made % kStepCalls : dice() % 1000000);
    ++made;
    clock.begin_call(0);
    recorder.note(clock.end_call(tensor, 0));
  };
  return nanoseconds_of(call, kSearchedCalls / kRounds);
}

void print_row(const char* what, std::size_t count, DType dtype) {
  Calls plain(count, dtype, false);
  Calls tuned(count, dtype, true);
  const double without = nanoseconds_of([&] { plain.make(); }, kCalls);
  const double with = nanoseconds_of([&] { tuned.make(); }, kCalls);
  std::printf("%-52s %8.1f %8.1f %8.1f\n", what, without, with, with - without);
}

}  // namespace
}  // namespace ringpress

int main() {
  using namespace ringpress;
  std::printf("%-52s %8s %8s %8s\n", "ns a call, planned", "alone", "tuned", "more");
  print_row("float32, 64 elements: smaller than RINGPRESS_MIN_BYTES", 64, DType::kFloat32);
  print_row("int64, 1 Mi elements: always exact", 1 << 20, DType::kInt64);
  print_row("float32, 1 Mi elements: settled", 1 << 20, DType::kFloat32);
  std::printf("%-52s %26.1f\n", "rank 0 looks for a step: calls of one of 50",
              nanoseconds_of_search(true));
  std::printf("%-52s %26.1f\n", "rank 0 looks for a step: calls that repeat nothing",
              nanoseconds_of_search(false));
  std::printf("%-52s %8.1f\n", "a read of the clock",
              nanoseconds_of([] { static_cast<void>(Clock::now()); }, kCalls));
  return 0;
}
