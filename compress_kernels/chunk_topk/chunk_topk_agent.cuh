// The operations of topk:select=chunk on a device: a block takes one tile after the other. An agent
// for each launch; device_stages.h says in which order they come.
#ifndef COMPRESS_KERNELS_CHUNK_TOPK_CHUNK_TOPK_AGENT_CUH_
#define COMPRESS_KERNELS_CHUNK_TOPK_CHUNK_TOPK_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/chunk_topk/device_stages.h"
#include "compress_kernels/chunk_topk/tile_memory.cuh"
#include "compress_kernels/chunk_topk/tile_reader.cuh"
#include "compress_kernels/chunk_topk/tile_writer.cuh"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/projection_agent.cuh"
#include "compress_kernels/core/reduce.h"

namespace ringpress::compress_kernels::chunk_topk {

/// One of the shards of an encoding. In: the type of the values, which are sums in a hop.
template <typename Simt, typename In>
struct Source {
  const core::EncodeShard& shard;
  Layout layout;
  std::uint32_t* counters;  // Of the shard.
  TileCounts* tiles;

  RINGPRESS_DEVICE Source(const Simt& simt, const EncodeTask& task)
      : shard(task.shards[simt.shard()]),
        layout(layout_of(task.parameters, shard.count, simt.shard())),
        counters(task.parameters.scratch.counters + simt.shard() * kCounters),
        tiles(task.parameters.scratch.tiles +
              simt.shard() * task.parameters.scratch.tiles_of_shard) {}

  RINGPRESS_DEVICE float x(const Simt& simt, std::size_t tile, unsigned index) const {
    return core::load_sum<In>(simt, shard.values, shard.output.residual, tile * kTile + index);
  }
  RINGPRESS_DEVICE unsigned elements(std::size_t tile) const {
    return static_cast<unsigned>(layout.elements(tile));
  }
};

/// What the counters of a shard say is selected of it.
template <typename Simt>
RINGPRESS_DEVICE Wanted find_threshold(const Simt& simt, const Layout& layout,
                                       const std::uint32_t* counters) {
  constexpr auto kShare = static_cast<unsigned>(kCounters / Simt::kBlockThreads);
  static_assert(kCounters % Simt::kBlockThreads == 0);
  TileMemory& memory = tile_memory(simt);
  // The largest classes are the first thread's.
  const unsigned end = static_cast<unsigned>(kCounters) - thread_of(simt) * kShare;
  if (thread_of(simt) == 0) memory.lowest = memory.quota = 0;
  std::uint32_t above[1] = {0};
  std::uint32_t total[1];
  for (unsigned i = 1; i <= kShare; ++i) {
    above[0] += simt.template load<std::uint32_t>(counters + end - i);
  }
  const std::uint32_t own = above[0];
  sum_before(simt, above, total);
  if (above[0] < layout.room && above[0] + own >= layout.room) {
    auto room = static_cast<std::uint32_t>(layout.room - above[0]);
    unsigned lowest = end - 1;
    for (; simt.template load<std::uint32_t>(counters + lowest) < room; --lowest) {
      room -= simt.template load<std::uint32_t>(counters + lowest);
    }
    memory.lowest = lowest;
    memory.quota = room;
  }
  simt.sync_block();
  Wanted wanted{memory.lowest, memory.quota, 0, false};
  wanted.is_marked = simt.template load<std::uint32_t>(counters + kLargestClass) > layout.room;
  return wanted;
}

template <typename Simt, typename In>
struct ClassAgent {
  RINGPRESS_DEVICE static void run(const Simt& simt, const EncodeTask& task) {
    const Source<Simt, In> source(simt, task);
    if (simt.block() >= source.layout.tiles()) return;
    std::uint32_t* const counters = tile_memory(simt).words;
    for_each_thread(simt, kCounters, [&](unsigned i) { counters[i] = 0; });
    simt.sync_block();
    for_each_tile(simt, source.layout.tiles(), [&](std::size_t tile) {
      for_each_thread(simt, source.elements(tile), [&](unsigned index) {
        const std::uint32_t value_class = class_of(source.x(simt, tile, index));
        if (value_class > 0) simt.atomic_add(counters + value_class, 1);
      });
    });
    simt.sync_block();
    for_each_thread(simt, kCounters, [&](unsigned i) {
      if (counters[i] > 0) simt.atomic_add(source.counters + i, counters[i]);
    });
  }
};

template <typename Simt, typename In>
struct TileCountAgent {
  RINGPRESS_DEVICE static void run(const Simt& simt, const EncodeTask& task) {
    const Source<Simt, In> source(simt, task);
    if (simt.block() >= source.layout.tiles()) return;
    const Wanted wanted = find_threshold(simt, source.layout, source.counters);
    for_each_tile(simt, source.layout.tiles(), [&](std::size_t tile) {
      std::uint32_t counts[2] = {0, 0};
      std::uint32_t totals[2];
      for_each_thread(simt, source.elements(tile), [&](unsigned index) {
        const std::uint32_t value_class = class_of(source.x(simt, tile, index));
        counts[0] += value_class > wanted.lowest ? 1 : 0;
        counts[1] += value_class == wanted.lowest ? 1 : 0;
      });
      sum_before(simt, counts, totals);
      if (thread_of(simt) == 0) simt.store(source.tiles + tile, TileCounts{totals[0], totals[1]});
    });
  }
};

/// T: the elements of the tensor.
template <typename Simt, typename In, typename T>
struct WriteAgent {
  RINGPRESS_DEVICE static void run(const Simt& simt, const EncodeTask& task) {
    const Source<Simt, In> source(simt, task);
    if (simt.block() >= source.layout.tiles()) return;
    const Wanted all = find_threshold(simt, source.layout, source.counters);
    std::size_t counted = 0;  // Tiles.
    std::uint32_t counts[2] = {0, 0};
    for_each_tile(simt, source.layout.tiles(), [&](std::size_t tile) {
      add_counts(simt, source.tiles, counted, tile, counts);
      counted = tile;
      write(simt, source, tile, after(all, counts));
    });
  }

