// The numbers of lossless: which exponent has which code, where the parts of a tile lie, and how
// the window is chosen. Layout: lossless.h.
#ifndef COMPRESS_KERNELS_LOSSLESS_TILE_H_
#define COMPRESS_KERNELS_LOSSLESS_TILE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/host_device.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::lossless {

inline constexpr std::size_t kGroup = 64;
inline constexpr std::size_t kHeaderBytes = 2;
inline constexpr int kShortCodes = 3;
inline constexpr int kWindow = 10;

// A code of 4 bits: short codes are 0 to 2, long ones have this bit.
inline constexpr std::uint8_t kLong = 8;
inline constexpr std::uint8_t kZeroCode = 14;
inline constexpr std::uint8_t kEscape = 15;

enum class TileMode : std::uint8_t { kCoded = 0, kRaw = 1, kZero = 2 };

/// What the two bytes of a tile's header say.
struct Window {
  std::uint8_t first = 0;       // Exponent.
  std::uint8_t short_from = 0;  // Of the window, 0 to 7.
  bool has_zero = false;        // The last long code is exponent 0, not the last of the window.
};

RINGPRESS_HOST_DEVICE constexpr std::uint8_t code_of(std::uint8_t exponent, const Window& window) {
  if (window.has_zero && exponent == 0) return kZeroCode;
  const auto place = static_cast<std::uint8_t>(exponent - window.first);
  if (place >= kWindow - (window.has_zero ? 1 : 0)) return kEscape;
  if (place < window.short_from) return static_cast<std::uint8_t>(kLong + place);
  if (place >= window.short_from + kShortCodes) {
    return static_cast<std::uint8_t>(kLong + place - kShortCodes);
  }
  return static_cast<std::uint8_t>(place - window.short_from);
}

/// Of any code but kEscape. Codes that code_of never makes give some exponent.
RINGPRESS_HOST_DEVICE constexpr std::uint8_t exponent_of(std::uint8_t code, const Window& window) {
  if (window.has_zero && code == kZeroCode) return 0;
  int place = code + window.short_from;
  if (code >= kLong) {
    place = code - kLong;
    if (place >= window.short_from) place += kShortCodes;
  }
  return static_cast<std::uint8_t>(window.first + place);
}

/// code_of() and exponent_of() as tables of 16 bytes, for all windows that begin with exponent 0
/// and lie anywhere else by a shift.
struct WindowTables {
  // By place in the window: the short code, or 3 and four times the long code.
  std::uint8_t codes[16];
  // By code: the place in the window, and 0xFF, or 0 if the exponent is 0 wherever the window is.
  std::uint8_t places[16];
  std::uint8_t kept[16];
};

struct AllWindowTables {
  alignas(64) WindowTables tables[16];

  constexpr AllWindowTables() : tables() {
    for (int i = 0; i < 16; ++i) {
      const auto from = static_cast<std::uint8_t>(i & 7);
      const bool has_zero = i >= 8;
      const Window window{1, from, has_zero};
      for (int j = 0; j < 16; ++j) {
        const std::uint8_t code = code_of(static_cast<std::uint8_t>(1 + j), window);
        const bool is_short = code < kLong;
        tables[i].codes[j] = static_cast<std::uint8_t>(is_short ? code : 3 | (code & 7) << 2);
        tables[i].places[j] =
            static_cast<std::uint8_t>(exponent_of(static_cast<std::uint8_t>(j), window) - 1);
        tables[i].kept[j] = has_zero && j == kZeroCode ? 0 : 0xFF;
      }
    }
  }
};
inline constexpr AllWindowTables kWindowTables;

inline const WindowTables& tables_of(const Window& window) {
  return kWindowTables.tables[window.short_from | (window.has_zero ? 8 : 0)];
}

/// Rotated elements and their parts, for each element type.
template <typename T>
inline constexpr int kExponentBits = std::is_same_v<T, core::Float16> ? 5 : 8;

