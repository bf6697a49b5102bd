#include "nccl_plugin/session/calls/call_classes.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ringpress::nccl_plugin {
namespace {

// Shards of so many sizes are none of activations, which have one or two.
constexpr std::size_t kSizesOfBuckets = 3;
// All-gathers in a row: parameters for the layers of a forward pass. (Those of activations come one
// or two at a time.)
constexpr std::size_t kGathersInRow = 3;
// Calls of one kind, type and size that come before they count as recurring.
constexpr std::uint64_t kCallsBefore = 2;

bool is_of(const TensorCall& call, CollectiveKind kind) {
  return call.kind == kind;
}

bool has_maxima(std::span<const TensorCall> step) {
  return std::any_of(step.begin(), step.end(), [](const TensorCall& call) {
    return is_of(call, CollectiveKind::kAllReduce) && !is_sum(call.op) &&
           is_compressible(call.dtype);
  });
}

/// Different sizes of the step's calls of this kind.
std::size_t sizes_of(std::span<const TensorCall> step, CollectiveKind kind) {
  std::set<std::size_t> sizes;
  for (const TensorCall& call : step) {
    if (is_of(call, kind)) sizes.insert(call.count * dtype_size(call.dtype));
  }
  return sizes.size();
}

std::size_t calls_of(std::span<const TensorCall> step, CollectiveKind kind) {
  return static_cast<std::size_t>(std::count_if(
      step.begin(), step.end(), [kind](const TensorCall& call) { return is_of(call, kind); }));
}

/// The most calls of this kind without any of `other` between them. The step goes round.
std::size_t longest_row(std::span<const TensorCall> step, CollectiveKind kind,
                        CollectiveKind other) {
  std::size_t row = 0, longest = 0;
  for (std::size_t i = 0; i < 2 * step.size(); ++i) {
    const TensorCall& call = step[i % step.size()];
    if (is_of(call, other)) row = 0;
    if (is_of(call, kind)) longest = std::max(longest, ++row);
  }
  return std::min(longest, calls_of(step, kind));
}

/// Shards of gradients are scattered while parameters are gathered for a whole forward pass, or
/// before all of them are, once the step is taken.
CallClass classify_scatters(std::span<const TensorCall> step) {
  const std::size_t scatters = calls_of(step, CollectiveKind::kReduceScatter);
  const std::size_t gathers = calls_of(step, CollectiveKind::kAllGather);
  if (gathers == 0) {
    return sizes_of(step, CollectiveKind::kReduceScatter) >= kSizesOfBuckets ? CallClass::kGradient
                                                                             : CallClass::kAlike;
  }
  constexpr auto kScatter = CollectiveKind::kReduceScatter, kGather = CollectiveKind::kAllGather;
  const bool comes_in_row = scatters > 1 && longest_row(step, kScatter, kGather) == scatters;
  const bool gathers_ahead = longest_row(step, kGather, kScatter) >= kGathersInRow;
  return comes_in_row || gathers_ahead ? CallClass::kGradient : CallClass::kBesideGathers;
}

CallClass class_by(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGradients:
      return CallClass::kGradient;
    case Verdict::kUnsaid:
      return CallClass::kUnsaid;
    case Verdict::kPauses:
      return CallClass::kPauses;
    case Verdict::kBuffers:
      return CallClass::kBuffers;
    case Verdict::kValues:
      return CallClass::kValues;
  }
  return CallClass::kUnsaid;
}

TensorCall shape_of(const PlanRequest& request) {
  return {request.kind, request.count, request.dtype, request.op};
}

}  // namespace

bool takes_gradients_alone(const CallSettings& settings) {
  return settings.codec.is_automatic() && settings.gradients == GradientChoice::kKnown;
}

StepClasses classify_step(std::span<const TensorCall> step, NamedFor name) {
  if (name == NamedFor::kOthers) return {CallClass::kNamed, CallClass::kNamed, false};
  if (has_maxima(step)) return {CallClass::kBesideMaxima, CallClass::kBesideMaxima, false};
  if (name == NamedFor::kGradients) return {};
  StepClasses found;
  found.reduce_scatters = classify_scatters(step);
  found.is_open = calls_of(step, CollectiveKind::kAllReduce) > 0;
  return found;
}

CallClasses::CallClasses(const CallSettings& settings, std::string_view name,
                         std::shared_ptr<CallSequence> sequence, std::size_t steps_until_heard)
    : settings_(settings),
      sequence_(std::move(sequence)),
      name_(named_for(name)),
      is_asked_(settings.codec.is_automatic()),
      takes_all_(settings.gradients == GradientChoice::kAll),
      vote_(steps_until_heard) {}

void CallClasses::observe(const PlanRequest& request, const CallEvidence::Seen& seen,
                          const ValueSample& values) {
  vote_.skip_call();
  if (!is_of_interest(request)) return;
  TensorCall call = shape_of(request);
  if (takes_all_) {
    if (recurrences_.count(request) >= kCallsBefore) known_.set(call, CallClass::kGradient);
    return;
  }
  call.layout = request.pre_multiplied ? 1 : 0;
  const CallPlaces places = sequence_->ask(CallUser::kClass, call);
  if (!places.by_shape) return vote_.break_step();
  if (places.shapes.cycle().id != step_id_) begin_step(places.shapes);
  CallEvidence::Seen of_step = seen;
  of_step.is_all_reduce = request.kind == CollectiveKind::kAllReduce;
  of_step.shape = shapes_.number_of(call);
  vote_.note(of_step, values);
}

/// Another sequence of calls repeats from now on.
void CallClasses::begin_step(const CallPattern& shapes) {
  step_id_ = shapes.cycle().id;
  const auto& step = shapes.cycle().calls;
  step_.assign(step.begin(), step.end());
  found_ = classify_step(step_, name_);
  shapes_.begin(step_, known_);
  vote_.begin_steps(step_.size(), found_.is_open);
  note_step();
}

void CallClasses::apply(const ClassBallot& of_all) {
  shapes_.set_ballot(of_all);
  vote_.end();
  note_step();
}

void CallClasses::note_step() {
  for (std::size_t shape = 0; shape < shapes_.all().size(); ++shape) {
    known_.set(shapes_.all()[shape],
               found_.is_open ? class_by(shapes_.ballot().of(shape)) : found_.all_reduces);
  }
  for (const TensorCall& call : step_) {
    if (call.kind == CollectiveKind::kReduceScatter) known_.set(call, found_.reduce_scatters);
    // Where all-gathers may be lossy, the user has said so.
    if (call.kind == CollectiveKind::kAllGather) known_.set(call, CallClass::kGradient);
  }
}

CallClass CallClasses::class_of(const PlanRequest& request) const {
  return known_.of(shape_of(request));
}

}  // namespace ringpress::nccl_plugin