 private:
  /// Adds those of tiles `first` to `end`.
  RINGPRESS_DEVICE static void add_counts(const Simt& simt, const TileCounts* tiles,
                                          std::size_t first, std::size_t end,
                                          std::uint32_t (&counts)[2]) {
    std::uint32_t own[2] = {0, 0};
    std::uint32_t totals[2];
    for (std::size_t i = first + thread_of(simt); i < end; i += Simt::kBlockThreads) {
      const auto of_tile = simt.template load<TileCounts>(tiles + i);
      own[0] += of_tile.above;
      own[1] += of_tile.lowest;
    }
    sum_before(simt, own, totals);
    counts[0] += totals[0];
    counts[1] += totals[1];
  }

  /// What is left to be selected after so many.
  RINGPRESS_DEVICE static Wanted after(const Wanted& all, const std::uint32_t (&counts)[2]) {
    const std::uint32_t taken = counts[1] < all.quota ? counts[1] : all.quota;
    const std::uint32_t before = all.is_marked ? 0 : counts[0] + taken;
    return {all.lowest, all.quota - taken, before, all.is_marked};
  }

  RINGPRESS_DEVICE static void write(const Simt& simt, const Source<Simt, In>& source,
                                     std::size_t tile, const Wanted& wanted) {
    const core::EncodeOutput& output = source.shard.output;
    TileWriter<Simt> writer(simt, source.layout, output.wire, tile, wanted);
    writer.run([&](unsigned index) { return source.x(simt, tile, index); },
               [&](unsigned index, float x, float decoded) {
                 const std::size_t at = tile * kTile + index;
                 if (output.residual != nullptr && core::is_finite(x) && !wanted.is_marked) {
                   simt.store(output.residual + at, x - decoded);
                 }
                 if (output.decoded == nullptr) return;
                 core::store_narrow<T>(simt, output.decoded, at, topk::limited<T>(decoded));
               });
  }
};

template <typename Simt, typename T>
struct DecodeAgent {
  RINGPRESS_DEVICE static void run(const Simt& simt, const DecodeTask& task) {
    const core::DecodeShard& shard = task.shards[simt.shard()];
    const Layout layout = layout_of(task.parameters, shard.count, simt.shard());
    for_each_tile(simt, layout.tiles(), [&](std::size_t tile) {
      const TileReader<Simt> reader(simt, layout, shard.wire, tile);
      for_each_thread(simt, static_cast<unsigned>(layout.elements(tile)), [&](unsigned index) {
        float value = 0;
        reader.read(index, [&](float sent) { value = sent; });
        core::store_narrow<T>(simt, shard.values, tile * kTile + index, topk::limited<T>(value));
      });
      simt.sync_block();
    });
  }
};

/// The divided sums of a hop, for those who encode them or, without a wire, as the result.
template <typename Simt, typename T>
struct SumAgent {
  RINGPRESS_DEVICE static void run(const Simt& simt, const HopTask& task) {
    const Layout layout = layout_of(task.parameters, task.count, 0);
    for_each_tile(simt, layout.tiles(), [&](std::size_t tile) {
      add_up(simt, task, layout, tile);
      for_each_thread(simt, static_cast<unsigned>(layout.elements(tile)), [&](unsigned index) {
        float sum = core::float_of(tile_memory(simt).words[index]);
        if (task.divisor != 1) sum = core::divide(sum, task.divisor);
        const std::size_t at = tile * kTile + index;
        if (task.output.wire != nullptr) {
          simt.store(task.parameters.scratch.sums + at, sum);
        } else {
          core::store_narrow<T>(simt, task.output.decoded, at, sum);
        }
      });
    });
  }

