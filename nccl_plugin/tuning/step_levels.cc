#include "nccl_plugin/tuning/step_levels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/tuning/tensor_cut.h"
#include "ringpress/hash.h"
#include "ringpress/levels.h"
#include "ringpress/log.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Accordion's eta.
constexpr double kCriticalChange = 0.5;
// A call whose bytes change by less takes about as long as before.
constexpr double kClearChange = 0.1;
// L-GreCo's window, and steps after which there are levels for the first time.
constexpr std::size_t kWindow = 10;
constexpr std::size_t kFirstInterval = 100;
// Of a call, however small its share of a step is.
constexpr std::size_t kFewestSamples = 2048;
// Floats that ranks exchange about how their values of a part lie to each other: in all, and each.
constexpr std::size_t kSketches = 8192;
constexpr std::size_t kShortestSketch = 32;
constexpr std::size_t kLongestSketch = 128;

LevelBudget budget_of(const Settings& settings) {
  LevelBudget budget;
  budget.alpha = settings.adjust_alpha;
  budget.metric = settings.adjust_metric == "l2" ? ErrorMetric::kL2 : ErrorMetric::kL2Squared;
  return budget;
}

/// Elements from `first` on, up to `end`.
MeasuredTensor slice(const MeasuredTensor& tensor, std::size_t first, std::size_t end) {
  const auto* const values = static_cast<const std::byte*>(tensor.values);
  return {values + first * dtype_size(tensor.dtype),
          tensor.residual == nullptr ? nullptr : tensor.residual + first, end - first,
          tensor.dtype};
}

/// Sums of values with signs at random, the same on all ranks: norms of sums of vectors can be told
/// from sums of these, which are far shorter.
std::vector<float> sketch_of(std::span<const float> values, std::size_t length) {
  std::vector<float> sketch(length);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t hash = mix_bits(i + 1);
    sketch[(hash >> 1) % length] += (hash & 1) != 0 ? values[i] : -values[i];
  }
  return sketch;
}

/// The square of a norm of the sum, over the sum of the squares of norms; 1 where nothing is known.
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

StepLevels::StepLevels(const Settings& settings, Peers& peers, std::unique_ptr<LevelFamily> family)
    : settings_(settings),
      peers_(peers),
      family_(std::move(family)),
      // A ring encodes sums of several ranks, on which parts do not agree.
      has_parts_(family_->has_parts() && settings.algorithm != "ring") {}

/// The sequence is another one, or not known any more.
void StepLevels::forget() {
  interval_ = 0;
  measured_.clear();
  levels_.clear();
  earlier_norms_.clear();
}

Status StepLevels::choose(const PlanRequest& request, Plan* plan) {
  wants_values_ = false;
  has_changed_sizes_ = false;
  parts_ = {};
  // Addresses may differ by rank: without them all ranks see the same sequence.
  const auto position =
      pattern_.observe({request.kind, request.count, request.dtype, request.op, nullptr, 0});
  if (pattern_.breaks() != breaks_) forget();
  breaks_ = pattern_.breaks();
  if (!position) return Status::ok();
  position_ = *position;
  if (position_ == 0) RINGPRESS_RETURN_IF_ERROR(start_step());
  wants_values_ = interval_ != 0 && (family_->sampled_values() != 0 || is_in_window());
  if (position_ >= levels_.size() || plan->codec != adjusted_codec(settings_)) return Status::ok();
  const LeveledCall& call = levels_[position_];
  if (call.size() == 1) {
    plan->codec = family_->specification(call[0].level);
  } else if (plan->algorithm == Algorithm::kSra) {
    parts_ = call;
  }
  return Status::ok();
}

Status StepLevels::start_step() {
  if (interval_ == 0) {
    interval_ = std::min(settings_.adjust_steps, kFirstInterval);
    start_measuring();
  } else if (steps_ == interval_) {
    RINGPRESS_RETURN_IF_ERROR(find_levels());
    interval_ = settings_.adjust_steps;
    start_measuring();
  }
  ++steps_;
  return Status::ok();
}

bool StepLevels::is_in_window() const {
  return steps_ + kWindow > interval_;
}

void StepLevels::start_measuring() {
  steps_ = 0;
  elements_ = 0;
  measured_.clear();
  for (const TensorCall& call : pattern_.cycle()) {
    elements_ += call.count;
    measured_.emplace_back();
    measured_.back().dtype = call.dtype;
    measured_.back().op = call.op;
    measured_.back().count = call.count;
  }
  segment_ = segment_elements(elements_);
}

/// Without memory for it the call counts as not measured, on all ranks.
void StepLevels::take(const MeasuredTensor& tensor, std::span<const Layer> layers) {
  MeasuredCall& call = measured_[position_];
  if (call.is_lost) return;
  try {
    if (call.ends.empty()) start_call(layers, &call);
    if (family_->sampled_values() != 0) {
      add_sample(tensor, &call);
    } else {
      add_measured(tensor, layers, &call);
    }
    if (is_in_window()) ++call.times;
    if (steps_ == interval_) take_norms(tensor, &call);
  } catch (const std::bad_alloc&) {
    call.is_lost = true;
  }
}

