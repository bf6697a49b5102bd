// Memory and values for codec tests: buffers at any byte offset that notice writes beyond their
// ends, tensors with awkward values, comparison of elements.
#ifndef TESTS_COMPRESS_KERNELS_CODEC_DATA_H_
#define TESTS_COMPRESS_KERNELS_CODEC_DATA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ringpress/internal/types.h"

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

/// Values of a kind, the same for a seed whenever they are asked for; kSpecial throws in NaN,
/// infinities, zeros of both signs and extremes.
std::vector<float> draw_floats(std::size_t count, Values kind, std::uint32_t seed);

/// The bytes of `values` as elements of a floating-point type narrower than or equal to float32.
std::vector<std::byte> to_elements(const std::vector<float>& values, DType dtype);

std::vector<float> to_floats(const std::byte* elements, std::size_t count, DType dtype);

/// Elements of any type from random bytes; floats from draw_floats.
std::vector<std::byte> draw_elements(std::size_t count, DType dtype, Values kind,
                                     std::uint32_t seed);

/// Index of the first element that differs, or count. NaNs are equal: the sign and payload of a NaN
/// that a sum makes are the processor's choice.
std::size_t first_difference(const std::byte* a, const std::byte* b, std::size_t count,
                             DType dtype);

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_CODEC_DATA_H_
