#include "nccl_plugin/session/tuning/step_levels.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "nccl_plugin/session/tuning/tensor_cut.h"
#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/levels.h"
#include "ringpress/internal/log.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

// Accordion's eta.
constexpr double kCriticalChange = 0.5;
// A call whose bytes change by less takes about as long as before.
constexpr double kClearChange = 0.1;
// L-GreCo's window. Without error feedback the mean of many calls is off by a small bias under much
// noise, which takes more steps to see.
constexpr std::size_t kWindow = 10;
constexpr std::size_t kWindowWithoutFeedback = 30;
// Steps after which there are levels for the first time.
constexpr std::size_t kFirstInterval = 100;
// Of a call, however small its share of a step is.
constexpr std::size_t kFewestSamples = 2048;
// Of tensors that are told apart. A program with more of them in a row takes new ones each time.
constexpr std::size_t kMostBuffers = 1024;
// Floats that ranks exchange about how their values of a part lie to each other: in all, and each.
constexpr std::size_t kSketches = 8192;
constexpr std::size_t kShortestSketch = 32;
constexpr std::size_t kLongestSketch = 128;

LevelBudget budget_of(const CallSettings& settings) {
  LevelBudget budget;
  budget.alpha = settings.adjust_alpha;
  budget.metric = settings.adjust_metric;
  return budget;
}

/// Elements from `first` on, up to `end`.
MeasuredTensor slice(const MeasuredTensor& tensor, std::size_t first, std::size_t end) {
  const auto* const values = static_cast<const std::byte*>(tensor.values);
  return {values + first * dtype_size(tensor.dtype),
          tensor.residual == nullptr ? nullptr : tensor.residual + first, end - first,
          tensor.dtype};
}

/// The squares of the sum over the sum of squares; 1 where nothing is known.
double alignment_of(std::span<const float> sum, double squares) {
  const double of_sum = squares_of(sum);
  return squares > 0 && std::isfinite(of_sum / squares) ? of_sum / squares : 1;
}

/// The l2 norm of norms of parts, which are so far from each other in `all`.
double norm_of(std::span<const double> all, std::size_t first = 0, std::size_t stride = 1) {
  double squares = 0;
  for (std::size_t i = first; i < all.size(); i += stride) squares += all[i] * all[i];
  return std::sqrt(squares);
}

}  // namespace

StepLevels::StepLevels(const CallSettings& settings, Peers& peers,
                       std::unique_ptr<LevelFamily> family, std::shared_ptr<CallSequence> sequence)
    : settings_(settings),
      peers_(peers),
      family_(std::move(family)),
      has_parts_(family_->has_parts() && traits_of(unsplit_algorithm(settings)).takes_parts),
      sequence_(std::move(sequence)) {}

/// A step that has not come to its end does not count.
void StepLevels::break_off() {
  const bool is_whole = step_ == nullptr || position_ + 1 == step_->measured.size();
  if (!is_whole && step_->steps > 0) --step_->steps;
  step_ = nullptr;
}

Status StepLevels::choose(const PlanRequest& request, const Decision& decision) {
  wants_values_ = false;
  has_changed_sizes_ = false;
  codec_ = {};
  parts_ = {};
  const CallPlaces places = sequence_->ask(
      CallUser::kLevels, {request.kind, request.count, request.dtype, request.op, nullptr, 0});
  const CallPattern& pattern = places.shapes;
  if (has_changed(&breaks_, pattern.breaks())) break_off();
  for (const std::uint64_t cycle : pattern.forgotten()) known_.erase(cycle);
  if (!places.by_shape) return Status::ok();
  step_ = &known_[pattern.cycle_id()];
  if (step_->measured.size() != pattern.period()) *step_ = {};  // Of a state that makes no sense.
  position_ = *places.by_shape;
  if (position_ == 0) RINGPRESS_RETURN_IF_ERROR(start_step(pattern));
  wants_values_ = step_->interval != 0 && (family_->sampled_values() != 0 || is_in_window(kWindow));
  if (position_ >= step_->levels.size() || decision.codec != usual_codec(settings_)) {
    return Status::ok();
  }
  const LeveledCall& call = step_->levels[position_];
  if (call.size() == 1) {
    codec_ = family_->specification(call[0].level);
  } else if (traits_of(decision.algorithm).takes_parts) {
    parts_ = call;
  }
  return Status::ok();
}