void StepLevels::start_call(std::span<const Layer> layers, MeasuredCall* call) const {
  std::vector<std::size_t> ends{call->count};
  if (has_parts_) ends = cut_tensor(call->count, layers, segment_);
  call->norms.assign(ends.size(), 0);
  const double share = static_cast<double>(family_->sampled_values()) /
                       static_cast<double>(std::max<std::size_t>(elements_, 1));
  const std::size_t fewest = kFewestSamples / ends.size();
  std::size_t first = 0;
  for (const std::size_t end : ends) {
    const auto wanted = static_cast<std::size_t>(share * static_cast<double>(end - first));
    if (share > 0)
      call->samples.emplace_back(end - first, std::max({wanted, fewest, std::size_t{1}}));
    first = end;
  }
  call->ends = std::move(ends);
}

void StepLevels::add_sample(const MeasuredTensor& tensor, MeasuredCall* call) const {
  std::size_t first = 0;
  for (std::size_t part = 0; part < call->ends.size(); ++part) {
    call->samples[part].add(slice(tensor, first, call->ends[part]), is_in_window());
    first = call->ends[part];
  }
}

/// The squares are added up.
void StepLevels::add_measured(const MeasuredTensor& tensor, std::span<const Layer> layers,
                              MeasuredCall* call) const {
  const std::vector<LevelCost> costs = family_->measure(tensor, layers);
  call->bytes.assign(costs.size(), 0);
  call->errors.resize(costs.size());
  for (std::size_t level = 0; level < costs.size(); ++level) {
    call->bytes[level] = costs[level].bytes;
    call->errors[level] += costs[level].error * costs[level].error;
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

/// What is known of a call after its steps. What is not measured, though its turn came, is not to
/// be changed.
void StepLevels::conclude(MeasuredCall* call) const {
  const std::size_t levels = family_->levels();
  const auto is_empty = [](const SampledPart& part) { return part.steps().empty(); };
  if (call->is_lost || call->times == 0 ||
      std::any_of(call->samples.begin(), call->samples.end(), is_empty)) {
    call->ends = {call->count};
    call->samples.clear();
    call->bytes.assign(levels, 0);
    call->errors.assign(levels, kInfinity);
    call->mean_errors.assign(levels, 0);
    call->norms = {kInfinity};
    return;
  }
  for (double& error : call->errors) error = std::sqrt(error / static_cast<double>(call->times));
  for (const SampledPart& part : call->samples) {
    for (const LevelCost& cost : family_->try_levels(part)) {
      call->bytes.push_back(cost.bytes);
      call->errors.push_back(cost.error);
      call->mean_errors.push_back(cost.mean_error);
    }
  }
  call->mean_errors.resize(call->errors.size());
}

double StepLevels::MeasuredCall::norm() const {
  return norm_of(norms);
}

/// Without Accordion, the budget's.
std::size_t StepLevels::default_level_of(std::size_t place) const {
  if (!settings_.accordion) return family_->default_level();
  if (place >= earlier_norms_.size()) return family_->careful_level();
  const double earlier = earlier_norms_[place];
  const bool is_calm = std::abs(earlier - measured_[place].norm()) < kCriticalChange * earlier;
  return is_calm ? family_->default_level() : family_->careful_level();
}

/// As if the call had not been cut.
void StepLevels::join_parts(MeasuredCall* call) const {
  const std::size_t levels = family_->levels();
  std::vector<double> bytes(levels);
  for (std::size_t i = 0; i < call->bytes.size(); ++i) bytes[i % levels] += call->bytes[i];
  for (auto* const of_call : {&call->errors, &call->mean_errors}) {
    std::vector<double> joined;
    for (std::size_t level = 0; level < levels; ++level) {
      joined.push_back(norm_of(*of_call, level, levels));
    }
    *of_call = std::move(joined);
  }
  call->bytes = std::move(bytes);
  call->norms = {norm_of(call->norms)};
  call->ends = {call->ends.back()};
  call->samples.clear();  // Of other parts on other ranks.
}

Status StepLevels::agree_on_cuts() {
  std::vector<double> hashes;  // The largest of all ranks', and the smallest, negative.
  for (const MeasuredCall& call : measured_) {
    const auto hash = static_cast<double>(hash_of_cut(call.ends));
    hashes.insert(hashes.end(), {hash, -hash});
  }
  RINGPRESS_RETURN_IF_ERROR(peers_.max(hashes));
  for (std::size_t place = 0; place < measured_.size(); ++place) {
    if (hashes[2 * place] != -hashes[2 * place + 1]) join_parts(&measured_[place]);
  }
  return Status::ok();
}

/// Of parts that are now the same: all ranks' squares together.
Status StepLevels::agree_on_errors() {
  std::vector<double*> numbers;
  for (MeasuredCall& call : measured_) {
    for (auto* const of_call : {&call.errors, &call.mean_errors, &call.norms, &call.bytes}) {
      for (double& number : *of_call) numbers.push_back(&number);
    }
  }
  std::vector<double> largest;
  for (const double* const number : numbers) largest.push_back(*number);
  RINGPRESS_RETURN_IF_ERROR(peers_.max(largest));
  std::vector<float> shares;  // Squares, over the largest rank's: what float32 has room for.
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool is_some = largest[i] > 0 && std::isfinite(largest[i]);
    const double share = is_some ? *numbers[i] / largest[i] : 0;
    shares.push_back(static_cast<float>(share * share));
  }
  RINGPRESS_RETURN_IF_ERROR(peers_.sum(shares));
  std::size_t i = 0;
  for (MeasuredCall& call : measured_) {
    for (auto* const of_call : {&call.errors, &call.mean_errors, &call.norms}) {
      for (double& number : *of_call) {
        const double share = std::isfinite(largest[i]) ? std::sqrt(double{shares[i]}) : 1;
        number = largest[i++] * share;
      }
    }
    for (double& number : call.bytes) number = largest[i++];
  }
  return Status::ok();
}

/// How ranks' losses add up. The loss of a quantiser is about as good as random, and that of the
/// sum, which is encoded again, in proportion to the sum. What top-k leaves out has the values' own
/// direction: what a call does that of its values, what is kept that of their mean.
Status StepLevels::count_alignment() {
  std::size_t parts = 0;
  for (const MeasuredCall& call : measured_) parts += call.samples.size();
  const std::size_t length =
      std::clamp(kSketches / std::max<std::size_t>(parts, 1), kShortestSketch, kLongestSketch);
  std::vector<float> sums;     // Of each part with samples: values of the last step, the mean.
  std::vector<float> squares;  // Of each of these.
  for (const MeasuredCall& call : measured_) {
    for (const SampledPart& part : call.samples) {
      for (const std::vector<float>& sketch :
           {sketch_of(part.steps().back(), length), sketch_of(part.mean(), length)}) {
        sums.insert(sums.end(), sketch.begin(), sketch.end());
        squares.push_back(static_cast<float>(squares_of(sketch)));
      }
    }
  }
  if (parts == 0) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(peers_.sum(sums));
  RINGPRESS_RETURN_IF_ERROR(peers_.sum(squares));
  const std::size_t levels = family_->levels();
  std::size_t number = 0;
  for (MeasuredCall& call : measured_) {
    for (std::size_t part = 0; part < call.samples.size(); ++part) {
      double alignments[2];
      for (double& alignment : alignments) {
        const auto sketch = std::span(sums).subspan(number * length, length);
        alignment = alignment_of(sketch, double{squares[number++]});
      }
      if (family_->encodes_sums()) alignments[0] = alignments[1] = 1 + alignments[0];
      for (std::size_t i = part * levels; i < (part + 1) * levels; ++i) {
        call.errors[i] *= std::sqrt(alignments[0]);
        call.mean_errors[i] *= std::sqrt(alignments[1]);
      }
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
  for (std::size_t place = 0; place < measured_.size(); ++place) {
    LeveledCall call;
    for (const std::size_t end : measured_[place].ends) {
      const std::size_t level = by_part[number++];
      if (!call.empty() && call.back().level == level) call.pop_back();
      call.push_back({end, level});
    }
    const LeveledCall usual{{measured_[place].ends.back(), family_->default_level()}};
    const double before = bytes_of(place < levels_.size() ? levels_[place] : usual);
    has_changed_sizes_ |= std::abs(bytes_of(call) - before) > kClearChange * before;
    found.push_back(std::move(call));
  }
  levels_ = std::move(found);
}

/// From what all ranks have measured.
Status StepLevels::find_levels() {
  for (MeasuredCall& call : measured_) conclude(&call);
  RINGPRESS_RETURN_IF_ERROR(agree_on_cuts());
  RINGPRESS_RETURN_IF_ERROR(agree_on_errors());
  // What steps that all overflowed lose says nothing.
  for (const MeasuredCall& call : measured_) {
    const bool is_finite = std::all_of(call.errors.begin(), call.errors.end(),
                                       [](double error) { return std::isfinite(error); });
    if (!is_finite) return Status::ok();
  }
  RINGPRESS_RETURN_IF_ERROR(count_alignment());
  const std::size_t levels = family_->levels();
  std::vector<std::vector<LevelCost>> costs;
  std::vector<std::size_t> defaults;
  for (std::size_t place = 0; place < measured_.size(); ++place) {
    const MeasuredCall& call = measured_[place];
    for (std::size_t part = 0; part < call.ends.size(); ++part) {
      costs.emplace_back();
      defaults.push_back(default_level_of(place));
      for (std::size_t i = part * levels; i < (part + 1) * levels; ++i) {
        costs.back().push_back({call.bytes[i], call.errors[i], call.mean_errors[i]});
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
  earlier_norms_.clear();
  for (const MeasuredCall& call : measured_) earlier_norms_.push_back(call.norm());
  set_levels(choice.levels);
  log_line(LogLevel::kInfo, "levels of a step of %zu calls, %zu parts: %.3f of the bytes of %s",
           levels_.size(), parts.size(), choice.bytes / std::max(before, 1.0),
           adjusted_codec(settings_).c_str());
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::tuning