RINGPRESS_HOST_DEVICE inline std::uint16_t rotate_left(std::uint16_t bits) {
  return static_cast<std::uint16_t>((bits << 1) | (bits >> 15));
}
RINGPRESS_HOST_DEVICE inline std::uint16_t rotate_right(std::uint16_t bits) {
  return static_cast<std::uint16_t>((bits >> 1) | (bits << 15));
}

/// Where the parts of a coded tile begin, in bytes; the long codes come last.
template <typename T>
struct TileParts {
  explicit TileParts(std::size_t count)
      : groups((count + kGroup - 1) / kGroup),
        low(short_codes + 16 * groups),
        extra(low + count),
        long_codes(extra + extra_bytes(count)) {}

  std::size_t extra_bytes(std::size_t count) const {
    if constexpr (std::is_same_v<T, float>) return 2 * count;
    return std::is_same_v<T, core::Float16> ? 24 * groups : 0;
  }

  std::size_t groups;
  std::size_t short_codes = kHeaderBytes;
  std::size_t low;
  std::size_t extra;
  std::size_t long_codes;
};

// The largest coded tile (all exponents escaped), of any type.
inline constexpr std::size_t kLargestCodedTile =
    kHeaderBytes + kTileElements / 4 + 3 * kTileElements + 3 * kTileElements / 8 + kTileElements;
inline constexpr std::size_t kReadAhead = 128;
// Vectors may be written beyond the end of a tile.
inline constexpr std::size_t kTileSpace = kLargestCodedTile + kReadAhead;

inline void write_header(TileMode mode, const Window& window, std::byte* wire) {
  wire[0] = static_cast<std::byte>(window.first);
  wire[1] = static_cast<std::byte>(window.short_from | (window.has_zero ? 8 : 0) |
                                   static_cast<int>(mode) << 4);
}

/// False if the bytes are no header.
inline bool read_header(const std::byte* wire, TileMode* mode, Window* window) {
  const auto flags = std::to_integer<std::uint8_t>(wire[1]);
  *window = {std::to_integer<std::uint8_t>(wire[0]), static_cast<std::uint8_t>(flags & 7),
             (flags & 8) != 0};
  *mode = static_cast<TileMode>(flags >> 4);
  return (flags >> 4) <= static_cast<int>(TileMode::kZero);
}

/// Decodes a tile without codes. Returns its bytes, 0 if they are not all there.
inline std::size_t decode_uncoded(TileMode mode, const std::byte* wire, std::size_t bytes,
                                  std::size_t value_bytes, void* values) {
  if (mode == TileMode::kZero) {
    std::memset(values, 0, value_bytes);
    return kHeaderBytes;
  }
  if (bytes < kHeaderBytes + value_bytes) return 0;
  std::memcpy(values, wire + kHeaderBytes, value_bytes);
  return kHeaderBytes + value_bytes;
}

// A window is chosen from eight elements of each whole group, from a different eighth of each.
inline constexpr std::size_t kGroupSamples = 8;

inline std::size_t sample_size(std::size_t count) {
  return count / kGroup * kGroupSamples;
}
/// Where the samples of a group begin.
inline std::size_t first_sample(std::size_t group) {
  return group * kGroup + group % (kGroup / kGroupSamples) * kGroupSamples;
}

// Of a window: exponents below those with short codes. Small values are the more frequent ones.
inline constexpr int kBelowShort = 5;

/// The window around the three short codes that begin with exponent `first_short`. `zeros` of the
/// samples have exponent 0, `last` the one that the last long code would be for.
inline Window window_around(int first_short, int zeros, int last) {
  const int from = std::min(kBelowShort, first_short);
  // A window that begins with exponent 0 needs no other code for it.
  const bool has_zero = first_short > kBelowShort && zeros > last;
  return {static_cast<std::uint8_t>(first_short - from), static_cast<std::uint8_t>(from), has_zero};
}
/// The exponent of the last long code of a window that does not begin with 0.
constexpr int last_of_window(int first_short) {
  return first_short - kBelowShort + kWindow - 1;
}

