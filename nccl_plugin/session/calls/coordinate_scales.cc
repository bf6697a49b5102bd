#include "nccl_plugin/session/calls/coordinate_scales.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <limits>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/calls/scale_schedule.h"
#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kSavedTensorBytes = 42;

}  // namespace

bool CoordinateScales::may_be_wanted(const CallSettings& settings) {
  const bool is_chosen = settings.feedback == FeedbackChoice::kAuto && is_automatic(settings);
  return (is_chosen || settings.feedback == FeedbackChoice::kScales) &&
         settings.mode == Mode::kOn && settings.adjust_steps == 0 && settings.lazy == 0;
}

ScalesAnswer may_have_scales(const CallSettings& settings, const std::string& codec) {
  if (settings.lazy != 0) return ScalesAnswer::kPutOff;
  if (settings.adjust_steps != 0) return ScalesAnswer::kHasLevels;
  const Result<std::size_t> block = compress_kernels::block_of_scales(codec);
  return block.is_ok() && block.value() == 0 ? ScalesAnswer::kNotByCodec : ScalesAnswer::kYes;
}

std::string to_text(ScalesAnswer answer, const std::string& codec) {
  switch (answer) {
    case ScalesAnswer::kYes:
      break;
    case ScalesAnswer::kPutOff:
      return "calls that are put off have no coordinate scales";
    case ScalesAnswer::kHasLevels:
      return "calls with levels have no coordinate scales";
    case ScalesAnswer::kNotByCodec:
      return codec + " takes no coordinate scales";
  }
  return "";
}

CoordinateScales::Chosen CoordinateScales::choose(const TensorCall& call, std::size_t block) {
  const CallPlaces places = sequence_->ask(CallUser::kScales, call);
  tensors_.forget(places);
  if (!places.by_shape || block == 0) return {};
  Tensor* const tensor = tensor_at(places, call);
  if (tensor == nullptr) return {};
  if (tensor->block != block) {
    tensor->block = block;
    find_codes(tensor);
  }
  if (!tensor->is_helped) return {nullptr, 0, tensor};
  return {tensor->codes.data(), tensor->codes_hash, tensor};
}

/// Null: it would be above the limit.
CoordinateScales::Tensor* CoordinateScales::tensor_at(const CallPlaces& places,
                                                      const TensorCall& call) {
  Tensor* const tensor = tensors_.at(places, call.count * (sizeof(float) + 1), [&call] {
    Tensor made;
    made.dtype = call.dtype;
    made.squares.resize(call.count);
    made.codes.resize(call.count);
    return made;
  });
  if (tensor == nullptr) return nullptr;
  // (Another one only in a state that makes no sense.)
  return tensor->squares.size() == call.count && tensor->dtype == call.dtype ? tensor : nullptr;
}

void CoordinateScales::find_codes(Tensor* tensor) {
  compress_kernels::find_scales(tensor->squares.data(), tensor->squares.size(), tensor->block,
                                tensor->codes.data());
  tensor->codes_hash = XXH3_64bits(tensor->codes.data(), tensor->codes.size());
}

void CoordinateScales::learn(const Chosen& chosen, const void* result) {
  if (chosen.tensor == nullptr) return;
  Tensor& tensor = *chosen.tensor;
  const std::uint64_t calls = ++tensor.calls;
  const std::size_t count = tensor.squares.size();
  if (is_measured_for_scales(calls)) {
    tensor.is_helped = compress_kernels::do_scales_help(compress_kernels::measure_scales(
        result, count, tensor.dtype, tensor.codes.data(), tensor.block));
  }
  if (!is_learnt_for_scales(calls)) return;
  compress_kernels::learn_scales(result, count, tensor.dtype, weight_for_scales(calls),
                                 tensor.squares.data());
  find_codes(&tensor);
}

std::uint64_t CoordinateScales::hash() const {
  std::uint64_t hash = tensors_.cycles().size();
  for (const std::uint64_t cycle : tensors_.cycles()) hash = combine_hash(hash, cycle);
  for (const auto& [key, tensor] : tensors_.all()) {
    const std::size_t bytes = tensor.squares.size() * sizeof(float);
    for (const std::uint64_t part :
         {key.first, std::uint64_t{key.second}, tensor.calls, std::uint64_t{tensor.block},
          static_cast<std::uint64_t>(tensor.dtype), std::uint64_t{tensor.is_helped},
          static_cast<std::uint64_t>(XXH3_64bits(tensor.squares.data(), bytes))}) {
      hash = combine_hash(hash, part);
    }
  }
  return hash;
}

void CoordinateScales::save(StateWriter& to) const {
  to.put_list(tensors_.cycles());
  to.put<std::uint64_t>(tensors_.all().size());
  for (const auto& [key, tensor] : tensors_.all()) {
    to.put(key.first);
    to.put<std::uint64_t>(key.second);
    to.put(tensor.dtype);
    to.put(tensor.calls);
    to.put<std::uint64_t>(tensor.block);
    to.put(tensor.is_helped);
    to.put_list(tensor.squares);
  }
}

void CoordinateScales::load(StateReader& from) {
  constexpr std::size_t kMostCycles = PlacedTensors<Tensor>::kMostCycles;
  const std::vector<std::uint64_t> cycles = from.get_list<std::uint64_t>(kMostCycles);
  tensors_.set_cycles(cycles);
  const std::size_t tensors =
      from.get_count(kSavedTensorBytes, kMostCycles * CallHistory::kLongestPeriod);
  for (std::size_t i = 0; i < tensors && from.is_ok(); ++i) {
    const auto cycle = from.get<std::uint64_t>();
    const auto position = static_cast<std::size_t>(from.get<std::uint64_t>());
    Tensor tensor;
    tensor.dtype = static_cast<DType>(from.get<std::uint8_t>());
    tensor.calls = from.get<std::uint64_t>();
    tensor.block = static_cast<std::size_t>(from.get<std::uint64_t>());
    tensor.is_helped = from.get<bool>();
    tensor.squares = from.get_list<float>();
    const bool are_squares = std::all_of(
        tensor.squares.begin(), tensor.squares.end(),
        [](float square) { return square >= 0 && square <= std::numeric_limits<float>::max(); });
    from.require(is_compressible(tensor.dtype) && tensor.block != 0 && are_squares);
    from.require(std::find(cycles.begin(), cycles.end(), cycle) != cycles.end());
    if (!from.is_ok()) return;
    tensor.codes.resize(tensor.squares.size());
    find_codes(&tensor);
    from.require(tensors_.add({cycle, position}, std::move(tensor)));
  }
}

}  // namespace ringpress::nccl_plugin
