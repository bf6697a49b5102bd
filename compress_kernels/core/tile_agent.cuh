// The three operations of a codec on a device: a warp takes one tile of kTileElements after the
// other and keeps it in registers, so that everything is read and written once.
//
// An agent is written against `Simt`, which is the hardware's (cuda/hardware.cuh) or, in tests, one
// made of fibers (tests/support/simt.h):
//
//   unsigned lane(), warp(), warps()         within the block of threads
//   unsigned block(), blocks(), shard()      blockIdx.x, gridDim.x, blockIdx.y
//   T load<T>(address), store(address, T)    aligned
//   void shuffle_xor(T (&)[N], mask)         each gets that of lane ^ mask; all lanes take part
//   void look_up<W>(uint32_t (&keys)[N], e)  each key becomes the e of lane key mod W, in groups of
//   W
//                                            lanes; all lanes take part
//   void atomic_max(uint32_t* at, value)     *at becomes the larger
//   void atomic_add(at, value), atomic_or(at, value)
//   bool any(bool)                           true if it is so in any lane; all lanes take part
//   uint32_t ballot(bool)                    a bit for each lane in which it is so; all take part
//   unsigned count_bits(uint32_t)            those that are set
//   uint32_t narrow_pair<T>(a, b)            narrow<T>() of both, a lower; every NaN becomes one
//   uint32_t opaque(uint32_t)                the same, which the compiler does not know: it keeps
//                                            nothing that it makes of it for another time
//   void sync_warp()                         as a fence for memory of the warp
//   void* warp_memory()                      Format::kWarpMemory bytes of shared memory
//
// Lane l of a warp holds values 256 row + 8 l .. + 7 of its tile, for rows 0 to 3: blocks of values
// with one scale are then neighbouring lanes, or all lanes of some rows; codes of 8 values are
// whole bytes. A `Format` says what the wire bytes are:
//
//   Format(simt, parameters, count)
//   encode(tile, x, output, sink)            calls sink(row, decoded values) for each row; need not
//                                            where nobody wants them (wants_values())
//   decode(tile, wire, sink)                 calls sink(row, values) for each row; 0 beyond the end
//   kKnowsWholeTiles                         they get code of their own: faster, but twice as much
//   kLeastBlocks                             may be there: how many blocks of its kernels a
//                                            multiprocessor of CUDA's has room for
//   bool is_aligned(wire)                    if it does, and wires of whole tiles must be
//   of_parts(simt, parameters, count)        what a hop decodes with, where that is not the Format
//                                            itself with parameters_of_parts()
//   saturate<T>(values)                      makes of decoded values, those of a group, what they
//                                            become in the element type, if that is not themselves
//
// A format whose lanes hold other values brings an agent of its own, Format::Agent<T>, which has
// the operations of TileAgent: qsgd/qsgd_agent.cuh.
#ifndef COMPRESS_KERNELS_CORE_TILE_AGENT_CUH_
#define COMPRESS_KERNELS_CORE_TILE_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/core/simt_memory.cuh"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::core {

inline constexpr unsigned kLanes = 32;
inline constexpr unsigned kRowElements = kLanes * kGroup;
inline constexpr unsigned kRows = kTileElements / kRowElements;

/// Every lane's values become op of them and those of lane ^ distance. All lanes take part.
template <typename Simt, typename T, unsigned kCount, typename Op>
RINGPRESS_DEVICE void combine_lanes(const Simt& simt, unsigned distance, T (&values)[kCount],
                                    Op&& op) {
  T others[kCount];
  RINGPRESS_UNROLL
  for (unsigned i = 0; i < kCount; ++i) others[i] = values[i];
  simt.shuffle_xor(others, distance);
  RINGPRESS_UNROLL
  for (unsigned i = 0; i < kCount; ++i) values[i] = op(values[i], others[i]);
}

/// The same for sums.
template <typename Simt, typename T, unsigned kCount>
RINGPRESS_DEVICE void add_lanes(const Simt& simt, unsigned distance, T (&sums)[kCount]) {
  combine_lanes(simt, distance, sums, [](T a, T b) { return a + b; });
}

/// What one lane holds of a tile.
using Rows = float[kRows][kGroup];

