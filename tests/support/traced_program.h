// Programs that train, simulated on several ranks: what a recorder on rank 0 sees of their calls,
// and what their steps take. Ranks compute at a pace of their own, steps are of different length,
// and now and then a rank is held up.
#ifndef TESTS_SUPPORT_TRACED_PROGRAM_H_
#define TESTS_SUPPORT_TRACED_PROGRAM_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <optional>
#include <vector>

#include "nccl_plugin/session/steps/step_recorder.h"
#include "perf/espresso/random_job.h"
#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/espresso.h"

namespace ringpress::testing {

enum class TracedShape {
  kWaits,             // One thread: the compute of a gradient, then its call, and so on.
  kEnd,               // All of the compute, then one call after the other.
  kGroup,             // All of the compute, then all calls in one group.
  kThread,            // One thread computes, another one makes the calls.
  kNonblocking,       // The next gradient is computed while a nonblocking call is under way.
  kNonblockingWaits,  // A nonblocking call is waited for before anything else is done.
};
inline constexpr const char* kTracedShapes[] = {"waits",  "end",         "group",
                                                "thread", "nonblocking", "nonblocking-waits"};

/// How calls are made while they are recorded. An exact one and one that is only observed look the
/// same.
enum class TracedWay { kExact, kCodec, kAutomatic };
inline constexpr const char* kTracedWays[] = {"exact", "codec", "auto"};

struct TracedProgram {
  TracedShape shape = TracedShape::kWaits;
  bool is_on_core = false;  // What computes does so on a core; else it sleeps, as for a device.
  std::size_t ranks = 2;
  LinkSpeed link;
  double forward_seconds = 0;
  double optimizer_seconds = 0;  // After the last call.
  std::vector<double> backward_seconds;
  std::vector<std::size_t> bytes;
  double jitter = 0;        // Of a piece of compute, on each rank by itself, as a part of it,
  double call_jitter = 0;   // and of a call.
  double step_spread = 0;   // Of all the compute of a step, on all ranks alike,
  double rank_spread = 0;   // and on each rank by itself.
  double delay_chance = 0;  // Of each piece of compute and each call, on each rank.
  double delay_seconds = 0;
};

inline CodecSpeed traced_exact() {
  CodecSpeed speed;
  speed.codec = "none";
  speed.hop = {2e-7, 1e-10};
  return speed;
}

/// Leaves a seventh.
inline CodecSpeed traced_codec() {
  CodecSpeed speed;
  speed.codec = "q4";
  speed.ratio = 1.0 / 7;
  speed.error = 0.05;
  speed.encode = {1e-6, 3e-10};
  speed.decode = {1e-6, 2e-10};
  speed.hop = {1e-6, 5e-10};
  return speed;
}

/// Exact, the network takes about as long as compute or several times that.
inline TracedProgram random_traced_program(TracedShape shape, std::uint64_t seed) {
  perf::RandomNumbers random(seed * 0x9E3779B97F4A7C15U + 17);
  TracedProgram program;
  program.shape = shape;
  program.is_on_core = random.one_of({true, false});
  program.ranks = random.one_of<std::size_t>({2, 3, 4});
  program.link = {random.log_uniform(2e-5, 5e-4), random.log_uniform(5e6, 1e9)};
  const std::size_t tensors = 2 + static_cast<std::size_t>(random.uniform(0, 9));
  const double calls_seconds = random.log_uniform(0.03, 0.5);
  const double compute_seconds = calls_seconds * random.log_uniform(0.15, 1.5);
  const double typical_bytes =
      calls_seconds / static_cast<double>(tensors) * program.link.bytes_per_second / 2;
  const double spread = random.one_of({1.05, 1.5, 4.0});
  double backward = 0;
  for (std::size_t i = 0; i < tensors; ++i) {
    const double bytes = typical_bytes * random.log_uniform(1 / spread, spread);
    program.bytes.push_back(4 * std::max<std::size_t>(1000, static_cast<std::size_t>(bytes / 4)));
    program.backward_seconds.push_back(random.log_uniform(0.4, 2.5));
    backward += program.backward_seconds.back();
  }
  for (double& seconds : program.backward_seconds) seconds *= compute_seconds * 0.6 / backward;
  program.forward_seconds = 0.35 * compute_seconds;
  program.optimizer_seconds = 0.05 * compute_seconds * random.uniform(0, 2);
  program.jitter = random.one_of({0.001, 0.01, 0.05});
  program.call_jitter = random.one_of({0.0, 0.003, 0.02, 0.08});
  program.step_spread = random.one_of({0.0, 0.02, 0.2});
  program.rank_spread = random.one_of({0.0, 0.01, 0.05});
  // A few steps of a hundred are held up, or every tenth.
  const double places = static_cast<double>(program.ranks * (2 * tensors + 2));
  program.delay_chance = random.one_of({0.0, 0.02, 0.1}) / places;
  program.delay_seconds = random.log_uniform(1e-3, 0.05);
  return program;
}

/// Runs a program. Rank 0's calls go to a recorder.
class TracedRun {
 public:
  TracedRun(const TracedProgram& program, TracedWay way, std::uint64_t seed)
      : program_(program), way_(way), random_(seed), now_(program.ranks, 1), ready_(now_) {
    last_ends_ = now_;
    for (std::size_t i = 0; i < program.bytes.size(); ++i) {
      prices_.tensors.push_back({"t", program.bytes[i], program.backward_seconds[i]});
    }
    prices_.cluster = {program.ranks, 1, {}, {}};
    prices_.cluster.between = {program.link.latency_seconds, program.link.bytes_per_second};
    prices_.cluster.inside = prices_.cluster.between;
    const Status priced = espresso::price_calls(traced_exact(), traced_codec(), 0, &prices_);
    RINGPRESS_EXPECTS(priced.is_ok(), priced.message());
  }

