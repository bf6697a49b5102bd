// The specification of lossless as code: one element, one bit at a time.
#include <algorithm>
#include <cstring>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/lossless/lossless.h"
#include "compress_kernels/lossless/tile.h"

namespace ringpress::compress_kernels::lossless {
namespace {

/// An element in parts.
struct Parts {
  std::uint8_t exponent = 0;
  std::uint8_t low = 0;
  std::uint16_t extra = 0;  // float16: 3 bits; float32: 16.
};

template <typename T>
Parts split(const void* values, std::size_t index) {
  if constexpr (std::is_same_v<T, float>) {
    const auto bits = core::load_element<std::uint32_t>(values, index);
    const std::uint16_t upper = rotate_left(static_cast<std::uint16_t>(bits >> 16));
    return {static_cast<std::uint8_t>(upper >> 8), static_cast<std::uint8_t>(upper),
            static_cast<std::uint16_t>(bits)};
  } else {
    const std::uint16_t bits = rotate_left(core::load_element<std::uint16_t>(values, index));
    return {static_cast<std::uint8_t>(bits >> (16 - kExponentBits<T>)),
            static_cast<std::uint8_t>(bits),
            static_cast<std::uint16_t>(std::is_same_v<T, core::Float16> ? bits >> 8 & 7 : 0)};
  }
}

template <typename T>
void join(const Parts& parts, void* values, std::size_t index) {
  if constexpr (std::is_same_v<T, float>) {
    const auto upper = static_cast<std::uint16_t>(parts.exponent << 8 | parts.low);
    core::store_element(values, index,
                        static_cast<std::uint32_t>(rotate_right(upper)) << 16 | parts.extra);
  } else {
    const auto bits = static_cast<std::uint16_t>(parts.exponent << (16 - kExponentBits<T>) |
                                                 parts.extra << 8 | parts.low);
    core::store_element(values, index, rotate_right(bits));
  }
}

bool get_bit(const std::byte* bits, std::size_t index) {
  return (std::to_integer<unsigned>(bits[index / 8]) >> index % 8 & 1) != 0;
}

/// The bytes must have been zero.
void set_bit(std::byte* bits, std::size_t index, unsigned bit) {
  bits[index / 8] |= static_cast<std::byte>(bit << index % 8);
}

/// Where the bit of weight 2^plane of the short code of element i is.
std::size_t short_bit(std::size_t i, std::size_t plane) {
  return i / kGroup * 2 * kGroup + plane * kGroup + i % kGroup;
}

/// Where the bit of weight 2^plane of what a float16 has beside its low bits is.
std::size_t extra_bit(std::size_t i, std::size_t plane) {
  return i / kGroup * 3 * kGroup + plane * kGroup + i % kGroup;
}

Window choose(const std::vector<Parts>& parts) {
  Histogram seen;
  SampleSums sums;
  sums.count = static_cast<int>(sample_size(parts.size()));
  for (std::size_t i = 0; i < sample_size(parts.size()); ++i) {
    const int exponent = parts[first_sample(i / kGroupSamples) + i % kGroupSamples].exponent;
    seen.add(exponent, 1);
    sums.exponents += exponent;
  }
  sums.zeros = seen[0];
  const int lowest = lowest_guess(sums);
  if (lowest < 0) return choose_by_histogram(seen, sums.count);
  int best = 0;
  for (int i = 0; i < kGuesses; ++i) {
    best = std::max(best, rank_guess(seen.row(lowest + i), i));
  }
  const int first_short = best_guess(sums, lowest, best);
  if (first_short < 0) return choose_by_histogram(seen, sums.count);
  return window_around(first_short, sums.zeros, seen[last_of_window(first_short)]);
}

template <typename T>
void store_extra(const std::vector<Parts>& parts, std::byte* to) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if constexpr (std::is_same_v<T, float>) core::store_element(to, i, parts[i].extra);
    if constexpr (!std::is_same_v<T, core::Float16>) continue;
    for (std::size_t k = 0; k < 3; ++k) set_bit(to, extra_bit(i, k), parts[i].extra >> k & 1u);
  }
}

template <typename T>
std::uint16_t load_extra(const std::byte* from, std::size_t i) {
  if constexpr (std::is_same_v<T, float>) return core::load_element<std::uint16_t>(from, i);
  if constexpr (!std::is_same_v<T, core::Float16>) return 0;
  unsigned bits = 0;
  for (std::size_t k = 0; k < 3; ++k) bits |= (get_bit(from, extra_bit(i, k)) ? 1u : 0u) << k;
  return static_cast<std::uint16_t>(bits);
}

