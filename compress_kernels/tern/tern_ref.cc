// The specification of tern as code: plain loops over blocks and elements.
#include <algorithm>
#include <cstring>

#include "compress_kernels/core/block_reference.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/tern/digits.h"
#include "compress_kernels/tern/tern.h"

namespace ringpress::compress_kernels::tern {
namespace {

BlockScale measure(const TernParameters& parameters, const float* x, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, core::magnitude_bits(x[i]));
  return scale_of(largest, parameters.clip, count, [&](float factor) {
    float lanes[core::kSumLanes] = {};
    for (std::size_t i = 0; i < count; ++i) {
      const float y = x[i] * factor;
      lanes[i % core::kSumLanes] += y * y;
    }
    return core::sum_lanes(lanes);
  });
}

class ReferenceFormat {
 public:
  ReferenceFormat(const TernParameters& parameters, std::size_t count)
      : parameters_(parameters), count_(count), offset_(tern_digits_offset(parameters, count)) {}

  void clear(std::byte* wire) const { std::memset(wire + offset_, 0, tern_digit_bytes(count_)); }

  void encode(const core::Block& block, const RandomKey& random, std::byte* wire) const {
    const BlockScale scale = measure(parameters_, block.x, block.count);
    core::store_element(wire, block.first / parameters_.block, scale.stored);
    const std::size_t tile = block.first / kTileElements * kTileElements;
    for (std::size_t i = 0; i < block.count; ++i) {
      const std::size_t index = block.first + i;
      const std::uint32_t bits = random_fraction(random, tile, index - tile);
      const std::uint32_t digit = digit_of(block.x[i], scale, bits);
      const DigitPosition position = position_of(index);
      const auto byte = core::load_element<std::uint8_t>(wire, position.byte);
      const std::uint32_t sum = byte + digit * digit_weight(position.digit);
      core::store_element(wire, position.byte, static_cast<std::uint8_t>(sum));
    }
  }

  float decode(const std::byte* wire, std::size_t index) const {
    const DigitPosition position = position_of(index);
    const auto byte = core::load_element<std::uint8_t>(wire, position.byte);
    const auto stored = core::load_element<std::uint16_t>(wire, index / parameters_.block);
    return value_of_digit(read_digit(byte, position.digit), stored);
  }

 private:
  struct DigitPosition {
    std::size_t byte = 0;  // From the start of the chunk.
    std::size_t digit = 0;
  };

  DigitPosition position_of(std::size_t index) const {
    const std::size_t tile = index / kTileElements;
    const std::size_t elements = std::min(kTileElements, count_ - tile * kTileElements);
    const std::size_t stride = tern_digit_bytes(elements);
    const std::size_t in_tile = index % kTileElements;
    return {offset_ + tile * kTernTileBytes + in_tile % stride, in_tile / stride};
  }

  const TernParameters& parameters_;
  const std::size_t count_;
  const std::size_t offset_;
};

}  // namespace

const KernelTable<TernParameters>& reference_kernels() {
  static constexpr KernelTable<TernParameters> kTable =
      core::BlockReference<TernParameters, ReferenceFormat>::table();
  return kTable;
}

}  // namespace ringpress::compress_kernels::tern
