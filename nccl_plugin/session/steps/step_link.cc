#include "nccl_plugin/session/steps/step_link.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ringpress/internal/espresso.h"

namespace ringpress::nccl_plugin {
namespace {

/// What calls take at no size is believed from so many times its error on.
constexpr double kSureLatency = 3;
/// The rate is looked for within so many times that of bytes over time, up and down.
constexpr double kMostTimesApparent = 16;
constexpr int kHalvings = 50;
constexpr int kRounds = 4;
/// By this part all calls together may well take more or less than they would by the model.
constexpr double kUsualError = 0.02;
/// A step's time that differs by more, from one likely link to another, is not known.
constexpr double kClearly = 0.08;
/// A burst does not make calls so much quicker than a measured rate allows.
constexpr double kMostQuicker = 1.5;
/// Of calls that are much shorter than exact ones.
constexpr double kShortRatio = 0.15;

/// A line through what calls sent and how long they took.
struct CallLine {
  double start_seconds = 0, seconds_per_byte = 0;
  double start_error = 0;  // By which the start is off by chance, about.

  bool has_latency() const {
    return seconds_per_byte > 0 && start_seconds >= 0 &&
           start_seconds >= kSureLatency * start_error;
  }
};

/// Least squares. No error is known where all calls have one size, and no slope.
struct CallSums {
  double count = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0, errors = 0;

  explicit CallSums(const RecordedStep& step) {
    for (const StepCall& call : step.calls) {
      const auto sent = static_cast<double>(call.sent_bytes);
      count += 1;
      x += sent;
      y += call.call_seconds;
      xx += sent * sent;
      xy += sent * call.call_seconds;
      yy += call.call_seconds * call.call_seconds;
      errors += call.call_error_seconds * call.call_error_seconds;
    }
  }

  CallLine line() const {
    CallLine line;
    const double spread = count * xx - x * x;
    if (spread <= 1e-9 * count * xx) return line;
    line.seconds_per_byte = (count * xy - x * y) / spread;
    line.start_seconds = (y - line.seconds_per_byte * x) / count;
    // What the line leaves, and what medians are off by: no less than the larger is not known.
    const double left = std::max(0.0, yy - line.start_seconds * y - line.seconds_per_byte * xy);
    const double error = std::max(count > 2 ? left / (count - 2) : 0, errors / count);
    line.start_error = std::sqrt(error * xx / spread);
    return line;
  }
};

double seconds_in_calls(const RecordedStep& step) {
  double seconds = 0;
  for (const StepCall& call : step.calls) seconds += call.call_seconds;
  return seconds;
}

CodecSpeed codec_without_work(const std::string& name, double ratio) {
  CodecSpeed speed;
  speed.codec = name;
  speed.ratio = ratio;
  return speed;
}

LinkSpeed link_with(double latency, double rate) {
  return {std::max(0.0, latency), rate};
}

/// What the cost model says of a step's calls behind one link or another.
class ModelOfCalls {
 public:
  ModelOfCalls(const RecordedStep& step, std::size_t world, const CodecSpeed& codec)
      : step_(step), codec_(codec), job_(job_of(step, world, {})) {
    exact_ = compresses() ? codec_without_work("none", 1) : codec;
    for (const StepCall& call : step.calls) {
      is_compressed_.push_back(compresses() && was_compressed(call, world));
    }
  }

  /// The step with the times of calls that the model says. Those that sent nothing are left.
  Result<RecordedStep> behind(const LinkSpeed& link) {
    set_link(link);
    RINGPRESS_RETURN_IF_ERROR(espresso::price_calls(exact_, codec_, 0, &job_));
    RecordedStep step = step_;
    for (std::size_t i = 0; i < step.calls.size(); ++i) {
      if (step.calls[i].sent_bytes > 0) step.calls[i].call_seconds = price_of(i);
    }
    return step;
  }

  /// The rate with which calls take so long in all.
  Result<double> rate_for(double seconds, double latency, double apparent) {
    double slow = apparent / kMostTimesApparent, quick = apparent * kMostTimesApparent;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(slow * quick);
      RINGPRESS_ASSIGN_OR_RETURN(const RecordedStep modelled, behind(link_with(latency, middle)));
      (seconds_in_calls(modelled) > seconds ? slow : quick) = middle;
    }
    return std::sqrt(slow * quick);
  }

  /// What the step takes with calls of another length: exact where they were compressed, else with
  /// a codec.
  Result<double> other_seconds(const LinkSpeed& link) {
    set_link(link);
    RINGPRESS_RETURN_IF_ERROR(
        espresso::price_calls(exact_, codec_without_work("short", kShortRatio), 0, &job_));
    const std::vector<espresso::Option> options = espresso::call_options();
    return compresses() ? espresso::plan_nothing(job_, options).seconds
                        : espresso::plan_everything(job_, options).seconds;
  }

 private:
  bool compresses() const { return codec_.ratio < 1; }

  void set_link(const LinkSpeed& link) {
    job_.cluster.between = {link.latency_seconds, link.bytes_per_second};
    job_.cluster.inside = job_.cluster.between;
  }

  double price_of(std::size_t call) const {
    const std::size_t bytes = job_.tensors[call].bytes;
    const auto price = std::lower_bound(
        job_.calls.begin(), job_.calls.end(), bytes,
        [](const espresso::CallSeconds& one, std::size_t of) { return one.bytes < of; });
    return is_compressed_[call] ? price->compressed : price->exact;
  }

