#include "perf/codec_values.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace ringpress::perf {

DType parse_dtype(const std::string& name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name == dtype_name(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  throw std::invalid_argument("unknown type \"" + name +
                              "\"; for example float32, float16, bfloat16");
}

void fill_values(DType dtype, std::size_t count, std::byte* values) {
  std::uint64_t state = 88172645463325252u;
  for (std::size_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const auto mantissa = static_cast<std::uint32_t>(state >> 40);
    const auto exponent = static_cast<std::uint32_t>(state % 8);
    const std::uint32_t bits = (static_cast<std::uint32_t>(state >> 63) << 31) |
                               ((120 + exponent) << 23) | (mantissa >> 1);
    if (dtype_size(dtype) == 4) {
      std::memcpy(values + 4 * i, &bits, 4);
    } else if (dtype_size(dtype) == 2) {
      // The same magnitudes in either 16-bit format.
      const std::uint16_t half =
          dtype == DType::kBfloat16
              ? static_cast<std::uint16_t>(bits >> 16)
              : static_cast<std::uint16_t>(((bits >> 16) & 0x8000u) | ((8 + exponent) << 10) |
                                           (mantissa >> 14));
      std::memcpy(values + 2 * i, &half, 2);
    } else {
      std::memset(values + i * dtype_size(dtype), static_cast<int>(bits % 100), dtype_size(dtype));
    }
  }
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

}  // namespace ringpress::perf