Status StepLevels::start_step(const CallPattern& pattern) {
  if (step_->interval == 0) {
    step_->interval = std::min(settings_.adjust_steps, kFirstInterval);
    start_measuring(pattern.cycle());
    inherit_levels();
  } else if (step_->steps == step_->interval) {
    RINGPRESS_RETURN_IF_ERROR(find_levels());
    step_->age += step_->interval;
    step_->interval = settings_.adjust_steps;
    start_measuring(pattern.cycle());
  }
  ++step_->steps;
  if (!step_->levels.empty()) last_leveled_ = pattern.cycle_id();
  return Status::ok();
}

/// Of the step that had levels last, wherever it comes whole in this one. Of a part of it they
/// would not be within the budget.
void StepLevels::inherit_levels() {
  const auto found = known_.find(last_leveled_);
  if (found == known_.end() || &found->second == step_) return;
  const KnownStep& part = found->second;
  const auto is_same = [](const MeasuredCall& a, const MeasuredCall& b) {
    return a.count == b.count && a.dtype == b.dtype && a.op == b.op;
  };
  const std::vector<MeasuredCall>& calls = step_->measured;
  const std::size_t period = part.measured.size();
  std::vector<LeveledCall> levels;
  bool is_inherited = false;
  while (levels.size() < calls.size()) {
    const auto at = calls.begin() + static_cast<std::ptrdiff_t>(levels.size());
    const bool comes_whole = levels.size() + period <= calls.size() &&
                             std::equal(part.measured.begin(), part.measured.end(), at, is_same);
    if (comes_whole) {
      levels.insert(levels.end(), part.levels.begin(), part.levels.end());
    } else {
      levels.push_back({{at->count, family_->default_level()}});
    }
    is_inherited = is_inherited || comes_whole;
  }
  if (is_inherited) step_->levels = std::move(levels);
}

bool StepLevels::is_in_window(std::size_t window) const {
  return step_->steps + window > step_->interval;
}

void StepLevels::start_measuring(std::span<const TensorCall> calls) {
  step_->steps = 0;
  step_->elements = 0;
  step_->measured.clear();
  for (const TensorCall& call : calls) {
    step_->elements += call.count;
    step_->measured.emplace_back();
    step_->measured.back().dtype = call.dtype;
    step_->measured.back().op = call.op;
    step_->measured.back().count = call.count;
  }
  step_->segment = segment_elements(step_->elements);
}

/// Without memory for it the call counts as not measured, on all ranks.
void StepLevels::take(const MeasuredTensor& tensor, std::span<const Layer> layers) {
  MeasuredCall& call = step_->measured[position_];
  if (call.is_lost) return;
  try {
    const bool is_step_of_one = step_->measured.size() == 1;
    if (is_step_of_one && call.comes_back_to(tensor.values)) {
      call.is_lost = true;
      return;
    }
    if (call.ends.empty()) start_call(layers, &call);
    // Of a step that is broken off, calls may come again.
    const bool is_sampled = family_->sampled_values() != 0;
    const bool has_bias = is_sampled && tensor.residual == nullptr;
    const std::size_t window = has_bias ? kWindowWithoutFeedback : kWindow;
    const bool is_kept = is_in_window(window) && call.times < window;
    if (is_sampled) {
      add_sample(tensor, is_kept, &call);
    } else if (is_kept) {
      add_measured(tensor, layers, &call);
    }
    if (is_kept) ++call.times;
    if (step_->steps == step_->interval) take_norms(tensor, &call);
  } catch (const std::bad_alloc&) {
    call.is_lost = true;
  }
}