  const RecordedStep& step_;
  const CodecSpeed& codec_;
  CodecSpeed exact_;
  espresso::Job job_;
  std::vector<bool> is_compressed_;
};

/// Other links that the calls may have had: a little quicker and slower ones, and such with as much
/// more or less latency as the line through the calls may be off by. Calls of one size have no
/// line, and may be all latency.
Result<bool> is_sure_link(const LinkSpeed& found, double seconds, const CallLine& line,
                          std::size_t calls, ModelOfCalls* model) {
  const double most = seconds / (2.0 * static_cast<double>(calls));
  const bool has_line = line.seconds_per_byte != 0;
  const double off =
      has_line ? line.start_error + std::abs(line.has_latency() ? 0 : line.start_seconds / 2)
               : most;
  struct Other {
    double latency, seconds;
  };
  const double latency = found.latency_seconds;
  const std::array<Other, 4> others = {{{latency, seconds * (1 - kUsualError)},
                                        {latency, seconds * (1 + kUsualError)},
                                        {std::min(most, latency + off), seconds},
                                        {std::max(0.0, latency - off), seconds}}};
  RINGPRESS_ASSIGN_OR_RETURN(const double usual, model->other_seconds(found));
  for (const Other& other : others) {
    RINGPRESS_ASSIGN_OR_RETURN(
        const double rate, model->rate_for(other.seconds, other.latency, found.bytes_per_second));
    RINGPRESS_ASSIGN_OR_RETURN(const double step,
                               model->other_seconds(link_with(other.latency, rate)));
    if (std::abs(step / usual - 1) > kClearly) return false;
  }
  return true;
}

/// The latency with which calls take so long in all, or 0 if they take longer without any.
Result<double> latency_for(double seconds, double rate, double most, ModelOfCalls* model) {
  double low = 0, high = most;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    RINGPRESS_ASSIGN_OR_RETURN(const RecordedStep modelled, model->behind({middle, rate}));
    (seconds_in_calls(modelled) < seconds ? low : high) = middle;
  }
  return low;
}

/// A link that was measured to have this rate, behind calls of so many seconds in all. What they
/// take besides is the same for calls of any length. Calls that are quicker than that rate allows
/// had the use of a burst that the link lets pass: the truth is taken to be between the two. None:
/// they are so much quicker that the link was busy when it was measured.
Result<std::optional<StepLink>> link_with_rate(double rate, std::size_t calls, double seconds,
                                               ModelOfCalls* model) {
  RINGPRESS_ASSIGN_OR_RETURN(const RecordedStep at_least, model->behind({0, rate}));
  if (seconds_in_calls(at_least) <= seconds) {
    RINGPRESS_ASSIGN_OR_RETURN(
        const double latency,
        latency_for(seconds, rate, seconds / static_cast<double>(calls), model));
    return std::optional(StepLink{{latency, rate}, true, true});
  }
  RINGPRESS_ASSIGN_OR_RETURN(const double quicker, model->rate_for(seconds, 0, rate));
  if (quicker > kMostQuicker * rate) return std::optional<StepLink>();
  return std::optional(StepLink{{0, std::sqrt(rate * quicker)}, true, true});
}

}  // namespace

double exact_bytes(const StepCall& call, std::size_t world) {
  const auto ranks = static_cast<double>(world);
  return 2 * (ranks - 1) / ranks * static_cast<double>(call.bytes());
}

bool was_compressed(const StepCall& call, std::size_t world) {
  return static_cast<double>(call.sent_bytes) < kCompressedShare * exact_bytes(call, world);
}

Result<LinkSpeed> link_of(const RecordedStep& step) {
  const CallSums sums(step);
  if (!(sums.x > 0) || !(sums.y > 0)) {
    return Status(Code::kInvalidUsage, "no call of the step sent anything");
  }
  const CallLine line = sums.line();
  // Two latencies a call: to whom adds up, and back.
  if (line.has_latency()) return LinkSpeed{line.start_seconds / 2, 1 / line.seconds_per_byte};
  return LinkSpeed{0, sums.x / sums.y};
}

Result<StepLink> link_behind(const RecordedStep& step, std::size_t world, const CodecSpeed& codec,
                             const std::optional<LinkSpeed>& measured) {
  RINGPRESS_ASSIGN_OR_RETURN(const LinkSpeed seen, link_of(step));
  ModelOfCalls model(step, world, codec);
  const double seconds = seconds_in_calls(step);
  StepLink link = {seen};
  for (int round = 0; round < kRounds; ++round) {
    RINGPRESS_ASSIGN_OR_RETURN(
        link.speed.bytes_per_second,
        model.rate_for(seconds, link.speed.latency_seconds, seen.bytes_per_second));
    if (seen.latency_seconds == 0) break;
    // Of the line's beginning, the codec's starts are no latency.
    RINGPRESS_ASSIGN_OR_RETURN(const RecordedStep modelled, model.behind(link.speed));
    const double start = CallSums(modelled).line().start_seconds;
    link.speed.latency_seconds =
        std::max(0.0, link.speed.latency_seconds + seen.latency_seconds - std::max(0.0, start) / 2);
  }
  RINGPRESS_ASSIGN_OR_RETURN(link.is_sure, is_sure_link(link.speed, seconds, CallSums(step).line(),
                                                        step.calls.size(), &model));
  if (link.is_sure || !measured) return link;
  RINGPRESS_ASSIGN_OR_RETURN(
      const std::optional<StepLink> by_itself,
      link_with_rate(measured->bytes_per_second, step.calls.size(), seconds, &model));
  return by_itself.value_or(link);
}

}  // namespace ringpress::nccl_plugin