 private:
  /// In `words`, of which each thread uses its own only.
  RINGPRESS_DEVICE static void add_up(const Simt& simt, const HopTask& task, const Layout& layout,
                                      std::size_t tile) {
    std::uint32_t* const words = tile_memory(simt).words;
    const auto elements = static_cast<unsigned>(layout.elements(tile));
    const auto add = [words](unsigned index, float value) {
      words[index] = core::bits_of(core::float_of(words[index]) + value);
    };
    // -0: anything can be added to it unchanged.
    for_each_thread(simt, elements, [&](unsigned index) { words[index] = core::kSignBit; });
    for (std::size_t position = 0; position <= task.wire_count; ++position) {
      if (position == task.own_position) {
        for_each_thread(simt, elements, [&](unsigned index) {
          add(index, core::load_sum<T>(simt, task.values, nullptr, tile * kTile + index));
        });
        continue;
      }
      const std::byte* wire = task.wires[position > task.own_position ? position - 1 : position];
      const TileReader<Simt> reader(simt, layout, wire, tile);
      for_each_thread(simt, elements, [&](unsigned index) {
        reader.read(index, [&](float value) { add(index, value); });
      });
      simt.sync_block();
    }
  }
};

/// Calls visitor(TypeTag<agent>) with that of a task.
template <typename Simt, typename T, typename In, typename Visitor>
decltype(auto) visit_stage(Stage stage, Visitor&& visitor) {
  switch (stage) {
    case Stage::kCountClasses:
      return visitor(core::TypeTag<ClassAgent<Simt, In>>{});
    case Stage::kCountTiles:
      return visitor(core::TypeTag<TileCountAgent<Simt, In>>{});
    case Stage::kWrite:
      break;
  }
  return visitor(core::TypeTag<WriteAgent<Simt, In, T>>{});
}
template <typename Simt, typename Visitor>
decltype(auto) visit_agent(const EncodeTask& task, DType dtype, Visitor&& visitor) {
  return core::visit_compressible(dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    const Stage stage = task.parameters.stage;
    return task.parameters.takes_sums ? visit_stage<Simt, T, float>(stage, visitor)
                                      : visit_stage<Simt, T, T>(stage, visitor);
  });
}
template <typename Simt, typename Visitor>
decltype(auto) visit_agent(const DecodeTask&, DType dtype, Visitor&& visitor) {
  return core::visit_compressible(dtype, [&](auto element) {
    return visitor(core::TypeTag<DecodeAgent<Simt, typename decltype(element)::type>>{});
  });
}
template <typename Simt, typename Visitor>
decltype(auto) visit_agent(const HopTask&, DType dtype, Visitor&& visitor) {
  return core::visit_compressible(dtype, [&](auto element) {
    return visitor(core::TypeTag<SumAgent<Simt, typename decltype(element)::type>>{});
  });
}

/// Blocks that a shard keeps busy, at most `most`.
inline unsigned blocks_for(core::Extent extent, std::size_t most) {
  return static_cast<unsigned>(
      std::clamp<std::size_t>(tiles_of(extent.largest_count), 1, std::max<std::size_t>(most, 1)));
}

}  // namespace ringpress::compress_kernels::chunk_topk

#endif  // COMPRESS_KERNELS_CHUNK_TOPK_CHUNK_TOPK_AGENT_CUH_