void StepLevels::start_call(std::span<const Layer> layers, MeasuredCall* call) const {
  std::vector<std::size_t> ends{call->count};
  if (has_parts_) ends = cut_tensor(call->count, layers, step_->segment);
  call->norms.assign(ends.size(), 0);
  const double share = static_cast<double>(family_->sampled_values()) /
                       static_cast<double>(std::max<std::size_t>(step_->elements, 1));
  const std::size_t fewest = kFewestSamples / ends.size();
  std::size_t first = 0;
  for (const std::size_t end : ends) {
    const auto wanted = static_cast<std::size_t>(share * static_cast<double>(end - first));
    if (share > 0)
      call->samples.emplace_back(end - first, std::max({wanted, fewest, std::size_t{1}}));
    first = end;
  }
  call->encodings.resize(call->samples.size());
  call->ends = std::move(ends);
}

void StepLevels::add_sample(const MeasuredTensor& tensor, bool is_kept, MeasuredCall* call) const {
  std::size_t first = 0;
  for (std::size_t part = 0; part < call->ends.size(); ++part) {
    const MeasuredTensor values = slice(tensor, first, call->ends[part]);
    const bool is_added = call->samples[part].add(values, is_kept);
    if (is_added && is_kept && is_in_window(kWindow)) {
      call->encodings[part].add(*family_, values, call->samples[part].steps().back());
    }
    first = call->ends[part];
  }
}

/// The squares are added up.
void StepLevels::add_measured(const MeasuredTensor& tensor, std::span<const Layer> layers,
                              MeasuredCall* call) const {
  const std::vector<LevelLoss> losses = family_->measure(tensor, layers);
  call->bytes.assign(losses.size(), 0);
  for (std::vector<double>& of_kind : call->errors) of_kind.resize(losses.size());
  for (std::size_t level = 0; level < losses.size(); ++level) {
    call->bytes[level] = losses[level].bytes;
    for (std::size_t kind = 0; kind < kLossKinds; ++kind) {
      call->errors[kind][level] += losses[level].errors[kind] * losses[level].errors[kind];
    }
  }
}

void StepLevels::take_norms(const MeasuredTensor& tensor, MeasuredCall* call) const {
  std::size_t first = 0;
  for (std::size_t part = 0; part < call->ends.size(); ++part) {
    MeasuredTensor values = slice(tensor, first, call->ends[part]);
    values.residual = nullptr;
    call->norms[part] = compress_kernels::measure_norm(values);
    first = call->ends[part];
  }
}

bool StepLevels::MeasuredCall::is_measured() const {
  const auto is_empty = [](const SampledPart& part) { return part.steps().empty(); };
  return !is_lost && times > 0 && std::none_of(samples.begin(), samples.end(), is_empty);
}

/// What is known of a call after its steps.
void StepLevels::conclude(MeasuredCall* call) const {
  for (std::vector<double>& of_kind : call->errors) {
    for (double& error : of_kind) error = std::sqrt(error / static_cast<double>(call->times));
  }
  const TrialCalls calls{step_->age + step_->interval,
                         step_->age + step_->interval + settings_.adjust_steps};
  for (std::size_t part = 0; part < call->samples.size(); ++part) {
    const RanksSum sum = part < call->sums.size() ? call->sums[part] : RanksSum();
    for (const LevelLoss& loss : family_->try_levels(call->samples[part], sum, calls)) {
      call->bytes.push_back(loss.bytes);
      for (std::size_t kind = 0; kind < kLossKinds; ++kind) {
        call->errors[kind].push_back(loss.errors[kind]);
      }
    }
  }
  for (std::vector<double>& of_kind : call->errors) {
    correct_errors(call->encodings, family_->levels(), of_kind);
  }
  call->later_norms = call->norms;
  for (std::size_t part = 0; part < call->samples.size(); ++part) {
    call->later_norms[part] *= call->samples[part].growth(settings_.adjust_steps);
  }
  if (!call->is_cut_alike) join_parts(call);
}

/// Tensors of one size in a row look like one, whose calls are a step each. By their buffers, which
/// come in turns, they are told apart: they have no levels, as the window would not hold all of
/// them alike.
bool StepLevels::MeasuredCall::comes_back_to(const void* buffer) {
  if (!buffers.empty() && buffers.back() == buffer) return false;
  const bool is_known = std::find(buffers.begin(), buffers.end(), buffer) != buffers.end();
  if (!is_known && buffers.size() < kMostBuffers) buffers.push_back(buffer);
  return is_known;
}

