#include "nccl_plugin/tuning/step_levels.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "compress_kernels/factory.h"
#include "ringpress/levels.h"
#include "ringpress/log.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

constexpr std::array kBits{2, 3, 4, 5, 6, 7, 8};

// Accordion's eta, and what it gives a critical call.
constexpr double kCriticalChange = 0.5;
constexpr std::size_t kCriticalBits = 2;

/// Bytes of a number of elements, without the scales, which all levels have alike.
double bytes_of(double count, int bits) {
  return count * bits / 8;
}

}  // namespace

std::optional<BitLevels> find_bit_levels(const std::string& budget) {
  const Result<std::string> whole = compress_kernels::normalize_specification(budget);
  if (!whole.is_ok()) return std::nullopt;
  const std::string& text = whole.value();  // "q4:block=128,grid=uniform,round=nearest"
  constexpr std::string_view kBlock = ":block=";
  constexpr std::string_view kPlain = ",grid=uniform,round=nearest";
  BitLevels levels;
  if (text.size() < 2 || text[0] != 'q' || text[1] < '2' || text[1] > '8') return std::nullopt;
  levels.default_bits = text[1] - '0';
  levels.rest = text.substr(2);
  if (!levels.rest.starts_with(kBlock) || !levels.rest.ends_with(kPlain)) return std::nullopt;
  const char* const last = levels.rest.data() + levels.rest.size() - kPlain.size();
  const auto end = std::from_chars(levels.rest.data() + kBlock.size(), last, levels.block);
  if (end.ptr != last) return std::nullopt;
  return levels;
}

StepLevels::StepLevels(const Settings& settings, Peers& peers, BitLevels levels)
    : settings_(settings), peers_(peers), levels_(std::move(levels)) {}

/// The sequence is another one, or not known any more.
void StepLevels::forget() {
  steps_ = 0;
  is_measuring_ = false;
  bits_.clear();
  earlier_norms_.clear();
}

Status StepLevels::choose(const PlanRequest& request, Plan* plan) {
  wants_values_ = false;
  // Addresses may differ by rank: without them all ranks see the same sequence.
  const auto position =
      pattern_.observe({request.kind, request.count, request.dtype, request.op, nullptr, 0});
  if (pattern_.breaks() != breaks_) forget();
  breaks_ = pattern_.breaks();
  if (!position) return Status::ok();
  position_ = *position;
  if (position_ == 0) RINGPRESS_RETURN_IF_ERROR(start_step());
  wants_values_ = is_measuring_;
  if (is_measuring_) counts_[position_] = static_cast<double>(request.count);
  if (position_ < bits_.size() && plan->codec == settings_.budget) {
    plan->codec = levels_.specification(bits_[position_]);
  }
  return Status::ok();
}

Status StepLevels::start_step() {
  if (is_measuring_) RINGPRESS_RETURN_IF_ERROR(find_bits());
  is_measuring_ = steps_ % settings_.adjust_steps == 0;
  ++steps_;
  if (!is_measuring_) return Status::ok();
  // What is not measured, though its turn came, is not to be changed.
  errors_.assign(pattern_.period() * kBits.size(), std::numeric_limits<double>::infinity());
  counts_.assign(pattern_.period(), 0);
  norms_.assign(pattern_.period(), 0);
  return Status::ok();
}

void StepLevels::take(const MeasuredTensor& tensor) {
  const Result<std::vector<double>> errors =
      compress_kernels::measure_bit_errors(tensor, levels_.block, kBits);
  if (!errors.is_ok()) return;
  std::copy(errors.value().begin(), errors.value().end(),
            errors_.begin() + static_cast<std::ptrdiff_t>(position_ * kBits.size()));
  if (settings_.accordion) norms_[position_] = compress_kernels::measure_norm(tensor);
}

/// By place. Without Accordion, the budget's.
std::vector<std::size_t> StepLevels::find_default_levels() const {
  const auto calm = static_cast<std::size_t>(levels_.default_bits - kBits.front());
  const std::size_t critical = std::min(calm + kCriticalBits, kBits.size() - 1);
  std::vector<std::size_t> found(counts_.size(), calm);
  if (!settings_.accordion) return found;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool is_calm = i < earlier_norms_.size() && std::abs(earlier_norms_[i] - norms_[i]) <
                                                          kCriticalChange * earlier_norms_[i];
    if (!is_calm) found[i] = critical;
  }
  return found;
}

/// From what all ranks have measured. The step that begins has them.
Status StepLevels::find_bits() {
  RINGPRESS_RETURN_IF_ERROR(peers_.max(errors_));
  if (settings_.accordion) RINGPRESS_RETURN_IF_ERROR(peers_.max(norms_));
  const std::vector<std::size_t> defaults = find_default_levels();
  std::vector<LevelCost> costs(errors_.size());
  std::vector<LayerLevels> calls;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    for (std::size_t level = 0; level < kBits.size(); ++level) {
      costs[i * kBits.size() + level] = {bytes_of(counts_[i], kBits[level]),
                                         errors_[i * kBits.size() + level]};
    }
    calls.push_back({std::span(costs).subspan(i * kBits.size(), kBits.size()), defaults[i]});
  }
  const bool is_finite = std::none_of(errors_.begin(), errors_.end(), [](double error) {
    return error == std::numeric_limits<double>::infinity();
  });
  if (!is_finite) return Status::ok();  // What a step that overflowed loses says nothing.
  earlier_norms_ = norms_;
  RINGPRESS_ASSIGN_OR_RETURN(const LevelChoice choice, tuner::allocate_levels(calls, {}));
  bits_.clear();
  double before = 0;
  for (std::size_t i = 0; i < choice.levels.size(); ++i) {
    bits_.push_back(kBits[choice.levels[i]]);
    before += bytes_of(counts_[i], levels_.default_bits);
  }
  log_line(LogLevel::kInfo, "levels of a step of %zu calls: %.3f of the bytes of q%d", bits_.size(),
           choice.bytes / std::max(before, 1.0), levels_.default_bits);
  return Status::ok();
}

}  // namespace ringpress::nccl_plugin::tuning
