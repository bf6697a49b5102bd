#include "nccl_plugin/tuning/step_levels.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

const std::byte* at(const MeasuredTensor& tensor, std::size_t element) {
  return static_cast<const std::byte*>(tensor.values) + element * dtype_size(tensor.dtype);
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
  if (position_ >= levels_.size() || plan->codec != settings_.budget) return Status::ok();
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
    measured_.push_back({{call.count}, std::vector<double>(family_->levels(), kInfinity), 0});
  }
  segment_ = segment_elements(elements);
}

void StepLevels::take(const MeasuredTensor& tensor, std::span<const Layer> layers) {
  MeasuredCall& call = measured_[position_];
  if (has_parts_) call.ends = cut_tensor(tensor.count, layers, segment_);
  call.errors.clear();
  std::size_t first = 0;
  for (const std::size_t end : call.ends) {
    const float* const residual = tensor.residual == nullptr ? nullptr : tensor.residual + first;
    const MeasuredTensor part{at(tensor, first), residual, end - first, tensor.dtype};
    const std::vector<double> errors = family_->errors(part);
    call.errors.insert(call.errors.end(), errors.begin(), errors.end());
    first = end;
  }
  if (settings_.accordion) call.norm = compress_kernels::measure_norm(tensor);
}

/// Without Accordion, the budget's.
std::size_t StepLevels::default_level_of(std::size_t place) const {
  if (!settings_.accordion) return family_->default_level();
  if (place >= earlier_norms_.size()) return family_->careful_level();
  const double earlier = earlier_norms_[place];
  const bool is_calm = std::abs(earlier - measured_[place].norm) < kCriticalChange * earlier;
  return is_calm ? family_->default_level() : family_->careful_level();
}

/// As if the call had not been cut: squares add up.
void StepLevels::join_parts(MeasuredCall* call) const {
  std::vector<double> squares(family_->levels());
  for (std::size_t i = 0; i < call->errors.size(); ++i) {
    squares[i % squares.size()] += call->errors[i] * call->errors[i];
  }
  for (double& square : squares) square = std::sqrt(square);
  call->errors = std::move(squares);
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

/// The largest of what the ranks have measured, of parts that are now the same.
Status StepLevels::agree_on_errors() {
  std::vector<double> numbers;
  for (const MeasuredCall& call : measured_) {
    numbers.insert(numbers.end(), call.errors.begin(), call.errors.end());
    numbers.push_back(call.norm);
  }
  RINGPRESS_RETURN_IF_ERROR(peers_.max(numbers));
  auto next = numbers.begin();
  for (MeasuredCall& call : measured_) {
    for (double& error : call.errors) error = *next++;
    call.norm = *next++;
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
  RINGPRESS_RETURN_IF_ERROR(agree_on_cuts());
  RINGPRESS_RETURN_IF_ERROR(agree_on_errors());
  const std::size_t levels = family_->levels();
  std::vector<std::vector<LevelCost>> costs;
  std::vector<std::size_t> defaults;
  for (std::size_t place = 0; place < measured_.size(); ++place) {
    const MeasuredCall& call = measured_[place];
    // What a step that overflowed loses says nothing.
    const auto infinite = std::find(call.errors.begin(), call.errors.end(), kInfinity);
    if (infinite != call.errors.end()) return Status::ok();
    std::size_t first = 0;
    for (std::size_t part = 0; part < call.ends.size(); ++part) {
      costs.emplace_back();
      defaults.push_back(default_level_of(place));
      for (std::size_t level = 0; level < levels; ++level) {
        costs.back().push_back(
            {family_->bytes(level, call.ends[part] - first), call.errors[part * levels + level]});
      }
      first = call.ends[part];
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
  for (const MeasuredCall& call : measured_) earlier_norms_.push_back(call.norm);
  set_levels(choice.levels);
  log_line(LogLevel::kInfo, "levels of a step of %zu calls, %zu parts: %.3f of the bytes of %s",
           levels_.size(), parts.size(), choice.bytes / std::max(before, 1.0),
           settings_.budget.c_str());
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::tuning