/// What a guess is made from.
struct SampleSums {
  int count = 0;
  int zeros = 0;      // Of exponent 0.
  int exponents = 0;  // The sum of all.
};

// The most frequent three exponents in a row begin near the mean of all but zeros: at most one
// below, at most two above.
inline constexpr int kGuesses = 4;

/// The lowest exponent that may begin them, or -1 where there is no guess.
inline int lowest_guess(const SampleSums& sums) {
  const auto counted = static_cast<unsigned>(sums.count - sums.zeros);
  const unsigned mean = counted == 0 ? 0 : static_cast<unsigned>(sums.exponents) / counted;
  // Rows of zeros, and of exponents beyond the largest, are not for guesses.
  return mean < 2 || mean > 240 ? -1 : static_cast<int>(mean) - 1;
}
/// Orders guesses: `row` samples are in the three exponents that begin `place` above the lowest.
/// Row and place in one number, as a processor cannot foresee which row wins. Of equal rows the
/// lowest does.
inline int rank_guess(int row, int place) {
  return row * kGuesses + kGuesses - 1 - place;
}
/// The exponent that begins them, from the highest rank; -1 where others may be more frequent.
inline int best_guess(const SampleSums& sums, int lowest, int rank) {
  const int most = rank / kGuesses;
  if (3 * most < sums.count || most < sums.zeros) return -1;
  return lowest + kGuesses - 1 - rank % kGuesses;
}

/// How often each exponent was seen, with zeros around so that windows may stand over the ends.
struct Histogram {
  static constexpr int kAround = 16;
  std::uint8_t counts[kAround + 256 + kAround] = {};
  // Of the exponents that were seen, but for 0.
  int lowest = 256;
  int highest = 0;

  int operator[](int exponent) const { return counts[kAround + exponent]; }
  int row(int first) const { return (*this)[first] + (*this)[first + 1] + (*this)[first + 2]; }

  void add(int exponent, int count) {
    counts[kAround + exponent] = static_cast<std::uint8_t>((*this)[exponent] + count);
    if (exponent > 0 && count > 0) {
      lowest = std::min(lowest, exponent);
      highest = std::max(highest, exponent);
    }
  }
  /// The first exponent from `first` on that begins the most frequent three in a row.
  int most_frequent_row(int first) const {
    int best = first;
    for (int e = std::max(first, lowest - 2); e <= highest; ++e) {
      if (row(e) > row(best)) best = e;
    }
    return best;
  }
  /// Bits that all samples would take, less two each.
  int cost_of(const Window& window, int samples) const {
    int in_short = 0;
    int in_window = window.has_zero ? (*this)[0] - (*this)[window.first + kWindow - 1] : 0;
    for (int place = 0; place < kWindow; ++place) {
      const int count = (*this)[window.first + place];
      in_window += count;
      if (place >= window.short_from && place < window.short_from + kShortCodes) in_short += count;
    }
    return 3 * (samples - in_short) + 8 * (samples - in_window);
  }
};

/// Where there is no guess. If the most frequent exponents begin with 0, a code for zeros alone may
/// be the better choice.
inline Window choose_by_histogram(const Histogram& seen, int samples) {
  const auto around = [&](int first) {
    return window_around(first, seen[0], seen[last_of_window(first)]);
  };
  const int first_short = seen.most_frequent_row(0);
  const Window window = around(first_short);
  if (first_short != 0) return window;
  const Window other = around(seen.most_frequent_row(1));
  return seen.cost_of(other, samples) < seen.cost_of(window, samples) ? other : window;
}

}  // namespace ringpress::compress_kernels::lossless

#endif  // COMPRESS_KERNELS_LOSSLESS_TILE_H_
