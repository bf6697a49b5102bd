// The segments of a chunk of topk from bytes, one after another. Whatever the bytes, nothing beyond
// them is read and every index is one of the segment's.
#ifndef COMPRESS_KERNELS_TOPK_SEGMENT_READER_H_
#define COMPRESS_KERNELS_TOPK_SEGMENT_READER_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compress_kernels/core/element.h"
#include "compress_kernels/topk/kernels.h"

namespace ringpress::compress_kernels::topk {

/// Bits of a byte array, least significant first; zeros after its end.
class BitReader {
 public:
  BitReader(const std::byte* bytes, const std::byte* end) : bytes_(bytes), end_(end) {}

  /// `bits` bits, at most 15, from bit number `first` on.
  std::uint32_t at(std::size_t first, unsigned bits) const {
    const std::byte* from = bytes_ + first / 8;
    std::uint32_t window = 0;
    if (end_ - from >= 4) {
      window = core::load_element<std::uint32_t>(from, 0);
    } else {
      std::memcpy(&window, from, static_cast<std::size_t>(end_ - from));
    }
    return (window >> (first % 8)) & ((1u << bits) - 1u);
  }

  /// Skips zeros and the one after them; false if there is none.
  bool next_rest(std::size_t* zeros) {
    *zeros = 0;
    while (window_ == 0) {
      *zeros += left_;
      if (!refill()) return false;
    }
    const auto more = static_cast<unsigned>(std::countr_zero(window_));
    *zeros += more;
    window_ = window_ >> more >> 1;
    left_ -= more + 1;
    return true;
  }
  /// Where the byte ends that holds the last bit that next_rest() has taken.
  const std::byte* end_of_rests() const { return bytes_ - left_ / 8; }

 private:
  bool refill() {
    const std::size_t bytes = std::min<std::size_t>(8, static_cast<std::size_t>(end_ - bytes_));
    window_ = 0;
    std::memcpy(&window_, bytes_, bytes);
    bytes_ += bytes;
    left_ = static_cast<unsigned>(8 * bytes);
    return bytes > 0;
  }

  const std::byte* bytes_;
  const std::byte* end_;
  std::uint64_t window_ = 0;
  unsigned left_ = 0;  // Bits of the window that have not been taken.
};

class SegmentReader {
 public:
  SegmentReader(const Kernels& kernels, int value_bits, const std::byte* wire, std::size_t bytes)
      : kernels_(&kernels), value_bits_(value_bits), wire_(wire), end_(wire + bytes) {}

  /// Takes the next segment, of `elements` elements, and calls use(index, value) for those that
  /// were sent. `values` is scratch for a segment.
  template <typename Use>
  void read(std::size_t elements, float* values, Use&& use) {
    const bool is_good = read_form(elements, values, use);
    if (!is_good) wire_ = end_;
  }

 private:
  std::size_t left() const { return static_cast<std::size_t>(end_ - wire_); }

  template <typename Use>
  bool read_form(std::size_t elements, float* values, Use& use) {
    if (left() == 0) return false;
    const auto form = static_cast<std::uint8_t>(*wire_);
    if (form == kDenseForm) return read_dense(elements, values, use);
    if (form >= kSparseForm) return read_sparse(elements, form - kSparseForm, values, use);
    ++wire_;
    return true;
  }

  template <typename Use>
  bool read_dense(std::size_t elements, float* values, Use& use) {
    ++wire_;
    if (left() < value_bytes(value_bits_, elements)) return false;
    read_values(elements, values);
    for (std::size_t i = 0; i < elements; ++i) {
      if (values[i] != 0) use(i, values[i]);
    }
    return true;
  }

  template <typename Use>
  bool read_sparse(std::size_t elements, unsigned low_bits, float* values, Use& use) {
    if (low_bits > kLargestRice || left() < kSparseHeaderBytes) return false;
    const std::size_t count = core::load_element<std::uint16_t>(wire_ + 1, 0) + std::size_t{1};
    wire_ += kSparseHeaderBytes;
    const std::size_t low_bytes = (count * low_bits + 7) / 8;
    if (count > elements || left() < low_bytes + value_bytes(value_bits_, count)) return false;
    const BitReader low(wire_, end_);
    wire_ += low_bytes;
    read_values(count, values);
    BitReader rests(wire_, end_);
    std::size_t next = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t rest = 0;
      if (!rests.next_rest(&rest)) return false;
      const std::size_t index = next + (rest << low_bits) + low.at(i * low_bits, low_bits);
      if (index >= elements) return false;
      use(index, values[i]);
      next = index + 1;
    }
    wire_ = rests.end_of_rests();
    return true;
  }

  void read_values(std::size_t count, float* values) {
    for (std::size_t first = 0; first < count; first += kScaleElements) {
      const std::size_t length = std::min(kScaleElements, count - first);
      kernels_->read_values(value_bits_, wire_, length, values + first);
      wire_ += value_bytes(value_bits_, length);
    }
  }

  const Kernels* kernels_;
  int value_bits_;
  const std::byte* wire_;
  const std::byte* end_;
};

}  // namespace ringpress::compress_kernels::topk

#endif  // COMPRESS_KERNELS_TOPK_SEGMENT_READER_H_
