// The specification of topk's array kernels: plain loops over elements.
#include <algorithm>
#include <functional>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/topk/kernels.h"
#include "compress_kernels/topk/source.h"
#include "compress_kernels/topk/value_code.h"

namespace ringpress::compress_kernels::topk {
namespace {

std::uint64_t find_threshold(const Source& source, std::size_t k) {
  if (source.count == 0 || k == 0) return kLargestThreshold;
  std::vector<std::uint64_t> keys(source.count);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = key_at(source, i);
  const auto wanted = keys.begin() + static_cast<std::ptrdiff_t>(std::min(k, keys.size()) - 1);
  std::nth_element(keys.begin(), wanted, keys.end(), std::greater<>());
  return limit_threshold(*wanted);
}

void select(const Source& source, const Part& part, std::uint64_t threshold, float* residual,
            Selection* selection) {
  selection->count = 0;
  for (std::size_t i = part.first; i < part.first + part.count; ++i) {
    const float x = value_at(source, i);
    if (key_of(core::magnitude_bits(x), source.first_element + i) >= threshold) {
      selection->index[selection->count] = static_cast<std::uint32_t>(i - part.first);
      selection->value[selection->count] = x;
      ++selection->count;
    }
    if (residual != nullptr && core::is_finite(x)) core::store_element<float>(residual, i, x);
  }
}

void measure_gaps(Selection* selection, unsigned shift, std::size_t (&sums)[3]) {
  std::fill_n(sums, 3, std::size_t{0});
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < selection->count; ++i) {
    const std::uint32_t gap = selection->index[i] - next;
    selection->gap[i] = gap;
    for (unsigned more = 0; more < 3; ++more) sums[more] += gap >> (shift + more);
    next = selection->index[i] + 1;
  }
}

Extent extent_of(const float* values, std::size_t count) {
  Extent extent;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = core::magnitude_bits(values[i]);
    if (magnitude == 0 || magnitude >= core::kInfinityBits) continue;
    extent.largest = std::max(extent.largest, magnitude);
    extent.smallest = std::min(extent.smallest, magnitude);
  }
  return extent;
}

void write_values(int value_bits, const float* values, std::size_t count, std::byte* wire,
                  float* decoded) {
  if (value_bits == 16) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint16_t code = encode_wide_value(values[i]);
      core::store_element(wire, i, code);
      decoded[i] = decode_wide_value(code);
    }
    return;
  }
  const Scale scale = scale_of(extent_of(values, count));
  core::store_element(wire, 0, scale);
  const Grid grid = grid_of(scale);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t code = encode_value(values[i], grid);
    core::store_element(wire + kScaleBytes, i, code);
    decoded[i] = decode_value(code, grid);
  }
}

void read_values(int value_bits, const std::byte* wire, std::size_t count, float* values) {
  if (value_bits == 16) {
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = decode_wide_value(core::load_element<std::uint16_t>(wire, i));
    }
    return;
  }
  const Grid grid = grid_of(core::load_element<Scale>(wire, 0));
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = decode_value(core::load_element<std::uint8_t>(wire + kScaleBytes, i), grid);
  }
}

}  // namespace

const Kernels& reference_kernels() {
  static constexpr Kernels kKernels{find_threshold, select, measure_gaps, write_values,
                                    read_values};
  return kKernels;
}

}  // namespace ringpress::compress_kernels::topk
