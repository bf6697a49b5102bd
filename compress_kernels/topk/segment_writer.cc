#include "compress_kernels/topk/segment_writer.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "compress_kernels/core/element.h"

namespace ringpress::compress_kernels::topk {
namespace {

/// Codes of up to 32 bits, one after another, least significant bit first.
class BitWriter {
 public:
  explicit BitWriter(std::byte* bytes) : bytes_(bytes) {}

  void put(std::uint64_t code, unsigned bits) {
    pending_ |= code << count_;
    count_ += bits;
    if (count_ < 32) return;
    core::store_element(bytes_, 0, static_cast<std::uint32_t>(pending_));
    bytes_ += sizeof(std::uint32_t);
    pending_ >>= 32;
    count_ -= 32;
  }
  /// So many zeros, then a one.
  void put_unary(std::uint32_t zeros) {
    for (; zeros > 24; zeros -= 24) put(0, 24);
    put(std::uint64_t{1} << zeros, zeros + 1);
  }
  /// Fills up the last byte.
  void finish() { std::memcpy(bytes_, &pending_, (count_ + 7) / 8); }

 private:
  std::byte* bytes_;
  std::uint64_t pending_ = 0;  // Fewer than 32 bits between calls.
  unsigned count_ = 0;
};

/// How the gaps of a segment are best cut into low bits and the rest.
struct RiceCode {
  unsigned low_bits = 0;
  std::size_t rest_bits = 0;  // Of all rests together.
};

/// Tries the three parameters around the mean gap, which are the ones that can be best for gaps
/// without a pattern.
RiceCode choose_rice(const Kernels& kernels, Selection* selection) {
  const std::size_t count = selection->count;
  const std::size_t mean = (selection->index[count - 1] + 1 - count) / count;
  const unsigned middle =
      std::clamp(static_cast<unsigned>(std::bit_width(mean)), 2u, kLargestRice + 0u) - 1;
  std::size_t rests[3];
  kernels.measure_gaps(selection, middle - 1, rests);
  RiceCode best{middle - 1, rests[0] + count};
  for (unsigned i = 1; i < 3; ++i) {
    const RiceCode other{middle - 1 + i, rests[i] + count};
    if (other.low_bits * count + other.rest_bits < best.low_bits * count + best.rest_bits) {
      best = other;
    }
  }
  return best;
}

std::size_t sparse_bytes(int value_bits, std::size_t count, const RiceCode& code) {
  return kSparseHeaderBytes + (count * code.low_bits + 7) / 8 + value_bytes(value_bits, count) +
         (code.rest_bits + 7) / 8;
}

/// What is read after this segment, a cache line per call: memory would idle while bits are packed.
class Upcoming {
 public:
  explicit Upcoming(const void* start)
      : line_(reinterpret_cast<std::uintptr_t>(start) + kRequestedBytes) {}
  void fetch() {
    __builtin_prefetch(reinterpret_cast<const void*>(line_), 0, 2);
    line_ += 64;
  }

 private:
  // The loop over the segment has asked for these already (core::prefetch_ahead).
  static constexpr std::uintptr_t kRequestedBytes = 8192;

  std::uintptr_t line_;
};

struct GapStreams {
  std::byte* low;
  std::byte* rest;
};

void write_gaps(const Selection& selection, unsigned low_bits, const GapStreams& streams,
                Upcoming upcoming) {
  BitWriter low(streams.low);
  BitWriter rest(streams.rest);
  const std::uint32_t mask = (1u << low_bits) - 1u;
  for (std::size_t i = 0; i < selection.count; ++i) {
    low.put(selection.gap[i] & mask, low_bits);
    rest.put_unary(selection.gap[i] >> low_bits);
    upcoming.fetch();
  }
  low.finish();
  rest.finish();
}

/// Values of the selected elements, one scale after another.
void write_values(const Kernels& kernels, int value_bits, Selection* selection, std::byte* wire) {
  for (std::size_t first = 0; first < selection->count; first += kScaleElements) {
    const std::size_t count = std::min(kScaleElements, selection->count - first);
    kernels.write_values(value_bits, selection->value + first, count, wire,
                         selection->decoded + first);
    wire += value_bytes(value_bits, count);
  }
}

void write_sparse(const Kernels& kernels, int value_bits, const RiceCode& code,
                  Selection* selection, std::byte* wire, Upcoming upcoming) {
  wire[0] = static_cast<std::byte>(kSparseForm + code.low_bits);
  core::store_element(wire + 1, 0, static_cast<std::uint16_t>(selection->count - 1));
  std::byte* low = wire + kSparseHeaderBytes;
  std::byte* values = low + (selection->count * code.low_bits + 7) / 8;
  write_gaps(*selection, code.low_bits, {low, values + value_bytes(value_bits, selection->count)},
             upcoming);
  write_values(kernels, value_bits, selection, values);
}

std::size_t write_dense(const Kernels& kernels, int value_bits, std::size_t elements,
                        Selection* selection, std::byte* wire) {
  std::byte* const begin = wire;
  *wire++ = static_cast<std::byte>(kDenseForm);
  std::size_t done = 0;
  for (std::size_t first = 0; first < elements; first += kScaleElements) {
    const std::size_t count = std::min(kScaleElements, elements - first);
    float values[kScaleElements] = {};
    float decoded[kScaleElements];
    std::size_t end = done;
    for (; end < selection->count && selection->index[end] < first + count; ++end) {
      values[selection->index[end] - first] = selection->value[end];
    }
    kernels.write_values(value_bits, values, count, wire, decoded);
    for (; done < end; ++done) selection->decoded[done] = decoded[selection->index[done] - first];
    wire += value_bytes(value_bits, count);
  }
  return static_cast<std::size_t>(wire - begin);
}

}  // namespace

std::size_t write_segment(const Kernels& kernels, int value_bits, std::size_t elements,
                          Selection* selection, std::byte* wire, const void* upcoming) {
  if (selection->count == 0) {
    wire[0] = static_cast<std::byte>(kEmptyForm);
    return 1;
  }
  const RiceCode code = choose_rice(kernels, selection);
  const std::size_t bytes = sparse_bytes(value_bits, selection->count, code);
  if (bytes >= 1 + value_bytes(value_bits, elements)) {
    return write_dense(kernels, value_bits, elements, selection, wire);
  }
  write_sparse(kernels, value_bits, code, selection, wire, Upcoming(upcoming));
  return bytes;
}

}  // namespace ringpress::compress_kernels::topk