/// Writes a coded tile and returns its bytes.
template <typename T>
std::size_t encode_coded(const std::vector<Parts>& parts, std::byte* wire) {
  const TileParts<T> at(parts.size());
  const Window window = choose(parts);
  std::memset(wire, 0, kTileSpace);
  write_header(TileMode::kCoded, window, wire);
  std::vector<unsigned> long_codes;
  std::vector<std::uint8_t> escaped;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const unsigned code = code_of(parts[i].exponent, window);
    const unsigned short_code = code < kLong ? code : 3u;
    for (std::size_t k = 0; k < 2; ++k) {
      set_bit(wire + at.short_codes, short_bit(i, k), short_code >> k & 1);
    }
    if (code >= kLong) long_codes.push_back(code - kLong);
    if (code == kEscape) escaped.push_back(parts[i].exponent);
    core::store_element(wire + at.low, i, parts[i].low);
  }
  store_extra<T>(parts, wire + at.extra);
  const std::size_t plane_bytes = (long_codes.size() + 7) / 8;
  for (std::size_t i = 0; i < long_codes.size(); ++i) {
    for (std::size_t k = 0; k < 3; ++k) {
      set_bit(wire + at.long_codes + k * plane_bytes, i, long_codes[i] >> k & 1);
    }
  }
  const std::size_t escapes = at.long_codes + 3 * plane_bytes;
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    core::store_element(wire + escapes, i, escaped[i]);
  }
  return escapes + escaped.size();
}

template <typename T>
std::size_t encode(const void* values, std::size_t count, std::byte* wire) {
  std::vector<Parts> parts;
  bool all_zero = true;
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back(split<T>(values, i));
    all_zero = all_zero && (parts[i].exponent | parts[i].low | parts[i].extra) == 0;
  }
  if (all_zero) {
    write_header(TileMode::kZero, {}, wire);
    return kHeaderBytes;
  }
  const std::size_t bytes = encode_coded<T>(parts, wire);
  const std::size_t raw_bytes = kHeaderBytes + count * sizeof(T);
  if (bytes < raw_bytes) return bytes;
  write_header(TileMode::kRaw, {}, wire);
  std::memcpy(wire + kHeaderBytes, values, count * sizeof(T));
  return raw_bytes;
}

template <typename T>
std::size_t decode_coded(const std::byte* wire, std::size_t bytes, const Window& window,
                         std::size_t count, void* values) {
  const TileParts<T> at(count);
  if (bytes < at.long_codes) return 0;
  const auto is_long = [&](std::size_t i) {
    return get_bit(wire + at.short_codes, short_bit(i, 0)) &&
           get_bit(wire + at.short_codes, short_bit(i, 1));
  };
  // All elements of the last group count, whether there or not.
  std::size_t long_count = 0;
  for (std::size_t i = 0; i < at.groups * kGroup; ++i) long_count += is_long(i) ? 1 : 0;
  const std::size_t plane_bytes = (long_count + 7) / 8;
  std::size_t escape = at.long_codes + 3 * plane_bytes;
  if (bytes < escape) return 0;
  const auto long_code = [&](std::size_t i) {
    unsigned code = kLong;
    for (std::size_t k = 0; k < 3; ++k) {
      code |= (get_bit(wire + at.long_codes + k * plane_bytes, i) ? 1u : 0u) << k;
    }
    return static_cast<std::uint8_t>(code);
  };
  std::size_t end = escape;
  for (std::size_t i = 0; i < long_count; ++i) end += long_code(i) == kEscape ? 1 : 0;
  if (bytes < end) return 0;
  std::size_t next_long = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool lower = get_bit(wire + at.short_codes, short_bit(i, 0));
    const bool upper = get_bit(wire + at.short_codes, short_bit(i, 1));
    auto code = static_cast<std::uint8_t>((lower ? 1 : 0) | (upper ? 2 : 0));
    if (is_long(i)) code = long_code(next_long++);
    const std::uint8_t exponent = code == kEscape ? core::load_element<std::uint8_t>(wire, escape++)
                                                  : exponent_of(code, window);
    const auto low = core::load_element<std::uint8_t>(wire + at.low, i);
    join<T>({exponent, low, load_extra<T>(wire + at.extra, i)}, values, i);
  }
  return end;
}

template <typename T>
std::size_t decode(const std::byte* wire, std::size_t bytes, std::size_t count, void* values) {
  TileMode mode;
  Window window;
  if (bytes < kHeaderBytes || !read_header(wire, &mode, &window)) return 0;
  if (mode == TileMode::kCoded) return decode_coded<T>(wire, bytes, window, count, values);
  return decode_uncoded(mode, wire, bytes, count * sizeof(T), values);
}

template <typename T>
void load(const void* values, std::size_t count, float* sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = core::load_wide<T>(values, i);
}

template <typename T>
void add(const void* values, std::size_t count, float* sum) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += core::load_wide<T>(values, i);
}

template <typename T>
void finish(float* sum, std::size_t divisor, std::size_t count, void* values) {
  for (std::size_t i = 0; i < count; ++i) {
    core::store_wide<T>(values, i, divisor == 1 ? sum[i] : core::divide(sum[i], divisor));
  }
}

template <typename T>
constexpr TileKernels kKernels{encode<T>, decode<T>, load<T>, add<T>, finish<T>};

}  // namespace

const KernelSet& reference_kernels() {
  static constexpr KernelSet kSet{kKernels<float>, kKernels<core::Float16>,
                                  kKernels<core::Bfloat16>};
  return kSet;
}

}  // namespace ringpress::compress_kernels::lossless
