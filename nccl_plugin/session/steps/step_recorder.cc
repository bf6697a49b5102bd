#include "nccl_plugin/session/steps/step_recorder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

namespace ringpress::nccl_plugin {
namespace {

// Steps of which medians are taken: the newest.
constexpr std::size_t kMostSamples = 32;
// A part of them, at least, says how a call is made.
constexpr double kUsualShare = 0.5;
// What calls send that are made the same way differs by less.
constexpr double kSameSize = 0.02;
// Pauses are believed from so many on, and if what they show is so many times what chance does.
constexpr std::size_t kFewestPauses = 8;
constexpr double kMoreThanChance = 2.5;
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
  if (waits_for_calls) return false;
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
  remember(call);
}

/// For the call after it.
void StepRecorder::remember(const RecordedCall& call) {
  const bool is_after_pause = !last_end_ || call.begin_seconds - *last_end_ > kAtOnceSeconds;
  if (is_after_pause) last_pause_ = call.begin_seconds;
  last_issue_ = call.issue ? call.issue->issued_seconds : call.begin_seconds;
  last_end_ = call.end_seconds;
}

StepRecorder::Sample StepRecorder::sample_of(const RecordedCall& call) const {
  Sample sample = {};
  sample.gap_seconds = std::max(0.0, call.begin_seconds - *last_end_);
  sample.busy_seconds = std::clamp(call.busy_before_seconds, 0.0, sample.gap_seconds);
  sample.call_seconds = std::max(0.0, call.end_seconds - call.begin_seconds);
  sample.since_ready_seconds = call.begin_seconds - last_pause_;
  sample.sent_bytes = call.sent_bytes;
  sample.is_trial = call.is_trial;
  if (!call.issue) return sample;
  const double issued = call.issue->issued_seconds;
  sample.is_with_the_one_before = issued == last_issue_;
  if (sample.is_with_the_one_before || !call.issue->awaited_seconds) return sample;
  const double awaited = std::clamp(*call.issue->awaited_seconds, last_issue_, issued);
  sample.wait =
      KnownWait{awaited - last_issue_, std::max(0.0, issued - std::max(awaited, *last_end_))};
  return sample;
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
  const Sample sample = sample_of(call);
  const std::size_t step = noted_ / positions_.size();
  if (place.samples.size() < kMostSamples) {
    place.samples.push_back(sample);
  } else {
    place.samples[step % kMostSamples] = sample;
  }
  ++noted_;
}

/// Those of calls that were made as most of them are; but for trials, if there are others.
std::vector<StepRecorder::Sample> StepRecorder::usual(const std::vector<Sample>& samples) {
  std::vector<Sample> kept;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(kept),
               [](const Sample& sample) { return !sample.is_trial; });
  if (kept.size() < kWantedSteps) kept = samples;
  std::sort(kept.begin(), kept.end(),
            [](const Sample& a, const Sample& b) { return a.sent_bytes < b.sent_bytes; });
  std::size_t first = 0, most = 0;
  for (std::size_t begin = 0, end = 0; begin < kept.size(); ++begin) {
    const double largest = (1 + kSameSize) * static_cast<double>(kept[begin].sent_bytes);
    while (end < kept.size() && static_cast<double>(kept[end].sent_bytes) <= largest) ++end;
    if (end - begin <= most) continue;
    first = begin;
    most = end - begin;
  }
  // Where sizes hang on values, none is usual.
  if (static_cast<double>(most) < kUsualShare * static_cast<double>(kept.size())) return kept;
  return {kept.begin() + static_cast<std::ptrdiff_t>(first),
          kept.begin() + static_cast<std::ptrdiff_t>(first + most)};
}

