#include "nccl_plugin/session/steps/step_recorder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

namespace ringpress::nccl_plugin {
namespace {

// Steps of which medians are taken: the newest.
constexpr std::size_t kMostSamples = 32;
// Calls as quick as this part of them have waited for no other rank.
constexpr double kQuickShare = 0.1;
// A part of them, at least, says how a call is made.
constexpr double kUsualShare = 0.5;
// What calls send that are made the same way differs by less.
constexpr double kSameSize = 0.02;
// The median of so many is off by this part of how far single ones are off, about.
constexpr double kErrorOfMedian = 1.86;  // 1.4826 times 1.2533, over the root of their number.
// Pauses are believed from so many on, and if what they show is so many times what chance does.
constexpr std::size_t kFewestPauses = 8;
constexpr double kMoreThanChance = 2.5;
// Differences that are smaller are those of clocks,
constexpr double kNoDifference = 1e-7;
// and so many are enough.
constexpr std::size_t kMostDifferences = 2048;
// Of a call whose samples began after one in this part of steps at least.
constexpr double kMostPauses = 0.9;
// A thread that is on a core for more of its pauses than this computes in them.
constexpr double kBusyShare = 0.5;

/// The value that this part of them is below.
template <typename Samples, typename Field>
auto quantile(const Samples& samples, double part, Field field) {
  std::vector<std::decay_t<decltype(field(samples.front()))>> values;
  for (const auto& sample : samples) values.push_back(field(sample));
  const double below = part * static_cast<double>(values.size());
  const auto found = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), found, values.end());
  return *found;
}

template <typename Samples, typename Field>
auto median(const Samples& samples, Field field) {
  return quantile(samples, 0.5, field);
}

/// How far the median of samples is off by chance.
template <typename Samples, typename Field>
double error_of_median(const Samples& samples, Field field) {
  const double middle = median(samples, field);
  const double usual = median(samples, [&](const auto& s) { return std::abs(field(s) - middle); });
  return kErrorOfMedian * usual / std::sqrt(static_cast<double>(samples.size()));
}

/// How far each value is from what is usual with its pace: by the line through the medians of the
/// slower and of the quicker half.
std::vector<double> unlike_usual(const std::vector<double>& values,
                                 const std::vector<double>& paces) {
  const auto itself = [](double value) { return value; };
  const double pace = median(paces, itself), usual = median(values, itself);
  std::vector<double> sides[2], paces_of[2];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t side = paces[i] < pace ? 0 : 1;
    sides[side].push_back(values[i]);
    paces_of[side].push_back(paces[i]);
  }
  double slope = 0;
  if (!sides[0].empty()) {
    const double apart = median(paces_of[1], itself) - median(paces_of[0], itself);
    if (apart > 0) slope = (median(sides[1], itself) - median(sides[0], itself)) / apart;
  }
  std::vector<double> rests;
  for (std::size_t i = 0; i < values.size(); ++i) {
    rests.push_back(values[i] - usual - slope * (paces[i] - pace));
  }
  const double middle = median(rests, itself);
  for (double& rest : rests) rest -= middle;
  return rests;
}

/// Wilcoxon's: how far from 0 differences are on the whole, in standard deviations of what chance
/// does. Of a few that are very large only their ranks count.
double signed_rank_score(std::vector<double> differences) {
  std::erase_if(differences, [](double one) { return std::abs(one) < kNoDifference; });
  std::sort(differences.begin(), differences.end(),
            [](double a, double b) { return std::abs(a) < std::abs(b); });
  double sum = 0, squares = 0, rank = 0;
  for (const double difference : differences) {
    rank += 1;
    sum += difference > 0 ? rank : -rank;
    squares += rank * rank;
  }
  return squares > 0 ? sum / std::sqrt(squares) : 0;
}