/// A lane's view of a tile. kWhole: it is known to have all of its elements, which are in arrays
/// that are aligned to 16 bytes, and wires are aligned to what the format moves at once.
template <bool kWhole>
struct Tile {
  static constexpr bool kIsWhole = kWhole;

  std::size_t first = 0;  // Element of the chunk that it begins with.
  unsigned count = 0;     // Its elements.
  unsigned lane = 0;

  /// The first element of the lane's group, within the tile and within the chunk.
  RINGPRESS_DEVICE unsigned place(unsigned row) const { return row * kRowElements + lane * kGroup; }
  RINGPRESS_DEVICE std::size_t index(unsigned row) const { return first + place(row); }
  /// index() / kGroup, and the block of 2^shift elements, 1024 at most, that the group belongs to.
  RINGPRESS_DEVICE std::size_t group(unsigned row) const {
    return first / kGroup + row * kLanes + lane;
  }
  RINGPRESS_DEVICE std::size_t block(unsigned row, unsigned shift) const {
    return (first >> shift) + (place(row) >> shift);
  }
  /// Elements of the group that exist.
  RINGPRESS_DEVICE unsigned valid(unsigned row) const {
    if (kWhole) return kGroup;
    const unsigned begin = place(row);
    return begin >= count ? 0 : count - begin < kGroup ? count - begin : kGroup;
  }
};

/// x = the group of a row; zeros beyond the end.
template <typename T, typename Simt, typename TileOf>
RINGPRESS_DEVICE void load_row(const Simt& simt, const TileOf& tile, unsigned row,
                               const void* array, float (&x)[kGroup]) {
  if constexpr (TileOf::kIsWhole) {
    load_quads<T>(simt, array, tile.index(row), x);
  } else {
    load_group<T>(simt, array, tile.index(row), tile.valid(row), x);
  }
}

/// Writes a row of a whole tile: all lanes take part. Two neighbours write the 32 bytes of the
/// one's group, then those of the other's: memory is slower where a warp writes halves of that.
template <typename Simt>
RINGPRESS_DEVICE void store_row_of_pairs(const Simt& simt, const Tile<true>& tile, unsigned row,
                                         const float (&x)[kGroup], float* array) {
  const bool is_second = tile.lane % 2 != 0;
  std::uint32_t others[4];
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < 4; ++k) others[k] = bits_of(is_second ? x[k] : x[4 + k]);
  simt.shuffle_xor(others, 1);
  Quad first, second;
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    first.words[k] = is_second ? others[k] : bits_of(x[k]);
    second.words[k] = is_second ? bits_of(x[4 + k]) : others[k];
  }
  float* const group = array + (tile.index(row) & ~std::size_t{2 * kGroup - 1});
  float* const to = group + (is_second ? 4 : 0);
  simt.store(to, first);
  simt.store(to + kGroup, second);
}

template <typename T, typename Simt, typename TileOf>
RINGPRESS_DEVICE void store_row(const Simt& simt, const TileOf& tile, unsigned row,
                                const float (&x)[kGroup], void* array) {
  if constexpr (TileOf::kIsWhole && sizeof(T) == sizeof(float)) {
    store_row_of_pairs(simt, tile, row, x, static_cast<float*>(array));
  } else if constexpr (TileOf::kIsWhole) {
    store_quads<T>(simt, array, tile.index(row), x);
  } else {
    store_group<T>(simt, array, tile.index(row), tile.valid(row), x);
  }
}

/// What the parts of a hop are decoded with, for parameters that say nothing else.
template <typename Parameters>
RINGPRESS_HOST_DEVICE inline Parameters parameters_of_parts(const Parameters& parameters) {
  return parameters;
}

/// What a hop decodes with.
template <typename Format, typename Simt, typename Parameters>
RINGPRESS_DEVICE auto part_format(const Simt& simt, const Parameters& parameters,
                                  std::size_t count) {
  if constexpr (requires { Format::of_parts(simt, parameters, count); }) {
    return Format::of_parts(simt, parameters, count);
  } else {
    return Format(simt, parameters_of_parts(parameters), count);
  }
}

template <typename Simt, typename Format, typename T>
class TileAgent {
 public:
  using Parameters = typename Format::Parameters;

