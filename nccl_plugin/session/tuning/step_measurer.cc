#include "nccl_plugin/session/tuning/step_measurer.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "nccl_plugin/session/tuning/tensor_cut.h"
#include "ringpress/internal/algorithms.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

// L-GreCo's window. Without error feedback the mean of many calls is off by a small bias under much
// noise, which takes more steps to see.
constexpr std::size_t kWindow = 10;
constexpr std::size_t kWindowWithoutFeedback = 30;
// Of a call, however small its share of a step is.
constexpr std::size_t kFewestSamples = 2048;
// Of tensors that are told apart. A program with more of them in a row takes new ones each time.
constexpr std::size_t kMostBuffers = 1024;
// Floats that ranks exchange about how their values of a part lie to each other: in all, and each.
constexpr std::size_t kSketches = 8192;
constexpr std::size_t kShortestSketch = 32;
constexpr std::size_t kLongestSketch = 128;

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

void take_norms(const MeasuredTensor& tensor, MeasuredCall* call) {
  std::size_t first = 0;
  for (std::size_t part = 0; part < call->ends.size(); ++part) {
    MeasuredTensor values = slice(tensor, first, call->ends[part]);
    values.residual = nullptr;
    call->norms[part] = compress_kernels::measure_norm(values);
    first = call->ends[part];
  }
}

/// As if the call had not been cut.
void join_parts(std::size_t levels, MeasuredCall* call) {
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

}  // namespace

bool MeasuredCall::is_measured() const {
  const auto is_empty = [](const SampledPart& part) { return part.steps().empty(); };
  return !is_lost && times > 0 && std::none_of(samples.begin(), samples.end(), is_empty);
}

/// Tensors of one size in a row look like one, whose calls are a step each. By their buffers, which
/// come in turns, they are told apart: they have no levels, as the window would not hold all of
/// them alike.
bool MeasuredCall::comes_back_to(const void* buffer) {
  if (!buffers.empty() && buffers.back() == buffer) return false;
  const bool is_known = std::find(buffers.begin(), buffers.end(), buffer) != buffers.end();
  if (!is_known && buffers.size() < kMostBuffers) buffers.push_back(buffer);
  return is_known;
}

double MeasuredCall::norm() const {
  return norm_of(norms);
}

/// Now, and later: if values grow as they did, or fall back. Levels are to hold in any case.
LevelErrors MeasuredCall::errors_of(std::size_t part, std::size_t i) const {
  const double ratio = later_norms[part] / norms[part];
  const double growth = std::isfinite(ratio) && ratio > 0 ? ratio : 1;
  const double of_call = errors[kLossOfCall][i], later = errors[kLossOfLaterMean][i];
  return {of_call,        errors[kLossOfMean][i], growth * of_call,
          growth * later, of_call / growth,       later / growth};
}

void MeasuredStep::start(std::span<const TensorCall> calls) {
  steps = 0;
  elements = 0;
  measured.clear();
  for (const TensorCall& call : calls) {
    elements += call.count;
    measured.emplace_back();
    measured.back().dtype = call.dtype;
    measured.back().op = call.op;
    measured.back().count = call.count;
  }
  segment = segment_elements(elements);
}

StepMeasurer::StepMeasurer(const CallSettings& settings, Peers& peers, const LevelFamily& family)
    : settings_(settings),
      peers_(peers),
      family_(family),
      has_parts_(family.has_parts() && traits_of(unsplit_algorithm(settings)).takes_parts) {}

bool StepMeasurer::wants_values(const MeasuredStep& step) const {
  return step.interval != 0 && (family_.sampled_values() != 0 || step.is_in_window(kWindow));
}

void StepMeasurer::take(const MeasuredTensor& tensor, std::span<const Layer> layers,
                        std::size_t place, MeasuredStep* step) const {
  MeasuredCall& call = step->measured[place];
  if (call.is_lost) return;
  try {
    const bool is_step_of_one = step->measured.size() == 1;
    if (is_step_of_one && call.comes_back_to(tensor.values)) {
      call.is_lost = true;
      return;
    }
    if (call.ends.empty()) start_call(layers, *step, &call);
    // Of a step that is broken off, calls may come again.
    const bool is_sampled = family_.sampled_values() != 0;
    const bool has_bias = is_sampled && tensor.residual == nullptr;
    const std::size_t window = has_bias ? kWindowWithoutFeedback : kWindow;
    const bool is_kept = step->is_in_window(window) && call.times < window;
    if (is_sampled) {
      add_sample(tensor, is_kept, is_kept && step->is_in_window(kWindow), &call);
    } else if (is_kept) {
      add_measured(tensor, layers, &call);
    }
    if (is_kept) ++call.times;
    if (step->steps == step->interval) take_norms(tensor, &call);
  } catch (const std::bad_alloc&) {
    call.is_lost = true;
  }
}