  /// `recorder` may be null.
  void steps(std::size_t count, nccl_plugin::StepRecorder* recorder) {
    recorder_ = recorder;
    for (std::size_t i = 0; i < count; ++i) {
      const double begin = now_[0];
      step();
      taken_.push_back(now_[0] - begin);
      ++steps_;
    }
  }

  /// Of rank 0, in the median.
  double step_seconds() const {
    std::vector<double> taken = taken_;
    std::sort(taken.begin(), taken.end());
    return taken[taken.size() / 2];
  }

 private:
  using Clocks = std::vector<double>;

  void step() {
    const double step_pace = 1 + program_.step_spread * random_.uniform(-1, 1);
    paces_.assign(program_.ranks, step_pace);
    for (double& pace : paces_) pace *= 1 + program_.rank_spread * normal();
    compute(program_.forward_seconds, &now_);
    ready_ = now_;
    first_ = true;
    const bool is_late =
        program_.shape == TracedShape::kEnd || program_.shape == TracedShape::kGroup;
    if (is_late) {
      for (const double seconds : program_.backward_seconds) compute(seconds, &now_);
      ready_ = now_;
    }
    for (std::size_t i = 0; i < program_.bytes.size(); ++i) call_next(i, is_late);
    for (std::size_t r = 0; r < program_.ranks; ++r) now_[r] = std::max(ready_[r], last_ends_[r]);
    compute(program_.optimizer_seconds, &now_);
  }

  void call_next(std::size_t tensor, bool is_late) {
    const double backward = program_.backward_seconds[tensor];
    std::optional<double> awaited = issued_;  // Where it waits as soon as a call is issued.
    switch (program_.shape) {
      case TracedShape::kWaits:
      case TracedShape::kNonblockingWaits:
        compute(backward, &now_);
        break;
      case TracedShape::kEnd:
      case TracedShape::kGroup:
        break;
      case TracedShape::kThread:
        compute(backward, &ready_);
        for (std::size_t r = 0; r < program_.ranks; ++r) {
          now_[r] = std::max(now_[r], ready_[r] + random_.uniform(5e-6, 30e-6));  // It wakes up.
        }
        break;
      case TracedShape::kNonblocking:
        compute(backward, &now_);
        if (tensor > 0) awaited = now_[0];
        for (std::size_t r = 0; r < program_.ranks; ++r) {
          if (tensor > 0) now_[r] = std::max(now_[r], last_ends_[r]);
        }
        break;
    }
    for (double& now : now_) now += random_.uniform(1e-6, 10e-6);
    const bool is_in_group = program_.shape == TracedShape::kGroup && tensor > 0;
    if (!is_in_group) issued_ = now_[0];
    std::optional<nccl_plugin::CallIssue> issue;
    if (program_.shape == TracedShape::kGroup) issue = {issued_, std::nullopt};
    if (is_nonblocking()) issue = {issued_, awaited};
    make_call(tensor, issue);
    const bool goes_on = program_.shape == TracedShape::kNonblocking;
    if (!goes_on || tensor + 1 == program_.bytes.size()) now_ = last_ends_;
    if (!is_late && program_.shape != TracedShape::kThread) ready_ = now_;
  }

