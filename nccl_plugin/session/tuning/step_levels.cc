#include "nccl_plugin/session/tuning/step_levels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nccl_plugin/session/calls/comm_shape.h"
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
// Steps after which there are levels for the first time.
constexpr std::size_t kFirstInterval = 100;
LevelBudget budget_of(const CallSettings& settings) {
  LevelBudget budget;
  budget.alpha = settings.adjust_alpha;
  budget.metric = settings.adjust_metric;
  return budget;
}

double bytes_of(const LeveledCall& call, const LevelFamily& family) {
  double bytes = 0;
  std::size_t first = 0;
  for (const LeveledPart& part : call) {
    bytes += family.bytes(part.level, part.end - first);
    first = part.end;
  }
  return bytes;
}

/// Of a call of `count` elements.
LeveledCall load_levels(StateReader& from, std::size_t count, const LevelFamily& family) {
  LeveledCall call(from.get_count(2 * sizeof(std::uint64_t)));
  std::size_t first = 0;
  for (LeveledPart& part : call) {
    part.end = static_cast<std::size_t>(from.get<std::uint64_t>());
    part.level = static_cast<std::size_t>(from.get<std::uint64_t>());
    from.require(part.end > first && part.end <= count && part.level < family.levels());
    first = part.end;
  }
  from.require(first == count);
  return call;
}

/// Without Accordion, the budget's.
std::size_t default_level_of(std::size_t place, const LeveledStep& step,
                             const CallSettings& settings, const LevelFamily& family) {
  if (!settings.accordion) return family.default_level();
  if (place >= step.earlier_norms.size()) return family.careful_level();
  const double earlier = step.earlier_norms[place];
  const bool is_calm = std::abs(earlier - step.measured[place].norm()) < kCriticalChange * earlier;
  return is_calm ? family.default_level() : family.careful_level();
}

void load_step(StateReader& from, const LevelFamily& family, LeveledStep* step) {
  step->age = static_cast<std::size_t>(from.get<std::uint64_t>());
  step->interval = static_cast<std::size_t>(from.get<std::uint64_t>());
  std::vector<TensorCall> calls(from.get_count(kSavedCallBytes, CallHistory::kLongestPeriod));
  for (TensorCall& call : calls) call = load_call(from);
  from.require(!calls.empty() && step->measured.empty());
  if (!from.is_ok()) return;
  step->start(calls);
  step->earlier_norms = from.get_list<double>(calls.size());
  if (!from.get<bool>()) return;
  for (const TensorCall& call : calls) {
    step->levels.push_back(load_levels(from, call.count, family));
  }
}

}  // namespace

StepLevels::StepLevels(const CallSettings& settings, Peers& peers,
                       std::unique_ptr<LevelFamily> family, std::shared_ptr<CallSequence> sequence)
    : settings_(settings),
      family_(std::move(family)),
      measurer_(settings, peers, *family_),
      sequence_(std::move(sequence)) {}

Status StepLevels::choose(const PlanRequest& request, const Decision& decision) {
  chosen_ = {};
  const CallPlaces places = sequence_->ask(
      CallUser::kLevels, {request.kind, request.count, request.dtype, request.op, nullptr, 0});
  const CallPattern& pattern = places.shapes;
  if (has_changed(&breaks_, pattern.breaks())) {
    // A step that has not come to its end does not count.
    const bool is_whole = step_ == nullptr || position_ + 1 == step_->measured.size();
    if (!is_whole && step_->steps > 0) --step_->steps;
    step_ = nullptr;
  }
  for (const std::uint64_t cycle : pattern.forgotten()) known_.erase(cycle);
  if (!places.by_shape) return Status::ok();
  step_ = &known_[pattern.cycle().id];
  if (step_->measured.size() != pattern.cycle().period())
    *step_ = {};  // Of a state that makes no sense.
  position_ = *places.by_shape;
  if (position_ == 0) RINGPRESS_RETURN_IF_ERROR(start_step(pattern));
  chosen_.wants_values = measurer_.wants_values(*step_);
  if (position_ >= step_->levels.size() || decision.codec != usual_codec(settings_)) {
    return Status::ok();
  }
  const LeveledCall& call = step_->levels[position_];
  if (call.size() == 1) {
    chosen_.codec = family_->specification(call[0].level);
  } else if (traits_of(decision.algorithm).takes_parts) {
    chosen_.parts = call;
  }
  return Status::ok();
}

Status StepLevels::start_step(const CallPattern& pattern) {
  if (step_->interval == 0) {
    step_->interval = std::min(settings_.adjust_steps, kFirstInterval);
    step_->start(pattern.cycle().calls);
    inherit_levels();
  } else if (step_->steps == step_->interval) {
    RINGPRESS_RETURN_IF_ERROR(find_levels());
    step_->age += step_->interval;
    step_->interval = settings_.adjust_steps;
    step_->start(pattern.cycle().calls);
  }
  ++step_->steps;
  if (!step_->levels.empty()) last_leveled_ = pattern.cycle().id;
  return Status::ok();
}

/// Of the step that had levels last, wherever it comes whole in this one. Of a part of it they
/// would not be within the budget.
void StepLevels::inherit_levels() {
  const auto found = known_.find(last_leveled_);
  if (found == known_.end() || &found->second == step_) return;
  const LeveledStep& part = found->second;
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
    const double before =
        bytes_of(place < step_->levels.size() ? step_->levels[place] : usual, *family_);
    chosen_.has_changed_sizes |=
        std::abs(bytes_of(call, *family_) - before) > kClearChange * before;
    found.push_back(std::move(call));
  }
  step_->levels = std::move(found);
}

/// From what all ranks have measured.
Status StepLevels::find_levels() {
  RINGPRESS_ASSIGN_OR_RETURN(const bool is_measured, measurer_.conclude(step_));
  if (!is_measured) return Status::ok();
  const std::size_t levels = family_->levels();
  std::vector<std::vector<LevelCost>> costs;
  std::vector<std::size_t> defaults;
  for (std::size_t place = 0; place < step_->measured.size(); ++place) {
    const MeasuredCall& call = step_->measured[place];
    for (std::size_t part = 0; part < call.ends.size(); ++part) {
      costs.emplace_back();
      defaults.push_back(default_level_of(place, *step_, settings_, *family_));
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

void StepLevels::load(StateReader& from) {
  breaks_ = from.get<std::uint64_t>();
  last_leveled_ = from.get<std::uint64_t>();
  const std::size_t steps = from.get_count(sizeof(std::uint64_t), KnownCycles::kMost + 1);
  for (std::size_t i = 0; i < steps && from.is_ok(); ++i) {
    LeveledStep& step = known_[from.get<std::uint64_t>()];
    load_step(from, *family_, &step);
  }
}

}  // namespace ringpress::nccl_plugin::tuning