void StepMeasurer::start_call(std::span<const Layer> layers, const MeasuredStep& step,
                              MeasuredCall* call) const {
  std::vector<std::size_t> ends{call->count};
  if (has_parts_) ends = cut_tensor(call->count, layers, step.segment);
  call->norms.assign(ends.size(), 0);
  const double share = static_cast<double>(family_.sampled_values()) /
                       static_cast<double>(std::max<std::size_t>(step.elements, 1));
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

void StepMeasurer::add_sample(const MeasuredTensor& tensor, bool is_kept, bool is_encoded,
                              MeasuredCall* call) const {
  std::size_t first = 0;
  for (std::size_t part = 0; part < call->ends.size(); ++part) {
    const MeasuredTensor values = slice(tensor, first, call->ends[part]);
    const bool is_added = call->samples[part].add(values, is_kept);
    if (is_added && is_encoded) {
      call->encodings[part].add(family_, values, call->samples[part].steps().back());
    }
    first = call->ends[part];
  }
}

/// The squares are added up.
void StepMeasurer::add_measured(const MeasuredTensor& tensor, std::span<const Layer> layers,
                                MeasuredCall* call) const {
  const std::vector<LevelLoss> losses = family_.measure(tensor, layers);
  call->bytes.assign(losses.size(), 0);
  for (std::vector<double>& of_kind : call->errors) of_kind.resize(losses.size());
  for (std::size_t level = 0; level < losses.size(); ++level) {
    call->bytes[level] = losses[level].bytes;
    for (std::size_t kind = 0; kind < kLossKinds; ++kind) {
      call->errors[kind][level] += losses[level].errors[kind] * losses[level].errors[kind];
    }
  }
}

/// What is known of a call after its steps.
void StepMeasurer::conclude_call(const MeasuredStep& step, MeasuredCall* call) const {
  for (std::vector<double>& of_kind : call->errors) {
    for (double& error : of_kind) error = std::sqrt(error / static_cast<double>(call->times));
  }
  const TrialCalls calls{step.age + step.interval,
                         step.age + step.interval + settings_.adjust_steps};
  for (std::size_t part = 0; part < call->samples.size(); ++part) {
    const RanksSum sum = part < call->sums.size() ? call->sums[part] : RanksSum();
    for (const LevelLoss& loss : family_.try_levels(call->samples[part], sum, calls)) {
      call->bytes.push_back(loss.bytes);
      for (std::size_t kind = 0; kind < kLossKinds; ++kind) {
        call->errors[kind].push_back(loss.errors[kind]);
      }
    }
  }
  for (std::vector<double>& of_kind : call->errors) {
    correct_errors(call->encodings, family_.levels(), of_kind);
  }
  call->later_norms = call->norms;
  for (std::size_t part = 0; part < call->samples.size(); ++part) {
    call->later_norms[part] *= call->samples[part].growth(settings_.adjust_steps);
  }
  if (!call->is_cut_alike) join_parts(family_.levels(), call);
}

Result<bool> StepMeasurer::agree_on_cuts(MeasuredStep* step) const {
  std::vector<double> hashes;  // The largest of all ranks', and the smallest, negative.
  double is_missing = 0;
  for (const MeasuredCall& call : step->measured) {
    if (!call.is_measured()) is_missing = 1;
    const auto hash = static_cast<double>(hash_of_cut(call.ends));
    hashes.insert(hashes.end(), {hash, -hash});
  }
  hashes.push_back(is_missing);
  RINGPRESS_RETURN_IF_ERROR(peers_.max(hashes));
  for (std::size_t place = 0; place < step->measured.size(); ++place) {
    step->measured[place].is_cut_alike = hashes[2 * place] == -hashes[2 * place + 1];
  }
  return hashes.back() == 0;
}

/// Of parts that are now the same: all ranks' squares together.
Status StepMeasurer::agree_on_errors(MeasuredStep* step) const {
  std::vector<double*> numbers;
  std::vector<double> largest;  // And bytes, which are not added up.
  for (MeasuredCall& call : step->measured) {
    for (std::vector<double>& of_kind : call.errors) {
      for (double& number : of_kind) numbers.push_back(&number);
    }
    for (auto* const norms : {&call.norms, &call.later_norms}) {
      for (double& number : *norms) numbers.push_back(&number);
    }
  }
  for (const double* const number : numbers) largest.push_back(*number);
  for (const MeasuredCall& call : step->measured) {
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
  for (MeasuredCall& call : step->measured) {
    for (double& number : call.bytes) number = largest[i++];
  }
  return Status::ok();
}

/// How the ranks' values add up, by part.
Status StepMeasurer::agree_on_sums(MeasuredStep* step) const {
  std::size_t parts = 0;
  for (const MeasuredCall& call : step->measured) {
    if (call.is_cut_alike) parts += call.samples.size();
  }
  if (parts == 0) return Status::ok();
  const std::size_t length = std::clamp(kSketches / parts, kShortestSketch, kLongestSketch);
  std::vector<float> sketches;  // Of each part with samples: of the mean, and of what is beside it.
  std::vector<float> squares;   // Of each of these.
  for (const MeasuredCall& call : step->measured) {
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
  for (MeasuredCall& call : step->measured) {
    if (!call.is_cut_alike) continue;
    for (std::size_t part = 0; part < call.samples.size(); ++part) {
      const double of_mean = next_alignment();
      const double of_rest = next_alignment();
      call.sums.push_back({of_mean, of_rest, ranks});
    }
  }
  return Status::ok();
}

Result<bool> StepMeasurer::conclude(MeasuredStep* step) const {
  RINGPRESS_ASSIGN_OR_RETURN(const bool is_measured, agree_on_cuts(step));
  if (!is_measured) return false;
  RINGPRESS_RETURN_IF_ERROR(agree_on_sums(step));
  for (MeasuredCall& call : step->measured) conclude_call(*step, &call);
  RINGPRESS_RETURN_IF_ERROR(agree_on_errors(step));
  // What steps that all overflowed lose says nothing.
  for (const MeasuredCall& call : step->measured) {
    const std::vector<double>& of_calls = call.errors[kLossOfCall];
    const bool is_finite = std::all_of(of_calls.begin(), of_calls.end(),
                                       [](double error) { return std::isfinite(error); });
    if (!is_finite) return false;
  }
  return true;
}

}  // namespace ringpress::nccl_plugin::tuning