double StepLevels::MeasuredCall::norm() const {
  return norm_of(norms);
}

/// Now, and later: if values grow as they did, or fall back. Levels are to hold in any case.
LevelErrors StepLevels::MeasuredCall::errors_of(std::size_t part, std::size_t i) const {
  const double ratio = later_norms[part] / norms[part];
  const double growth = std::isfinite(ratio) && ratio > 0 ? ratio : 1;
  const double of_call = errors[kLossOfCall][i], later = errors[kLossOfLaterMean][i];
  return {of_call,        errors[kLossOfMean][i], growth * of_call,
          growth * later, of_call / growth,       later / growth};
}

/// Without Accordion, the budget's.
std::size_t StepLevels::default_level_of(std::size_t place) const {
  if (!settings_.accordion) return family_->default_level();
  if (place >= step_->earlier_norms.size()) return family_->careful_level();
  const double earlier = step_->earlier_norms[place];
  const bool is_calm =
      std::abs(earlier - step_->measured[place].norm()) < kCriticalChange * earlier;
  return is_calm ? family_->default_level() : family_->careful_level();
}

/// As if the call had not been cut.
void StepLevels::join_parts(MeasuredCall* call) const {
  const std::size_t levels = family_->levels();
  std::vector<double> bytes(levels);
  for (std::size_t i = 0; i < call->bytes.size(); ++i) bytes[i % levels] += call->bytes[i];
  for (std::vector<double>& of_kind : call->errors) {
    std::vector<double> joined;
    for (std::size_t level = 0; level < levels; ++level) {
      joined.push_back(norm_of(of_kind, level, levels));
    }
    of_kind = std::move(joined);
  }
  call->bytes = std::move(bytes);
  call->norms = {norm_of(call->norms)};
  call->later_norms = {norm_of(call->later_norms)};
  call->ends = {call->ends.back()};
  call->samples.clear();  // Of other parts on other ranks.
}

/// False if a rank has not measured a call, though its turn came: then no levels are to change.
Result<bool> StepLevels::agree_on_cuts() {
  std::vector<double> hashes;  // The largest of all ranks', and the smallest, negative.
  double is_missing = 0;
  for (const MeasuredCall& call : step_->measured) {
    if (!call.is_measured()) is_missing = 1;
    const auto hash = static_cast<double>(hash_of_cut(call.ends));
    hashes.insert(hashes.end(), {hash, -hash});
  }
  hashes.push_back(is_missing);
  RINGPRESS_RETURN_IF_ERROR(peers_.max(hashes));
  for (std::size_t place = 0; place < step_->measured.size(); ++place) {
    step_->measured[place].is_cut_alike = hashes[2 * place] == -hashes[2 * place + 1];
  }
  return hashes.back() == 0;
}

/// Of parts that are now the same: all ranks' squares together.
Status StepLevels::agree_on_errors() {
  std::vector<double*> numbers;
  std::vector<double> largest;  // And bytes, which are not added up.
  for (MeasuredCall& call : step_->measured) {
    for (std::vector<double>& of_kind : call.errors) {
      for (double& number : of_kind) numbers.push_back(&number);
    }
    for (auto* const norms : {&call.norms, &call.later_norms}) {
      for (double& number : *norms) numbers.push_back(&number);
    }
  }
  for (const double* const number : numbers) largest.push_back(*number);
  for (const MeasuredCall& call : step_->measured) {
    largest.insert(largest.end(), call.bytes.begin(), call.bytes.end());
  }
  RINGPRESS_RETURN_IF_ERROR(peers_.max(largest));
  std::vector<float> shares;  // Squares, over the largest rank's: what float32 has room for.
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool is_some = largest[i] > 0 && std::isfinite(largest[i]);
    const double share = is_some ? *numbers[i] / largest[i] : 0;
    shares.push_back(static_cast<float>(share * share));
  }
  RINGPRESS_RETURN_IF_ERROR(peers_.sum(shares));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    *numbers[i] = largest[i] * (std::isfinite(largest[i]) ? std::sqrt(double{shares[i]}) : 1);
  }
  std::size_t i = numbers.size();
  for (MeasuredCall& call : step_->measured) {
    for (double& number : call.bytes) number = largest[i++];
  }
  return Status::ok();
}

