#include "nccl_plugin/step_recorder.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace ringpress::nccl_plugin {
namespace {

// Steps of which medians are taken: the newest.
constexpr std::size_t kMostSamples = 16;
// A thread that is on a core for more of its pauses than this computes in them.
constexpr double kBusyShare = 0.5;

template <typename Samples, typename Field>
auto median(const Samples& samples, Field field) {
  std::vector<std::decay_t<decltype(field(samples.front()))>> values;
  for (const auto& sample : samples) values.push_back(field(sample));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double RecordedStep::seconds() const {
  double seconds = 0;
  for (const StepCall& call : calls) seconds += call.gap_seconds + call.call_seconds;
  return seconds;
}

std::size_t RecordedStep::bytes() const {
  std::size_t bytes = 0;
  for (const StepCall& call : calls) bytes += call.bytes();
  return bytes;
}

bool RecordedStep::overlaps() const {
  double gaps = 0, busy = 0;
  for (const StepCall& call : calls) {
    gaps += call.gap_seconds;
    busy += call.busy_seconds;
  }
  return busy <= kBusyShare * gaps;
}

void StepRecorder::note(const RecordedCall& call) {
  has_calls_ = true;
  const std::optional<std::size_t> position = locate(call.call);
  if (position && last_end_) add(*position, call);
  last_end_ = call.end_seconds;
}

void StepRecorder::skip() {
  if (!last_end_) return;  // As before.
  restart(Source::kNone);
  with_address_ = {};
  without_address_ = {};
  last_end_.reset();
}

/// As ErrorFeedback does: with addresses, or without if the sequence shows where it begins.
std::optional<std::size_t> StepRecorder::locate(const TensorCall& call) {
  TensorCall shape = call;
  shape.address = nullptr;
  const std::uint64_t breaks_with = with_address_.breaks();
  const std::uint64_t breaks_without = without_address_.breaks();
  const auto position = with_address_.observe(call);
  const auto shape_position = without_address_.observe(shape);
  if ((source_ == Source::kWithAddress && with_address_.breaks() != breaks_with) ||
      (source_ == Source::kWithoutAddress && without_address_.breaks() != breaks_without)) {
    restart(Source::kNone);
  }
  if (position) {
    if (source_ != Source::kWithAddress) restart(Source::kWithAddress);
    return position;
  }
  if (shape_position && without_address_.has_landmark()) {
    if (source_ != Source::kWithoutAddress) restart(Source::kWithoutAddress);
    return shape_position;
  }
  return std::nullopt;
}

/// Keeps what was found if more calls were part of it than of what is kept.
void StepRecorder::restart(Source source) {
  if (auto found = current()) {
    if (found->steps * found->calls.size() > best_.steps * best_.calls.size()) {
      best_ = std::move(*found);
    }
  }
  positions_.clear();
  noted_ = 0;
  source_ = source;
  const bool has_address = source == Source::kWithAddress;
  if (source != Source::kNone) {
    positions_.resize(has_address ? with_address_.period() : without_address_.period());
  }
}

void StepRecorder::add(std::size_t position, const RecordedCall& call) {
  // Only what has the same call before it, one step after the other: from a beginning on.
  if (noted_ == 0 && position != 0) return;
  Position& place = positions_[position];
  place.call = call.call;
  place.is_by_rule = call.is_by_rule;
  if (source_ == Source::kWithoutAddress) place.call.address = nullptr;
  const double gap = std::max(0.0, call.begin_seconds - *last_end_);
  const Sample sample = {gap, std::clamp(call.busy_before_seconds, 0.0, gap),
                         std::max(0.0, call.end_seconds - call.begin_seconds), call.sent_bytes};
  const std::size_t step = noted_ / positions_.size();
  if (place.samples.size() < kMostSamples) {
    place.samples.push_back(sample);
  } else {
    place.samples[step % kMostSamples] = sample;
  }
  ++noted_;
}

std::optional<RecordedStep> StepRecorder::current() const {
  if (positions_.empty() || noted_ / positions_.size() < kWantedSteps) return std::nullopt;
  if (source_ == Source::kWithoutAddress && noted_ < kCertainCalls) return std::nullopt;
  RecordedStep found;
  found.steps = noted_ / positions_.size();
  for (const Position& position : positions_) {
    const auto& samples = position.samples;
    found.calls.push_back(
        {position.call, median(samples, [](const Sample& s) { return s.gap_seconds; }),
         median(samples, [](const Sample& s) { return s.busy_seconds; }),
         median(samples, [](const Sample& s) { return s.call_seconds; }),
         median(samples, [](const Sample& s) { return s.sent_bytes; }), position.is_by_rule});
  }
  const auto first = std::max_element(
      found.calls.begin(), found.calls.end(),
      [](const StepCall& a, const StepCall& b) { return a.gap_seconds < b.gap_seconds; });
  const auto rotation = static_cast<std::size_t>(first - found.calls.begin());
  found.next = (noted_ % positions_.size() + positions_.size() - rotation) % positions_.size();
  std::rotate(found.calls.begin(), first, found.calls.end());
  return found;
}

std::optional<RecordedStep> StepRecorder::step() const {
  std::optional<RecordedStep> now = current();
  const bool is_more = now && now->steps * now->calls.size() > best_.steps * best_.calls.size();
  if (is_more) return now;
  if (best_.calls.empty()) return std::nullopt;
  return best_;
}

/// Least squares; where that gives no sense, the rate alone.
Result<LinkSpeed> link_of(const RecordedStep& step) {
  double count = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const StepCall& call : step.calls) {
    const auto sent = static_cast<double>(call.sent_bytes);
    count += 1;
    x += sent;
    y += call.call_seconds;
    xx += sent * sent;
    xy += sent * call.call_seconds;
  }
  if (!(x > 0) || !(y > 0)) {
    return Status(Code::kInvalidUsage, "no call of the step sent anything");
  }
  const double spread = count * xx - x * x;
  if (spread > 1e-9 * count * xx) {
    const double seconds_per_byte = (count * xy - x * y) / spread;
    const double start = (y - seconds_per_byte * x) / count;
    // Two latencies a call: to whom adds up, and back.
    if (seconds_per_byte > 0 && start >= 0) return LinkSpeed{start / 2, 1 / seconds_per_byte};
  }
  return LinkSpeed{0, x / y};
}

espresso::Job job_of(const RecordedStep& step, std::size_t world, const LinkSpeed& link) {
  espresso::Job job;
  job.cluster.machines = world;
  job.cluster.gpus_per_machine = 1;
  job.cluster.between = {link.latency_seconds, link.bytes_per_second};
  job.cluster.inside = job.cluster.between;
  const bool overlaps = step.overlaps();
  double since_ready = 0;  // From when the tensor before was ready.
  for (std::size_t i = 0; i < step.calls.size(); ++i) {
    const StepCall& call = step.calls[i];
    double backward = 0;
    if (i == 0) {
      job.forward_seconds = call.gap_seconds;
    } else if (!overlaps) {
      backward = call.gap_seconds;
    } else {
      since_ready += call.gap_seconds;
      if (call.gap_seconds > kAtOnceSeconds) backward = std::exchange(since_ready, 0);
    }
    since_ready += call.call_seconds;
    job.tensors.push_back(
        {"call " + std::to_string(i), std::max<std::size_t>(1, call.bytes()), backward});
  }
  return job;
}

}  // namespace ringpress::nccl_plugin