  bool is_nonblocking() const {
    return program_.shape == TracedShape::kNonblocking ||
           program_.shape == TracedShape::kNonblockingWaits;
  }

  /// All ranks take part from where now_ is; ends are last_ends_.
  void make_call(std::size_t tensor, const std::optional<nccl_plugin::CallIssue>& issue) {
    const Made made = way_of(tensor);
    double begin = 0;
    Clocks begins;
    for (std::size_t r = 0; r < program_.ranks; ++r) {
      begins.push_back(std::max(now_[r], last_ends_[r]));
      begin = std::max(begin, begins[r]);
    }
    const double end = begin + call_seconds(tensor, made);
    nccl_plugin::RecordedCall call;
    call.call.count = program_.bytes[tensor] / sizeof(float);
    call.call.address = &program_.bytes[tensor];
    call.begin_seconds = issue ? std::max(issue->issued_seconds, last_ends_[0]) : begins[0];
    call.issue = issue;
    const double gap = call.begin_seconds - last_ends_[0];
    call.busy_before_seconds = busy_part() * gap;
    if (gap <= nccl_plugin::kAtOnceSeconds) call.busy_before_seconds = gap;
    for (double& last : last_ends_) last = end + random_.uniform(0, 20e-6);
    call.end_seconds = last_ends_[0];
    call.sent_bytes = sent_bytes(tensor, made);
    call.is_trial = made.is_trial;
    if (recorder_ != nullptr) recorder_->note(call);
    first_ = false;
  }

  /// Of a pause, what the thread that makes calls is on a core.
  double busy_part() const {
    const bool computes_itself =
        !is_nonblocking() && (program_.shape != TracedShape::kThread || first_);
    return program_.is_on_core && computes_itself ? 1.0 : 0.02;
  }

  struct Made {
    bool is_compressed = false, is_trial = false;
  };

  /// Automatic mode tries calls at first, and now and then later.
  Made way_of(std::size_t tensor) {
    if (way_ != TracedWay::kAutomatic) return {way_ == TracedWay::kCodec, false};
    if (steps_ < 2) return {false, false};
    const bool is_trial = random_.uniform(0, 1) < (steps_ < 12 ? 0.5 : 0.04);
    return {!is_trial || (steps_ + tensor) % 2 == 0, is_trial};
  }

  double call_seconds(std::size_t tensor, const Made& made) {
    const espresso::CallSeconds& price =
        *std::find_if(prices_.calls.begin(), prices_.calls.end(),
                      [&](const auto& call) { return call.bytes == program_.bytes[tensor]; });
    const double usual = made.is_compressed ? price.compressed : price.exact;
    double seconds = usual * (1 + program_.call_jitter * std::abs(normal()));
    for (std::size_t r = 0; r < program_.ranks; ++r) seconds += delay();
    return seconds;
  }

  std::size_t sent_bytes(std::size_t tensor, const Made& made) const {
    const auto ranks = static_cast<double>(program_.ranks);
    const double exact = 2 * static_cast<double>(program_.bytes[tensor]) * (ranks - 1) / ranks;
    return static_cast<std::size_t>(made.is_compressed ? exact * traced_codec().ratio : exact);
  }

  void compute(double seconds, Clocks* clocks) {
    for (std::size_t r = 0; r < program_.ranks; ++r) {
      const double own = seconds * paces_[r] * std::max(0.2, 1 + program_.jitter * normal());
      (*clocks)[r] += own + delay();
    }
  }

  double delay() {
    if (random_.uniform(0, 1) >= program_.delay_chance) return 0;
    return -program_.delay_seconds * std::log(random_.uniform(1e-6, 1));
  }

  double normal() {
    const double length = std::sqrt(-2 * std::log(random_.uniform(1e-12, 1)));
    return length * std::cos(2 * std::numbers::pi * random_.uniform(0, 1));
  }

  const TracedProgram program_;
  const TracedWay way_;
  perf::RandomNumbers random_;
  espresso::Job prices_;
  Clocks paces_;  // Of each rank, in this step.
  Clocks now_, ready_;
  Clocks last_ends_;   // Of the call before.
  double issued_ = 1;  // The last one, on rank 0.
  bool first_ = true;
  std::size_t steps_ = 0;
  std::vector<double> taken_;
  nccl_plugin::StepRecorder* recorder_ = nullptr;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_TRACED_PROGRAM_H_