/// How the ranks' values add up, by part.
Status StepLevels::agree_on_sums() {
  std::size_t parts = 0;
  for (const MeasuredCall& call : step_->measured) {
    if (call.is_cut_alike) parts += call.samples.size();
  }
  if (parts == 0) return Status::ok();
  const std::size_t length = std::clamp(kSketches / parts, kShortestSketch, kLongestSketch);
  std::vector<float> sketches;  // Of each part with samples: of the mean, and of what is beside it.
  std::vector<float> squares;   // Of each of these.
  for (const MeasuredCall& call : step_->measured) {
    if (!call.is_cut_alike) continue;
    for (const SampledPart& part : call.samples) {
      const std::vector<float> mean = part.mean();
      for (const auto& values : {mean, part.mixed_deviations(mean, kWindow)}) {
        const std::vector<float> sketch = sketch_of(values, length);
        sketches.insert(sketches.end(), sketch.begin(), sketch.end());
        squares.push_back(static_cast<float>(squares_of(sketch)));
      }
    }
  }
  RINGPRESS_RETURN_IF_ERROR(peers_.sum(sketches));
  RINGPRESS_RETURN_IF_ERROR(peers_.sum(squares));
  std::size_t number = 0;
  const auto next_alignment = [&] {
    const auto sketch = std::span(sketches).subspan(number * length, length);
    return alignment_of(sketch, double{squares[number++]});
  };
  const auto ranks = static_cast<std::size_t>(peers_.size());
  for (MeasuredCall& call : step_->measured) {
    if (!call.is_cut_alike) continue;
    for (std::size_t part = 0; part < call.samples.size(); ++part) {
      const double of_mean = next_alignment();
      const double of_rest = next_alignment();
      call.sums.push_back({of_mean, of_rest, ranks});
    }
  }
  return Status::ok();
}

double StepLevels::bytes_of(const LeveledCall& call) const {
  double bytes = 0;
  std::size_t first = 0;
  for (const LeveledPart& part : call) {
    bytes += family_->bytes(part.level, part.end - first);
    first = part.end;
  }
  return bytes;
}

/// The step that begins has them.
void StepLevels::set_levels(const std::vector<std::size_t>& by_part) {
  std::vector<LeveledCall> found;
  std::size_t number = 0;
  for (std::size_t place = 0; place < step_->measured.size(); ++place) {
    LeveledCall call;
    for (const std::size_t end : step_->measured[place].ends) {
      const std::size_t level = by_part[number++];
      if (!call.empty() && call.back().level == level) call.pop_back();
      call.push_back({end, level});
    }
    const LeveledCall usual{{step_->measured[place].ends.back(), family_->default_level()}};
    const double before = bytes_of(place < step_->levels.size() ? step_->levels[place] : usual);
    has_changed_sizes_ |= std::abs(bytes_of(call) - before) > kClearChange * before;
    found.push_back(std::move(call));
  }
  step_->levels = std::move(found);
}

