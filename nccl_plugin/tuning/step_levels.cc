#include "nccl_plugin/tuning/step_levels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/tuning/tensor_cut.h"
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
  steps_ = 0;
  is_measuring_ = false;
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
  wants_values_ = is_measuring_;
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
  if (is_measuring_) RINGPRESS_RETURN_IF_ERROR(find_levels());
  is_measuring_ = steps_ % settings_.adjust_steps == 0;
  ++steps_;
  if (is_measuring_) start_measuring();
  return Status::ok();
}

/// What is not measured, though its turn came, is not to be changed.
void StepLevels::start_measuring() {
  std::size_t elements = 0;
  measured_.clear();
  for (const TensorCall& call : pattern_.cycle()) {
    elements += call.count;
    MeasuredCall unknown{call.dtype, call.op, {call.count}, {}, {}, {kInfinity}, {kInfinity}};
    unknown.bytes.assign(family_->levels(), 0);
    unknown.errors.assign(family_->levels(), kInfinity);
    measured_.push_back(std::move(unknown));
  }
  segment_ = segment_elements(elements);
}

/// Without memory for it the call counts as not measured, on all ranks.
void StepLevels::take(const MeasuredTensor& tensor, std::span<const Layer> layers) {
  try {
    measured_[position_] = measure(measured_[position_], tensor, layers);
  } catch (const std::bad_alloc&) {
  }
}

StepLevels::MeasuredCall StepLevels::measure(const MeasuredCall& unknown,
                                             const MeasuredTensor& tensor,
                                             std::span<const Layer> layers) const {
  MeasuredCall call{unknown.dtype, unknown.op, unknown.ends, {}, {}, {}, {}};
  if (has_parts_) call.ends = cut_tensor(tensor.count, layers, segment_);
  // Where a call is cut at layers, each of its parts is one.
  if (call.ends.size() > 1) layers = {};
  std::size_t first = 0;
  for (const std::size_t end : call.ends) {
    const MeasuredTensor part = slice(tensor, first, end);
    for (const LevelCost& cost : family_->measure(part, layers)) {
      call.bytes.push_back(cost.bytes);
      call.errors.push_back(cost.error);
    }
    call.norms.push_back(compress_kernels::measure_norm(part));
    first = end;
  }
  call.result_norms.assign(call.ends.size(), kInfinity);
  return call;
}

void StepLevels::take_result(const void* values) {
  MeasuredCall& call = measured_[position_];
  const MeasuredTensor tensor{values, nullptr, call.ends.back(), call.dtype};
  std::size_t first = 0;
  for (std::size_t part = 0; part < call.ends.size(); ++part) {
    call.result_norms[part] = compress_kernels::measure_norm(slice(tensor, first, call.ends[part]));
    first = call.ends[part];
  }
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
  std::vector<double> errors, bytes(levels);
  for (std::size_t level = 0; level < levels; ++level) {
    errors.push_back(norm_of(call->errors, level, levels));
  }
  for (std::size_t i = 0; i < call->bytes.size(); ++i) bytes[i % levels] += call->bytes[i];
  call->errors = std::move(errors);
  call->bytes = std::move(bytes);
  call->norms = {norm_of(call->norms)};
  call->result_norms = {norm_of(call->result_norms)};
  call->ends = {call->ends.back()};
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

/// Of parts that are now the same: all ranks' squares together. Results are the same everywhere,
/// but for the last bits of what ranks have added up differently.
Status StepLevels::agree_on_errors() {
  std::vector<double*> numbers;
  for (MeasuredCall& call : measured_) {
    for (auto* const of_call : {&call.errors, &call.norms, &call.result_norms, &call.bytes}) {
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
    for (auto* const of_call : {&call.errors, &call.norms}) {
      for (double& number : *of_call) {
        const double share = std::isfinite(largest[i]) ? std::sqrt(double{shares[i]}) : 1;
        number = largest[i++] * share;
      }
    }
    for (auto* const of_call : {&call.result_norms, &call.bytes}) {
      for (double& number : *of_call) number = largest[i++];
    }
  }
  return Status::ok();
}

/// A mean is a sum for this: all that it loses is divided by the same number.
void StepLevels::count_second_encoding() {
  const std::size_t levels = family_->levels();
  for (MeasuredCall& call : measured_) {
    const double divisor = call.op == ReduceOp::kAvg ? peers_.size() : 1;
    for (std::size_t part = 0; part < call.ends.size(); ++part) {
      if (!(call.norms[part] > 0)) continue;
      const double of_sum = std::hypot(1.0, call.result_norms[part] * divisor / call.norms[part]);
      for (std::size_t level = 0; level < levels; ++level) {
        call.errors[part * levels + level] *= of_sum;
      }
    }
  }
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
  RINGPRESS_RETURN_IF_ERROR(agree_on_cuts());
  RINGPRESS_RETURN_IF_ERROR(agree_on_errors());
  count_second_encoding();
  const std::size_t levels = family_->levels();
  std::vector<std::vector<LevelCost>> costs;
  std::vector<std::size_t> defaults;
  for (std::size_t place = 0; place < measured_.size(); ++place) {
    const MeasuredCall& call = measured_[place];
    // What a step that overflowed loses says nothing.
    const bool is_finite = std::all_of(call.errors.begin(), call.errors.end(),
                                       [](double error) { return std::isfinite(error); });
    if (!is_finite) return Status::ok();
    for (std::size_t part = 0; part < call.ends.size(); ++part) {
      costs.emplace_back();
      defaults.push_back(default_level_of(place));
      for (std::size_t i = part * levels; i < (part + 1) * levels; ++i) {
        costs.back().push_back({call.bytes[i], call.errors[i]});
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