StepCall StepRecorder::step_call(const Position& position) {
  const std::vector<Sample> samples = usual(position.samples);
  StepCall call;
  call.call = position.call;
  call.is_by_rule = position.is_by_rule;
  call.gap_seconds = median(samples, [](const Sample& s) { return s.gap_seconds; });
  call.busy_seconds = median(samples, [](const Sample& s) { return s.busy_seconds; });
  call.call_seconds = median(samples, [](const Sample& s) { return s.call_seconds; });
  call.sent_bytes = median(samples, [](const Sample& s) { return s.sent_bytes; });
  call.since_ready_seconds = median(samples, [](const Sample& s) { return s.since_ready_seconds; });
  call.is_with_the_one_before =
      median(samples, [](const Sample& s) { return s.is_with_the_one_before ? 1 : 0; }) == 1;
  std::vector<KnownWait> waits;
  for (const Sample& sample : samples) {
    if (sample.wait) waits.push_back(*sample.wait);
  }
  if (2 * waits.size() > samples.size()) {
    call.wait = {median(waits, [](const KnownWait& w) { return w.before_seconds; }),
                 median(waits, [](const KnownWait& w) { return w.after_seconds; })};
  }
  return call;
}

/// Over all pauses but those before a step.
bool StepRecorder::wait_for_calls(const std::vector<Position>& positions, std::size_t first) {
  double count = 0, sum = 0, squares = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    std::vector<Sample> pauses;
    std::copy_if(positions[i].samples.begin(), positions[i].samples.end(),
                 std::back_inserter(pauses),
                 [](const Sample& sample) { return sample.gap_seconds > kAtOnceSeconds; });
    if (i == first || pauses.size() < kWantedSteps) continue;
    const double gap = median(pauses, [](const Sample& s) { return s.gap_seconds; });
    const double between = median(pauses, [](const Sample& s) { return s.since_ready_seconds; });
    for (const Sample& sample : pauses) {
      const double more =
          std::abs(sample.since_ready_seconds - between) - std::abs(sample.gap_seconds - gap);
      count += 1;
      sum += more;
      squares += more * more;
    }
  }
  if (count < static_cast<double>(kFewestPauses)) return false;
  const double mean = sum / count;
  const double by_chance = std::sqrt(std::max(0.0, squares / count - mean * mean) / count);
  return mean > kMoreThanChance * by_chance;
}

std::optional<RecordedStep> StepRecorder::current() const {
  if (positions_.empty() || noted_ / positions_.size() < kWantedSteps) return std::nullopt;
  if (source_ == Source::kWithoutAddress && noted_ < kCertainCalls) return std::nullopt;
  RecordedStep found;
  found.steps = noted_ / positions_.size();
  for (const Position& position : positions_) found.calls.push_back(step_call(position));
  const auto first = std::max_element(
      found.calls.begin(), found.calls.end(),
      [](const StepCall& a, const StepCall& b) { return a.gap_seconds < b.gap_seconds; });
  const auto rotation = static_cast<std::size_t>(first - found.calls.begin());
  found.waits_for_calls = wait_for_calls(positions_, rotation);
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

bool is_ready_unseen(const StepCall& call) {
  return !call.is_with_the_one_before && !call.wait && call.gap_seconds <= kAtOnceSeconds;
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
    espresso::Tensor tensor;
    tensor.name = "call " + std::to_string(i);
    tensor.bytes = std::max<std::size_t>(1, call.bytes());
    since_ready += call.gap_seconds;
    const bool is_hidden = call.is_with_the_one_before || is_ready_unseen(call);
    if (i == 0) {
      job.forward_seconds = call.gap_seconds;
    } else if (call.wait) {
      tensor.backward_seconds = call.wait->before_seconds;
      tensor.after_seconds = call.wait->after_seconds;
    } else if (!overlaps && !call.is_with_the_one_before) {
      tensor.after_seconds = call.gap_seconds;
    } else if (!is_hidden) {
      tensor.backward_seconds = call.since_ready_seconds.value_or(since_ready);
    }
    if (i == 0 || !is_hidden || tensor.after_seconds) since_ready = 0;
    since_ready += call.call_seconds;
    job.tensors.push_back(std::move(tensor));
  }
  return job;
}

}  // namespace ringpress::nccl_plugin