/// From what all ranks have measured.
Status StepLevels::find_levels() {
  RINGPRESS_ASSIGN_OR_RETURN(const bool is_measured, agree_on_cuts());
  if (!is_measured) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(agree_on_sums());
  for (MeasuredCall& call : step_->measured) conclude(&call);
  RINGPRESS_RETURN_IF_ERROR(agree_on_errors());
  // What steps that all overflowed lose says nothing.
  for (const MeasuredCall& call : step_->measured) {
    const std::vector<double>& of_calls = call.errors[kLossOfCall];
    const bool is_finite = std::all_of(of_calls.begin(), of_calls.end(),
                                       [](double error) { return std::isfinite(error); });
    if (!is_finite) return Status::ok();
  }
  const std::size_t levels = family_->levels();
  std::vector<std::vector<LevelCost>> costs;
  std::vector<std::size_t> defaults;
  for (std::size_t place = 0; place < step_->measured.size(); ++place) {
    const MeasuredCall& call = step_->measured[place];
    for (std::size_t part = 0; part < call.ends.size(); ++part) {
      costs.emplace_back();
      defaults.push_back(default_level_of(place));
      for (std::size_t i = part * levels; i < (part + 1) * levels; ++i) {
        costs.back().push_back({call.bytes[i], call.errors_of(part, i)});
      }
    }
  }
  std::vector<LayerLevels> parts;
  double before = 0;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    parts.push_back({costs[i], defaults[i]});
    before += costs[i][family_->default_level()].bytes;
  }
  RINGPRESS_ASSIGN_OR_RETURN(const LevelChoice choice,
                             tuner::allocate_levels(parts, budget_of(settings_)));
  step_->earlier_norms.clear();
  for (const MeasuredCall& call : step_->measured) step_->earlier_norms.push_back(call.norm());
  set_levels(choice.levels);
  log_line(LogLevel::kInfo, "levels of a step of %zu calls, %zu parts: %.3f of the bytes of %s",
           step_->levels.size(), parts.size(), choice.bytes / std::max(before, 1.0),
           usual_codec(settings_).c_str());
  return Status::ok();
}

void StepLevels::save(StateWriter& to) const {
  to.put(breaks_);
  to.put(last_leveled_);
  to.put<std::uint64_t>(known_.size());
  for (const auto& [cycle, step] : known_) {
    to.put(cycle);
    to.put<std::uint64_t>(step.age + step.steps);
    to.put<std::uint64_t>(step.interval);
    to.put<std::uint64_t>(step.measured.size());
    for (const MeasuredCall& call : step.measured) {
      save_call({CollectiveKind::kAllReduce, call.count, call.dtype, call.op}, to);
    }
    to.put_list(step.earlier_norms);
    to.put(!step.levels.empty());
    for (const LeveledCall& call : step.levels) {
      to.put<std::uint64_t>(call.size());
      for (const LeveledPart& part : call) {
        to.put<std::uint64_t>(part.end);
        to.put<std::uint64_t>(part.level);
      }
    }
  }
}

/// Of a call of `count` elements.
LeveledCall StepLevels::load_levels(StateReader& from, std::size_t count) const {
  LeveledCall call(from.get_count(2 * sizeof(std::uint64_t)));
  std::size_t first = 0;
  for (LeveledPart& part : call) {
    part.end = static_cast<std::size_t>(from.get<std::uint64_t>());
    part.level = static_cast<std::size_t>(from.get<std::uint64_t>());
    from.require(part.end > first && part.end <= count && part.level < family_->levels());
    first = part.end;
  }
  from.require(first == count);
  return call;
}

void StepLevels::load_step(StateReader& from) {
  KnownStep& step = known_[from.get<std::uint64_t>()];
  step.age = static_cast<std::size_t>(from.get<std::uint64_t>());
  step.interval = static_cast<std::size_t>(from.get<std::uint64_t>());
  std::vector<TensorCall> calls(from.get_count(kSavedCallBytes, CallPattern::kLongestPeriod));
  for (TensorCall& call : calls) call = load_call(from);
  from.require(!calls.empty() && step.measured.empty());
  if (!from.is_ok()) return;
  step_ = &step;
  start_measuring(calls);
  step_ = nullptr;
  step.earlier_norms = from.get_list<double>(calls.size());
  if (!from.get<bool>()) return;
  for (const TensorCall& call : calls) step.levels.push_back(load_levels(from, call.count));
}

void StepLevels::load(StateReader& from) {
  breaks_ = from.get<std::uint64_t>();
  last_leveled_ = from.get<std::uint64_t>();
  const std::size_t steps = from.get_count(sizeof(std::uint64_t), CallPattern::kMostKnown + 1);
  for (std::size_t i = 0; i < steps && from.is_ok(); ++i) load_step(from);
}

}  // namespace ringpress::nccl_plugin::tuning