/// Of the pauses between calls of a step, the part in which the thread that makes them is on a
/// core; nothing if there are none. What it does before the first call says nothing of the others.
std::optional<double> busy_share(const std::vector<StepCall>& calls) {
  double pauses = 0, busy = 0;
  for (std::size_t i = 1; i < calls.size(); ++i) {
    if (calls[i].gap_seconds <= kAtOnceSeconds) continue;
    pauses += calls[i].gap_seconds;
    busy += calls[i].busy_seconds;
  }
  if (pauses == 0) return std::nullopt;
  return busy / pauses;
}

/// Those of calls that were made as most of them are; but for trials, if there are others.
std::vector<StepSample> usual(const std::vector<StepSample>& samples) {
  std::vector<StepSample> kept;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(kept),
               [](const StepSample& sample) { return !sample.is_trial; });
  if (kept.size() < StepRecorder::kWantedSteps) kept = samples;
  std::sort(kept.begin(), kept.end(),
            [](const StepSample& a, const StepSample& b) { return a.sent_bytes < b.sent_bytes; });
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

/// Since the same call in all samples that count.
double since_ready_seconds(const std::vector<StepSample>& samples) {
  const std::size_t calls =
      median(samples, [](const StepSample& s) { return s.calls_since_ready; });
  std::vector<StepSample> alike;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(alike),
               [calls](const StepSample& sample) { return sample.calls_since_ready == calls; });
  return median(alike, [](const StepSample& s) { return s.since_ready_seconds; });
}

StepCall step_call(const StepPosition& position) {
  const std::vector<StepSample> samples = usual(position.samples);
  StepCall call;
  call.call = position.call;
  call.is_by_rule = position.is_by_rule;
  call.gap_seconds = median(samples, [](const StepSample& s) { return s.gap_seconds; });
  call.busy_seconds = median(samples, [](const StepSample& s) { return s.busy_seconds; });
  call.call_seconds = median(samples, [](const StepSample& s) { return s.call_seconds; });
  call.late_seconds = call.call_seconds - quantile(samples, kQuickShare, [](const StepSample& s) {
                        return s.call_seconds;
                      });
  call.call_error_seconds =
      error_of_median(samples, [](const StepSample& s) { return s.call_seconds; });
  call.sent_bytes = median(samples, [](const StepSample& s) { return s.sent_bytes; });
  call.since_ready_seconds = since_ready_seconds(samples);
  call.is_with_the_one_before =
      median(samples, [](const StepSample& s) { return s.is_with_the_one_before ? 1 : 0; }) == 1;
  std::vector<KnownWait> waits;
  for (const StepSample& sample : samples) {
    if (sample.wait) waits.push_back(*sample.wait);
  }
  if (2 * waits.size() > samples.size()) {
    call.wait = {median(waits, [](const KnownWait& w) { return w.before_seconds; }),
                 median(waits, [](const KnownWait& w) { return w.after_seconds; })};
  }
  return call;
}

/// By how much the times since the call before, or the one before that began after a pause, vary
/// more than the pauses before a call, but for what comes of a rank that is slower in all of a
/// step: `begins`, the pause before it, shows that. `delay`: the step of a sample began so many
/// samples before.
void add_differences(const std::vector<StepSample>& samples, const std::vector<StepSample>& begins,
                     std::size_t delay, std::vector<double>* differences) {
  const std::size_t calls =
      median(samples, [](const StepSample& s) { return s.calls_since_ready; });
  std::vector<double> gaps, between, paces;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t step = (i + kMostSamples - delay) % kMostSamples;
    const bool is_like_most =
        samples[i].gap_seconds > kAtOnceSeconds && samples[i].calls_since_ready == calls;
    if (!is_like_most || step >= begins.size()) continue;
    gaps.push_back(samples[i].gap_seconds);
    between.push_back(samples[i].since_ready_seconds);
    paces.push_back(begins[step].gap_seconds);
  }
  // Where a pause is there in some steps only, what is left of them is the long ones.
  const double fewest = kMostPauses * static_cast<double>(samples.size() - delay);
  if (gaps.size() < StepRecorder::kWantedSteps || static_cast<double>(gaps.size()) < fewest) return;
  gaps = unlike_usual(gaps, paces);
  between = unlike_usual(between, paces);
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    differences->push_back(std::abs(between[i]) - std::abs(gaps[i]));
  }
}