  RINGPRESS_DEVICE static void encode(const Simt& simt, const EncodeTask<Parameters>& task) {
    const EncodeShard& shard = task.shards[simt.shard()];
    const Format format(simt, task.parameters, shard.count);
    const Work work{shard.count, can_be_whole(format, shard.values, shard.output)};
    for_each_tile(simt, work, [&](const auto& tile) RINGPRESS_INLINE_LAMBDA {
      Rows x;
      RINGPRESS_UNROLL
      for (unsigned row = 0; row < kRows; ++row) {
        load_row<T>(simt, tile, row, shard.values, x[row]);
      }
      encode_tile(simt, format, tile, x, shard.output);
    });
  }

  RINGPRESS_DEVICE static void decode(const Simt& simt, const DecodeTask<Parameters>& task) {
    const DecodeShard& shard = task.shards[simt.shard()];
    const Format format(simt, task.parameters, shard.count);
    const Work work{shard.count,
                    is_aligned(shard.values, sizeof(Quad)) && is_wire_aligned(format, shard.wire)};
    for_each_tile(simt, work, [&](const auto& tile) RINGPRESS_INLINE_LAMBDA {
      format.decode(tile, shard.wire, [&](unsigned row, const float(&y)[kGroup]) {
        store_decoded(simt, format, tile, row, y, shard.values);
      });
    });
  }

  RINGPRESS_DEVICE static void decode_add_encode(const Simt& simt,
                                                 const HopTask<Parameters>& task) {
    const auto part = part_format<Format>(simt, task.parameters, task.count);
    const Format format(simt, task.parameters, task.count);
    Work work{task.count, can_be_whole(format, task.values, task.output)};
    for (std::size_t i = 0; i < task.wire_count; ++i) {
      work.can_be_whole = work.can_be_whole && is_wire_aligned(part, task.wires[i]);
    }
    for_each_tile(simt, work, [&](const auto& tile) RINGPRESS_INLINE_LAMBDA {
      Rows sum;
      add_up(simt, part, tile, task, sum);
      if (task.output.wire != nullptr) {
        encode_tile(simt, format, tile, sum, task.output);
        return;
      }
      RINGPRESS_UNROLL
      for (unsigned row = 0; row < kRows; ++row) {
        store_row<T>(simt, tile, row, sum[row], task.output.decoded);
      }
    });
  }

 private:
  struct Work {
    std::size_t count;  // Elements.
    bool can_be_whole;  // Their tiles, in the sense of Tile<true>.
  };

  template <typename AnyFormat>
  RINGPRESS_DEVICE static bool is_wire_aligned(const AnyFormat& format, const std::byte* wire) {
    if constexpr (requires { format.is_aligned(wire); }) return format.is_aligned(wire);
    return AnyFormat::kKnowsWholeTiles;
  }
  RINGPRESS_DEVICE static bool can_be_whole(const Format& format, const void* values,
                                            const EncodeOutput& output) {
    return is_aligned(values, sizeof(Quad)) && is_aligned(output.residual, sizeof(Quad)) &&
           is_aligned(output.decoded, sizeof(Quad)) &&
           (output.wire == nullptr || is_wire_aligned(format, output.wire));
  }

  /// Calls body(tile) for the tiles of this warp.
  template <typename Body>
  RINGPRESS_DEVICE static void for_each_tile(const Simt& simt, const Work& work, Body&& body) {
    const std::size_t count = work.count;
    const std::size_t tiles = (count + kTileElements - 1) / kTileElements;
    const std::size_t step = static_cast<std::size_t>(simt.blocks()) * simt.warps();
    std::size_t tile = static_cast<std::size_t>(simt.block()) * simt.warps() + simt.warp();
    for (; tile < tiles; tile += step) {
      const std::size_t first = tile * kTileElements;
      const std::size_t rest = count - first < kTileElements ? count - first : kTileElements;
      if constexpr (Format::kKnowsWholeTiles) {
        if (rest == kTileElements && work.can_be_whole) {
          body(Tile<true>{first, kTileElements, simt.lane()});
          continue;
        }
      }
      body(Tile<false>{first, static_cast<unsigned>(rest), simt.lane()});
    }
  }

