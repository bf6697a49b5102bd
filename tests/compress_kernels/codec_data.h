// Memory and values for codec tests: buffers at any byte offset that notice writes beyond their
// ends, tensors with awkward values, comparison of elements.
#ifndef TESTS_COMPRESS_KERNELS_CODEC_DATA_H_
#define TESTS_COMPRESS_KERNELS_CODEC_DATA_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "compress_kernels/core/element.h"
#include "ringpress/types.h"

namespace ringpress::compress_kernels::testing {

/// `bytes` bytes that start `offset` bytes after an aligned address, between two guards.
class GuardedBuffer {
 public:
  GuardedBuffer(std::size_t bytes, std::size_t offset)
      : memory_(kGuardBytes + kAlignment + offset + bytes + kGuardBytes, kGuard), bytes_(bytes) {
    const auto start = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuardBytes;
    begin_ = static_cast<std::ptrdiff_t>(kGuardBytes + (kAlignment - start % kAlignment) + offset);
  }

  std::byte* data() { return memory_.data() + begin_; }
  const std::byte* data() const { return memory_.data() + begin_; }
  float* floats() { return reinterpret_cast<float*>(data()); }
  std::size_t bytes() const { return bytes_; }

  void assign(const void* source) {
    if (bytes_ > 0) std::memcpy(data(), source, bytes_);
  }

  GuardedBuffer(const GuardedBuffer&) = delete;  // A copy would be aligned differently.
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  bool guards_intact() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(memory_.begin(), memory_.begin() + begin_, is_guard) &&
           std::all_of(memory_.begin() + begin_ + bytes_, memory_.end(), is_guard);
  }

 private:
  static constexpr std::size_t kGuardBytes = 128;
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::byte kGuard{0xA5};

  std::vector<std::byte> memory_;
  std::ptrdiff_t begin_ = 0;
  std::size_t bytes_;
};

enum class Values { kNormal, kSpecial, kSparse, kHuge, kTiny };
inline constexpr Values kAllValues[] = {Values::kNormal, Values::kSpecial, Values::kSparse,
                                        Values::kHuge, Values::kTiny};

/// One value of a kind; kSpecial throws in NaN, infinities, zeros of both signs and extremes.
inline float draw_value(Values kind, std::mt19937& engine) {
  using Limits = std::numeric_limits<float>;
  constexpr float kSpecials[] = {Limits::quiet_NaN(),
                                 Limits::infinity(),
                                 -Limits::infinity(),
                                 -0.0f,
                                 Limits::max(),
                                 -Limits::max(),
                                 Limits::denorm_min(),
                                 -Limits::min(),
                                 65504.0f,
                                 65520.0f,
                                 0.0f,
                                 1e-40f};
  std::normal_distribution<float> normal;
  const float x = normal(engine);
  switch (kind) {
    case Values::kNormal:
      return x;
    case Values::kSpecial:
      return engine() % 200 == 0 ? kSpecials[engine() % 12] : x;
    case Values::kSparse:
      return engine() % 64 == 0 ? x : 0.0f;
    case Values::kHuge:
      return std::clamp(x * 2e38f, -Limits::max(), Limits::max());
    case Values::kTiny:
      return x * 1e-30f * (engine() % 2 == 0 ? 1e-9f : 1.0f);
  }
  return x;
}

inline std::vector<float> draw_floats(std::size_t count, Values kind, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<float> values(count);
  for (float& value : values) value = draw_value(kind, engine);
  return values;
}

/// The bytes of `values` as elements of a floating-point type narrower than or equal to float32.
inline std::vector<std::byte> to_elements(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
  core::visit_compressible(dtype, [&](auto tag) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      core::store_wide<typename decltype(tag)::type>(bytes.data(), i, values[i]);
    }
  });
  return bytes;
}

inline std::vector<float> to_floats(const std::byte* elements, std::size_t count, DType dtype) {
  std::vector<float> values(count);
  core::visit_compressible(dtype, [&](auto tag) {
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = core::load_wide<typename decltype(tag)::type>(elements, i);
    }
  });
  return values;
}

/// Elements of any type from random bytes; floats from draw_floats.
inline std::vector<std::byte> draw_elements(std::size_t count, DType dtype, Values kind,
                                            std::uint32_t seed) {
  if (is_compressible(dtype)) return to_elements(draw_floats(count, kind, seed), dtype);
  std::mt19937 engine(seed);
  std::vector<std::byte> bytes(count * dtype_size(dtype));
  for (std::byte& b : bytes) b = static_cast<std::byte>(engine());
  return bytes;
}

/// Index of the first element that differs, or count. NaNs are equal: the sign and payload of a NaN
/// that a sum makes are the processor's choice.
inline std::size_t first_difference(const std::byte* a, const std::byte* b, std::size_t count,
                                    DType dtype) {
  return core::visit_dtype(dtype, [&](auto tag) -> std::size_t {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < count; ++i) {
      if (std::memcmp(a + i * sizeof(T), b + i * sizeof(T), sizeof(T)) == 0) continue;
      const auto x = core::load_wide<T>(a, i);
      const auto y = core::load_wide<T>(b, i);
      if (x == x || y == y) return i;
    }
    return count;
  });
}

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_CODEC_DATA_H_