/// Of pauses within a step.
PausesShow what_pauses_show(const std::vector<StepPosition>& positions, std::size_t first) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < positions.size() && differences.size() < kMostDifferences; ++i) {
    if (i == first) continue;
    // What is before the first call in the pattern is of the step that began in the last round.
    const std::size_t delay = i > first ? 0 : 1;
    add_differences(positions[i].samples, positions[first].samples, delay, &differences);
  }
  if (differences.size() < kFewestPauses) return PausesShow::kNothing;
  const double score = signed_rank_score(std::move(differences));
  if (score > kMoreThanChance) return PausesShow::kWaitsForCalls;
  return score < -kMoreThanChance ? PausesShow::kComputesBesideCalls : PausesShow::kNothing;
}

/// Whether calls take longer because other ranks come later: then they are the shorter the later
/// this rank itself has come. What a link or a busy machine adds does not hang on that.
bool wait_for_ranks(const std::vector<StepPosition>& positions, std::size_t first, bool overlaps) {
  double count = 0, sum = 0;
  for (std::size_t i = 0; i < positions.size() && count < static_cast<double>(kMostDifferences);
       ++i) {
    const bool has_other_thread = overlaps && i != first;
    const auto own_time = [has_other_thread](const StepSample& sample) {
      return has_other_thread ? sample.since_ready_seconds : sample.gap_seconds;
    };
    const auto call_time = [](const StepSample& sample) { return sample.call_seconds; };
    const double own = median(positions[i].samples, own_time);
    const double call = median(positions[i].samples, call_time);
    for (const StepSample& sample : positions[i].samples) {
      const double product = (own_time(sample) - own) * (call_time(sample) - call);
      if (sample.gap_seconds <= kAtOnceSeconds || product == 0) continue;
      count += 1;
      sum += product > 0 ? 1 : -1;
    }
  }
  return count > 0 && sum < -kMoreThanChance * std::sqrt(count);
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
  switch (pauses_show) {
    case PausesShow::kWaitsForCalls:
      return false;
    case PausesShow::kComputesBesideCalls:
      return true;
    case PausesShow::kNothing:
      break;
  }
  return busy_share(calls).value_or(0) <= kBusyShare;
}

bool RecordedStep::is_overlap_guessed() const {
  const bool is_open = std::any_of(calls.begin(), calls.end(), [](const StepCall& call) {
    return !call.is_with_the_one_before && !call.wait;
  });
  return is_open && pauses_show == PausesShow::kNothing &&
         busy_share(calls).value_or(1) <= kBusyShare;
}

void StepRecorder::note(const RecordedCall& call) {
  has_calls_ = true;
  const std::optional<std::size_t> position =
      locate(call.standing ? *call.standing : stand(call.call));
  if (position && last_end_) add(*position, call);
  remember(call);
}

/// For the call after it.
void StepRecorder::remember(const RecordedCall& call) {
  const bool is_after_pause = !last_end_ || call.begin_seconds - *last_end_ > kAtOnceSeconds;
  if (is_after_pause) last_pause_ = call.begin_seconds;
  calls_since_pause_ = is_after_pause ? 1 : calls_since_pause_ + 1;
  last_issue_ = call.issue ? call.issue->issued_seconds : call.begin_seconds;
  last_end_ = call.end_seconds;
}

StepSample StepRecorder::sample_of(const RecordedCall& call) const {
  StepSample sample = {};
  sample.gap_seconds = std::max(0.0, call.begin_seconds - *last_end_);
  sample.busy_seconds = std::clamp(call.busy_before_seconds, 0.0, sample.gap_seconds);
  sample.call_seconds = std::max(0.0, call.end_seconds - call.begin_seconds);
  sample.since_ready_seconds = call.begin_seconds - last_pause_;
  sample.calls_since_ready = calls_since_pause_;
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
  restart();
  last_end_.reset();
}