  /// sum = parts and own values in order, divided.
  template <typename Part, typename TileOf>
  RINGPRESS_DEVICE static void add_up(const Simt& simt, const Part& part, const TileOf& tile,
                                      const HopTask<Parameters>& task, Rows& sum) {
    // The sum of the first two is the same in either order.
    const bool begins_with_own = task.own_position <= 1;
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < kRows; ++row) {
      if (begins_with_own) {
        load_row<T>(simt, tile, row, task.values, sum[row]);
        continue;
      }
      // Zero with a sign adds nothing to any value, not even to a zero.
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < kGroup; ++k) sum[row][k] = -0.0f;
    }
    const auto take = [&](unsigned row, const float(&y)[kGroup]) {
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < kGroup; ++k) {
        sum[row][k] = reduce<ReduceOp::kSum>(sum[row][k], y[k]);
      }
    };
    for (std::size_t position = 0; position <= task.wire_count; ++position) {
      if (position == task.own_position) {
        if (begins_with_own) continue;
        RINGPRESS_UNROLL
        for (unsigned row = 0; row < kRows; ++row) {
          float y[kGroup];
          load_row<T>(simt, tile, row, task.values, y);
          take(row, y);
        }
      } else {
        const std::byte* wire = task.wires[position > task.own_position ? position - 1 : position];
        part.decode(tile, wire, take);
      }
    }
    if (task.divisor == 1) return;
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kRows * kGroup; ++i) {
      sum[i / kGroup][i % kGroup] = divide(sum[i / kGroup][i % kGroup], task.divisor);
    }
  }

  /// Adds the residual, encodes, and keeps what was lost.
  template <typename TileOf>
  RINGPRESS_DEVICE static void encode_tile(const Simt& simt, const Format& format,
                                           const TileOf& tile, Rows& x,
                                           const EncodeOutput& output) {
    if (output.residual != nullptr) {
      RINGPRESS_UNROLL
      for (unsigned row = 0; row < kRows; ++row) {
        float r[kGroup];
        load_row<float>(simt, tile, row, output.residual, r);
        RINGPRESS_UNROLL
        for (unsigned k = 0; k < kGroup; ++k) x[row][k] += r[k];
      }
    }
    format.encode(tile, x, output, [&](unsigned row, const float(&y)[kGroup]) {
      if (output.residual != nullptr) store_residual(simt, tile, row, x[row], y, output.residual);
      if (output.decoded != nullptr) store_decoded(simt, format, tile, row, y, output.decoded);
    });
  }

  /// What was lost, except where that is not a finite number: there it stays as it was.
  template <typename TileOf>
  RINGPRESS_DEVICE static void store_residual(const Simt& simt, const TileOf& tile, unsigned row,
                                              const float (&x)[kGroup], const float (&y)[kGroup],
                                              float* residual) {
    float lost[kGroup];
    unsigned finite = 0;
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < kGroup; ++k) {
      lost[k] = x[k] - y[k];
      finite |= is_finite(lost[k]) ? 1u << k : 0u;
    }
    if (TileOf::kIsWhole && finite == 0xFFu) {
      store_quads<float>(simt, residual, tile.index(row), lost);
    } else if (TileOf::kIsWhole) {
      store_elements<float>(simt, residual, tile.index(row), kGroup, lost, finite);
    } else {
      store_group<float>(simt, residual, tile.index(row), tile.valid(row), lost, finite);
    }
  }

  template <typename TileOf>
  RINGPRESS_DEVICE static void store_decoded(const Simt& simt, const Format& format,
                                             const TileOf& tile, unsigned row,
                                             const float (&y)[kGroup], void* decoded) {
    float limited[kGroup];
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < kGroup; ++k) limited[k] = y[k];
    if constexpr (requires { format.template saturate<T>(limited); }) {
      format.template saturate<T>(limited);
    }
    store_row<T>(simt, tile, row, limited, decoded);
  }
};

/// The agent of a format.
template <typename Simt, typename Format, typename T>
struct AgentChoice {
  using Agent = TileAgent<Simt, Format, T>;
};
template <typename Simt, typename Format, typename T>
requires requires {
  typename Format::template Agent<T>;
}
struct AgentChoice<Simt, Format, T> {
  using Agent = typename Format::template Agent<T>;
};
template <typename Simt, typename Format, typename T>
using AgentOf = typename AgentChoice<Simt, Format, T>::Agent;

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_TILE_AGENT_CUH_
