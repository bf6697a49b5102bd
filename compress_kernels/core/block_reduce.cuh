// One number per block of values with a common scale, from one number per lane and row.
#ifndef COMPRESS_KERNELS_CORE_BLOCK_REDUCE_CUH_
#define COMPRESS_KERNELS_CORE_BLOCK_REDUCE_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"

namespace ringpress::compress_kernels::core {

RINGPRESS_DEVICE std::uint32_t largest_of(std::uint32_t a, std::uint32_t b) {
  return a < b ? b : a;
}

/// Every lane and row gets op over all values of its block. `op` takes the values in no order.
/// `block`: a power of two from 32 to 1024.
template <typename Simt, typename Op>
RINGPRESS_DEVICE void reduce_blocks(const Simt& simt, std::size_t block,
                                    std::uint32_t (&values)[kRows], Op&& op) {
  RINGPRESS_UNROLL
  for (unsigned distance = 1; distance < kLanes; distance *= 2) {
    if (distance * kGroup >= static_cast<unsigned>(block)) continue;
    combine_lanes(simt, distance, values, op);
  }
  if (block > kRowElements) {
    values[0] = values[1] = op(values[0], values[1]);
    values[2] = values[3] = op(values[2], values[3]);
  }
  if (block > 2 * kRowElements) {
    values[0] = values[1] = values[2] = values[3] = op(values[0], values[2]);
  }
}

/// Every lane and row gets the bits of the largest magnitude of its block: of a NaN if it has one.
template <typename Simt>
RINGPRESS_DEVICE void find_largest(const Simt& simt, std::size_t block, const Rows& x,
                                   std::uint32_t (&largest)[kRows]) {
  RINGPRESS_UNROLL
  for (unsigned row = 0; row < kRows; ++row) {
    float magnitude = 0;
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < kGroup; ++k) magnitude = largest_magnitude(magnitude, x[row][k]);
    largest[row] = bits_of(magnitude);
  }
  reduce_blocks(simt, block, largest, largest_of);
}

/// Every lane and row gets the sums over its block, which are exact.
template <typename Simt>
RINGPRESS_DEVICE void add_fits(const Simt& simt, std::size_t block, FitSums (&sums)[kRows]) {
  const auto add = [](std::uint32_t a, std::uint32_t b) {
    return bits_of(float_of(a) + float_of(b));
  };
  std::uint32_t products[kRows];
  std::uint32_t squares[kRows];
  RINGPRESS_UNROLL
  for (unsigned row = 0; row < kRows; ++row) {
    products[row] = bits_of(sums[row].products);
    squares[row] = bits_of(sums[row].squares);
  }
  reduce_blocks(simt, block, products, add);
  reduce_blocks(simt, block, squares, add);
  RINGPRESS_UNROLL
  for (unsigned row = 0; row < kRows; ++row) {
    sums[row] = {float_of(products[row]), float_of(squares[row])};
  }
}

/// Where a value of the tile lies in the warp's memory: lanes that write or read at the same time
/// are spread over its banks.
RINGPRESS_DEVICE unsigned memory_slot(unsigned place) {
  return place ^ (place / kLanes % kGroup);
}

/// Sums of blocks take this much memory of the warp.
inline constexpr std::size_t kSumMemory = kTileElements * sizeof(float);

/// The first 16 values of each block become the sums of those that lie 16, 32, ... further on.
RINGPRESS_DEVICE void add_chains(unsigned lane, unsigned block, float* memory) {
  constexpr auto kSums = static_cast<unsigned>(kSumLanes);
  for (unsigned chain = lane; chain < kTileElements / block * kSums; chain += kLanes) {
    const unsigned begin = chain / kSums * block + chain % kSums;
    float sum = 0;
    for (unsigned i = 0; i < block; i += kSums) sum += memory[memory_slot(begin + i)];
    memory[memory_slot(begin)] = sum;
  }
}

/// Every row gets the sum over its block of what lies in the warp's memory: a term for each place
/// of the tile, +0 for what does not exist. The additions are in the order of sum_lanes().
template <typename Simt, typename TileOf>
RINGPRESS_DEVICE void sum_terms(const Simt& simt, const TileOf& tile, std::size_t block,
                                float (&sums)[kRows]) {
  auto* const memory = static_cast<float*>(simt.warp_memory());
  simt.sync_warp();
  add_chains(tile.lane, static_cast<unsigned>(block), memory);
  simt.sync_warp();
  RINGPRESS_ROLL
  for (unsigned row = 0; row < kRows; ++row) {
    const auto begin = tile.place(row) & ~static_cast<unsigned>(block - 1);
    float lanes[kSumLanes];
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kSumLanes; ++i) lanes[i] = memory[memory_slot(begin + i)];
    // sum_lanes(), with indices that are known when it is compiled.
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < 8; ++i) lanes[i] += lanes[i + 8];
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < 4; ++i) lanes[i] += lanes[i + 4];
    const float sum = lanes[0] + lanes[2] + (lanes[1] + lanes[3]);
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kRows; ++i) sums[i] = i == row ? sum : sums[i];
  }
}

/// Puts a row's terms, those of one group, in the warp's memory.
template <typename Simt, typename TileOf>
RINGPRESS_DEVICE void put_terms(const Simt& simt, const TileOf& tile, unsigned row,
                                const float (&terms)[kGroup]) {
  auto* const memory = static_cast<float*>(simt.warp_memory());
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < kGroup; ++k) memory[memory_slot(tile.place(row) + k)] = terms[k];
}

/// What put_terms() has put there.
template <typename Simt, typename TileOf>
RINGPRESS_DEVICE void get_terms(const Simt& simt, const TileOf& tile, unsigned row,
                                float (&terms)[kGroup]) {
  auto* const memory = static_cast<float*>(simt.warp_memory());
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < kGroup; ++k) terms[k] = memory[memory_slot(tile.place(row) + k)];
}

/// As sum_terms(), of term(row, k).
template <typename Simt, typename TileOf, typename Term>
RINGPRESS_DEVICE void sum_blocks(const Simt& simt, const TileOf& tile, std::size_t block,
                                 float (&sums)[kRows], Term&& term) {
  simt.sync_warp();
  RINGPRESS_UNROLL
  for (unsigned row = 0; row < kRows; ++row) {
    float terms[kGroup];
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < kGroup; ++k) terms[k] = term(row, k);
    put_terms(simt, tile, row, terms);
  }
  sum_terms(simt, tile, block, sums);
}

/// Elements of the block that the lane's group belongs to.
template <typename TileOf>
RINGPRESS_DEVICE std::size_t block_count(const TileOf& tile, unsigned row, std::size_t block) {
  const std::size_t begin = tile.place(row) & ~(block - 1);
  const std::size_t rest = tile.count > begin ? tile.count - begin : 1;
  return rest < block ? rest : block;
}

/// True for the one lane and row that writes the scale of a block.
template <typename TileOf>
RINGPRESS_DEVICE bool leads_block(const TileOf& tile, unsigned row, std::size_t block) {
  return tile.valid(row) != 0 && (tile.place(row) & static_cast<unsigned>(block - 1)) == 0;
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_BLOCK_REDUCE_CUH_
