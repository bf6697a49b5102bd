// lane_pack.h on a device: the packed numbers of one tile.
#ifndef COMPRESS_KERNELS_QSGD_TILE_PACK_CUH_
#define COMPRESS_KERNELS_QSGD_TILE_PACK_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/qsgd/lane_pack.h"
#include "compress_kernels/qsgd/tile_rows.cuh"

namespace ringpress::compress_kernels::qsgd {

/// Words of the warp's memory that a shorter tile passes through.
inline constexpr unsigned kPackMemoryWords = kPackLanes;

RINGPRESS_DEVICE std::uint32_t mask_of(int width) {
  return (1u << width) - 1u;
}

/// Number `row`, whatever register it lies in.
RINGPRESS_DEVICE std::uint32_t number_at(const LaneNumbers& numbers, unsigned row) {
  std::uint32_t number = 0;
  RINGPRESS_UNROLL
  for (unsigned i = 0; i < kRows; ++i) number = i == row ? numbers[i] : number;
  return number;
}

/// Where word `word` of a lane lies in a whole tile.
RINGPRESS_DEVICE std::size_t place_of_word(unsigned word, unsigned lane) {
  return (word * kPackLanes + lane) * sizeof(std::uint32_t);
}

/// A whole tile of number_of(row).
template <typename Simt, typename NumberOf>
RINGPRESS_DEVICE void pack_lanes(const Simt& simt, unsigned lane, int width, std::byte* bytes,
                                 NumberOf&& number_of) {
  std::uint64_t window = 0;
  int filled = 0;
  unsigned word = 0;
  RINGPRESS_UNROLL
  for (unsigned row = 0; row < kRows; ++row) {
    window |= static_cast<std::uint64_t>(number_of(row)) << filled;
    filled += width;
    if (filled < 32) continue;
    core::store_any(simt, bytes + place_of_word(word++, lane), static_cast<std::uint32_t>(window));
    window >>= 32;
    filled -= 32;
  }
}

template <typename Simt, typename Take>
RINGPRESS_DEVICE void unpack_lanes(const Simt& simt, unsigned lane, int width,
                                   const std::byte* bytes, Take&& take) {
  std::uint64_t window = 0;
  int filled = 0;
  unsigned word = 0;
  RINGPRESS_UNROLL
  for (unsigned row = 0; row < kRows; ++row) {
    if (filled < width) {
      const auto next = core::load_any<std::uint32_t>(simt, bytes + place_of_word(word++, lane));
      window |= static_cast<std::uint64_t>(next) << filled;
      filled += 32;
    }
    take(row, static_cast<std::uint32_t>(window) & mask_of(width));
    window >>= width;
    filled -= width;
  }
}

/// Word `lane` of the bits of a row, whose numbers lie in `memory`.
RINGPRESS_DEVICE std::uint32_t word_of_row(const std::uint32_t* memory, unsigned lane, int width) {
  const int begin = static_cast<int>(lane) * 32;
  std::uint32_t word = 0;
  RINGPRESS_ROLL
  for (int i = begin / width; i < static_cast<int>(kPackLanes) && i * width < begin + 32; ++i) {
    const int shift = i * width - begin;
    word |= shift < 0 ? memory[i] >> -shift : memory[i] << shift;
  }
  return word;
}

/// A shorter tile: of each row, lane l writes word l. `memory`: kPackMemoryWords of the warp.
template <typename Simt, typename NumberOf>
RINGPRESS_DEVICE void pack_plain_rows(const Simt& simt, const LaneTile& tile, int width,
                                      std::byte* bytes, std::uint32_t* memory,
                                      NumberOf&& number_of) {
  const auto total = static_cast<unsigned>(tile_bytes(tile.count, width));
  RINGPRESS_ROLL
  for (unsigned row = 0; row < tile.rows(); ++row) {
    simt.sync_warp();
    memory[tile.lane] = tile.has(row) ? number_of(row) : 0;
    simt.sync_warp();
    const unsigned begin = (row * static_cast<unsigned>(width) + tile.lane) * 4;
    if (tile.lane >= static_cast<unsigned>(width) || begin >= total) continue;
    core::store_bytes(simt, bytes + begin, total - begin < 4 ? total - begin : 4,
                      word_of_row(memory, tile.lane, width));
  }
  simt.sync_warp();
}

template <typename Simt, typename Take>
RINGPRESS_DEVICE void unpack_plain_rows(const Simt& simt, const LaneTile& tile, int width,
                                        const std::byte* bytes, Take&& take) {
  RINGPRESS_ROLL
  for (unsigned row = 0; row < tile.rows(); ++row) {
    if (!tile.has(row)) break;
    const unsigned bit =
        (row * static_cast<unsigned>(kPackLanes) + tile.lane) * static_cast<unsigned>(width);
    const unsigned size = (bit % 8 + static_cast<unsigned>(width) + 7) / 8;
    const std::uint64_t window = core::load_bytes(simt, bytes + bit / 8, size);
    take(row, static_cast<std::uint32_t>(window >> (bit % 8)) & mask_of(width));
  }
}

/// Packs number_of(row) of every row that there is.
template <typename Simt, typename NumberOf>
RINGPRESS_DEVICE void pack_tile(const Simt& simt, const LaneTile& tile, int width,
                                std::byte* packed, std::uint32_t* memory, NumberOf&& number_of) {
  std::byte* const bytes = packed + packed_bytes(tile.first, width);
  if (tile.is_whole()) {
    pack_lanes(simt, tile.lane, width, bytes, number_of);
  } else {
    pack_plain_rows(simt, tile, width, bytes, memory, number_of);
  }
}

/// Calls take(row, number) for every value of the lane.
template <typename Simt, typename Take>
RINGPRESS_DEVICE void unpack_tile(const Simt& simt, const LaneTile& tile, int width,
                                  const std::byte* packed, Take&& take) {
  const std::byte* const bytes = packed + packed_bytes(tile.first, width);
  if (tile.is_whole()) {
    unpack_lanes(simt, tile.lane, width, bytes, take);
  } else {
    unpack_plain_rows(simt, tile, width, bytes, take);
  }
}

/// Adds packed numbers to `numbers`, up to `largest`.
template <typename Simt>
RINGPRESS_DEVICE void unpack_add(const Simt& simt, const LaneTile& tile, int width,
                                 const std::byte* packed, std::uint32_t largest,
                                 LaneNumbers& numbers) {
  unpack_tile(simt, tile, width, packed, [&](unsigned row, std::uint32_t number) {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kRows; ++i) {
      if (i == row) numbers[i] = limited_sum(numbers[i], number, largest);
    }
  });
}

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_TILE_PACK_CUH_