/// With addresses, or without if the sequence shows where it begins.
CallStanding StepRecorder::stand(const TensorCall& call) {
  const CallPlaces places = sequence_->ask(user_, call);
  CallStanding standing{places.buffers.breaks(), places.shapes.breaks(), {}, 0, 0};
  if (places.by_buffer) {
    standing.by = CallsBy::kBuffer;
    standing.position = *places.by_buffer;
    standing.period = places.buffers.cycle().period();
  } else if (places.by_shape && places.shapes.cycle().has_landmark()) {
    standing.by = CallsBy::kShape;
    standing.position = *places.by_shape;
    standing.period = places.shapes.cycle().period();
  }
  return standing;
}

std::optional<std::size_t> StepRecorder::locate(const CallStanding& standing) {
  const bool has_broken = has_changed(&breaks_, standing.buffer_breaks);
  const bool have_shapes_broken = has_changed(&shape_breaks_, standing.shape_breaks);
  if (by_ && (*by_ == CallsBy::kBuffer ? has_broken : have_shapes_broken)) restart();
  if (!standing.by) return std::nullopt;
  if (by_ != standing.by) restart(standing.by, standing.period);
  return standing.position;
}

/// Keeps what was found if more calls were part of it than of what is kept.
void StepRecorder::restart(std::optional<CallsBy> by, std::size_t period) {
  if (auto found = current()) {
    if (found->steps * found->calls.size() > best_.steps * best_.calls.size()) {
      best_ = std::move(*found);
    }
  }
  positions_.assign(period, {});
  noted_ = 0;
  by_ = by;
}

void StepRecorder::add(std::size_t position, const RecordedCall& call) {
  // Only what has the same call before it, one step after the other: from a beginning on.
  if (noted_ == 0 && position != 0) return;
  StepPosition& place = positions_[position];
  place.call = call.call;
  place.is_by_rule = call.is_by_rule;
  if (by_ == CallsBy::kShape) place.call.address = nullptr;
  const StepSample sample = sample_of(call);
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
  if (by_ == CallsBy::kShape && noted_ < kCertainCalls) return std::nullopt;
  RecordedStep found;
  found.steps = noted_ / positions_.size();
  for (const StepPosition& position : positions_) found.calls.push_back(step_call(position));
  const auto first = std::max_element(
      found.calls.begin(), found.calls.end(),
      [](const StepCall& a, const StepCall& b) { return a.gap_seconds < b.gap_seconds; });
  const auto rotation = static_cast<std::size_t>(first - found.calls.begin());
  found.pauses_show = what_pauses_show(positions_, rotation);
  found.next = (noted_ % positions_.size() + positions_.size() - rotation) % positions_.size();
  std::rotate(found.calls.begin(), first, found.calls.end());
  if (!wait_for_ranks(positions_, rotation, found.overlaps())) {
    for (StepCall& call : found.calls) call.late_seconds = 0;
  }
  return found;
}

std::optional<RecordedStep> StepRecorder::step() const {
  std::optional<RecordedStep> now = current();
  const bool is_more = now && now->steps * now->calls.size() > best_.steps * best_.calls.size();
  if (is_more) return now;
  if (best_.calls.empty()) return std::nullopt;
  return best_;
}

bool is_ready_unseen(const StepCall& call) {
  return !call.is_with_the_one_before && !call.wait && call.gap_seconds <= kAtOnceSeconds;
}

RecordedStep without_lateness(const RecordedStep& step) {
  RecordedStep even = step;
  double late_before = 0;  // Of the last call that was waited for.
  for (StepCall& call : even.calls) {
    const double late = std::exchange(call.late_seconds, 0);
    if (call.gap_seconds <= kAtOnceSeconds) continue;
    call.call_seconds -= late;
    call.gap_seconds += late;
    if (call.since_ready_seconds) *call.since_ready_seconds += late - late_before;
    if (call.wait && call.wait->after_seconds > kAtOnceSeconds) {
      call.wait->after_seconds += late;
    } else if (call.wait) {
      call.wait->before_seconds = std::max(0.0, call.wait->before_seconds + late - late_before);
    }
    late_before = late;
  }
  return even;
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
