#include "nccl_plugin/session/tuning/tensor_cut.h"

#include <algorithm>
#include <bit>

#include "ringpress/internal/codec.h"
#include "ringpress/internal/hash.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

constexpr std::size_t kUsualSegment = std::size_t{64} * 1024;
constexpr std::size_t kSmallestSegment = std::size_t{4} * 1024;
// Segments of a step: rounding their errors up to steps of the budget costs a part of it, and the
// choice takes 0.1 ms for each.
constexpr std::size_t kMostSegments = 1024;
// Of fewer than this, smaller ones are worth their time.
constexpr std::size_t kWantedSegments = 256;

std::size_t nearest_tile(std::size_t element) {
  return (element + kTileElements / 2) / kTileElements * kTileElements;
}

}  // namespace

std::size_t segment_elements(std::size_t step_elements) {
  const std::size_t fine = std::bit_ceil(step_elements / kWantedSegments + 1);
  const std::size_t coarse = std::bit_ceil(step_elements / kMostSegments + 1);
  return std::max(std::clamp(fine, kSmallestSegment, kUsualSegment), coarse);
}

std::vector<std::size_t> cut_tensor(std::size_t count, std::span<const Layer> layers,
                                    std::size_t segment) {
  std::vector<std::size_t> ends;
  const auto end_at = [&](std::size_t element) {
    const bool is_new = element > (ends.empty() ? 0 : ends.back()) && element < count;
    if (is_new) ends.push_back(element);
  };
  if (layers.empty()) {
    for (std::size_t end = segment; end < count; end += segment) end_at(end);
  }
  for (const Layer& layer : layers) {
    end_at(nearest_tile(layer.offset));
    end_at(nearest_tile(layer.offset + layer.count));
  }
  ends.push_back(count);
  return ends;
}

std::uint64_t hash_of_cut(std::span<const std::size_t> ends) {
  constexpr unsigned kBitsOfDouble = 53;
  std::uint64_t hash = 0;
  for (const std::size_t end : ends) hash = combine_hash(hash, end);
  return hash >> (64 - kBitsOfDouble);
}

}  // namespace ringpress::nccl_plugin::tuning
