#include "nccl_plugin/session/calls/coordinate_scales.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "compress_kernels/factory.h"
#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin {
namespace {

// Of a result, in the running mean of squares.
constexpr float kWeight = 0.1f;
// What encoding a result loses has to become smaller by as much at least.
constexpr double kHelps = 0.9;
constexpr std::uint64_t kMeasuredEach = 64;
constexpr std::uint64_t kLearntAtLeastEach = 32;
constexpr std::size_t kSavedTensorBytes = 42;

bool is_measured(std::uint64_t calls) {
  return calls % kMeasuredEach == 0 ||
         (calls > 1 && calls < kMeasuredEach && std::has_single_bit(calls));
}

/// Each up to the 31st, each 2nd up to the 63rd, and so on.
bool is_learnt_from(std::uint64_t calls) {
  return calls % std::clamp<std::uint64_t>(std::bit_floor(calls) / 16, 1, kLearntAtLeastEach) == 0;
}

}  // namespace

bool CoordinateScales::may_be_wanted(const CallSettings& settings) {
  const bool is_chosen = settings.feedback == FeedbackChoice::kAuto && is_automatic(settings);
  return (is_chosen || settings.feedback == FeedbackChoice::kScales) &&
         settings.mode == Mode::kOn && settings.adjust_steps == 0 && settings.lazy == 0;
}

std::string why_no_scales(const CallSettings& settings, const std::string& codec) {
  if (settings.lazy != 0) return "calls that are put off have no coordinate scales";
  if (settings.adjust_steps != 0) return "calls with levels have no coordinate scales";
  const Result<std::size_t> block = compress_kernels::block_of_scales(codec);
  if (!block.is_ok() || block.value() != 0) return "";
  return codec + " takes no coordinate scales";
}

CoordinateScales::Chosen CoordinateScales::choose(const TensorCall& call, std::size_t block) {
  const CallPlaces places = sequence_->ask(CallUser::kScales, call);
  for (const std::uint64_t cycle : places.shapes.forgotten()) drop(cycle);
  if (!places.by_shape || block == 0) return {};
  use(places.shapes.cycle().id);
  Tensor* const tensor = tensor_at({places.shapes.cycle().id, *places.by_shape}, call);
  if (tensor == nullptr) return {};
  if (tensor->block != block) {
    tensor->block = block;
    find_codes(tensor);
  }
  if (!tensor->is_helped) return {nullptr, 0, tensor};
  return {tensor->codes.data(), tensor->codes_hash, tensor};
}

/// Null: it would be above the limit.
CoordinateScales::Tensor* CoordinateScales::tensor_at(const Key& key, const TensorCall& call) {
  const auto found = known_.find(key);
  if (found != known_.end()) {
    Tensor& tensor = found->second;
    // (Another one only in a state that makes no sense.)
    return tensor.squares.size() == call.count && tensor.dtype == call.dtype ? &tensor : nullptr;
  }
  Tensor tensor;
  tensor.dtype = call.dtype;
  const std::size_t bytes = call.count * (sizeof(float) + 1);
  if (limit_bytes_ != 0 && (bytes > limit_bytes_ || bytes_ > limit_bytes_ - bytes)) return nullptr;
  tensor.squares.resize(call.count);
  tensor.codes.resize(call.count);
  bytes_ += bytes;
  return &known_.emplace(key, std::move(tensor)).first->second;
}

void CoordinateScales::use(std::uint64_t cycle) {
  if (!cycles_.empty() && cycles_.front() == cycle) return;
  cycles_.erase(std::remove(cycles_.begin(), cycles_.end(), cycle), cycles_.end());
  cycles_.insert(cycles_.begin(), cycle);
  while (cycles_.size() > kMostCycles) drop(cycles_.back());
}

void CoordinateScales::drop(std::uint64_t cycle) {
  cycles_.erase(std::remove(cycles_.begin(), cycles_.end(), cycle), cycles_.end());
  auto tensor = known_.lower_bound({cycle, 0});
  while (tensor != known_.end() && tensor->first.first == cycle) {
    bytes_ -= tensor->second.bytes();
    tensor = known_.erase(tensor);
  }
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
  if (is_measured(calls)) {
    const compress_kernels::ScaleErrors errors = compress_kernels::measure_scales(
        result, count, tensor.dtype, tensor.codes.data(), tensor.block);
    tensor.is_helped = errors.scaled < kHelps * errors.plain;
  }
  if (!is_learnt_from(calls)) return;
  const float weight = std::max(kWeight, 1.0f / static_cast<float>(calls));
  compress_kernels::learn_scales(result, count, tensor.dtype, weight, tensor.squares.data());
  find_codes(&tensor);
}

std::uint64_t CoordinateScales::hash() const {
  std::uint64_t hash = cycles_.size();
  for (const std::uint64_t cycle : cycles_) hash = combine_hash(hash, cycle);
  for (const auto& [key, tensor] : known_) {
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
  to.put_list(cycles_);
  to.put<std::uint64_t>(known_.size());
  for (const auto& [key, tensor] : known_) {
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
  cycles_ = from.get_list<std::uint64_t>(kMostCycles);
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
    from.require(std::find(cycles_.begin(), cycles_.end(), cycle) != cycles_.end());
    if (!from.is_ok()) return;
    tensor.codes.resize(tensor.squares.size());
    find_codes(&tensor);
    bytes_ += tensor.bytes();
    from.require(known_.emplace(Key{cycle, position}, std::move(tensor)).second);
  }
}

void CoordinateScales::adopt(CoordinateScales&& loaded) {
  known_ = std::move(loaded.known_);
  cycles_ = std::move(loaded.cycles_);
  bytes_ = std::exchange(loaded.bytes_, 0);
}

}  // namespace ringpress::nccl_plugin
