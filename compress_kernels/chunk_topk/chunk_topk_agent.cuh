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
  std::uint32_t own = 0, total;
  for (unsigned i = 1; i <= kShare; ++i) {
    own += simt.template load<std::uint32_t>(counters + end - i);
  }
  const std::uint32_t above = simt.exclusive_sum(own, total);
  if (above < layout.room && above + own >= layout.room) {
    auto room = static_cast<std::uint32_t>(layout.room - above);
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
      TileCounts counts, totals;
      for_each_thread(simt, source.elements(tile), [&](unsigned index) {
        const std::uint32_t value_class = class_of(source.x(simt, tile, index));
        counts.above += value_class > wanted.lowest ? 1 : 0;
        counts.lowest += value_class == wanted.lowest ? 1 : 0;
      });
      simt.exclusive_sum(counts, totals);
      if (thread_of(simt) == 0) simt.store(source.tiles + tile, totals);
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
    TileCounts counts;
    for_each_tile(simt, source.layout.tiles(), [&](std::size_t tile) {
      counts = counts + counts_between(simt, source.tiles, counted, tile);
      counted = tile;
      write(simt, source, tile, after(all, counts));
    });
  }

 private:
  /// Those of tiles `first` to `end`.
  RINGPRESS_DEVICE static TileCounts counts_between(const Simt& simt, const TileCounts* tiles,
                                                    std::size_t first, std::size_t end) {
    TileCounts own, totals;
    for (std::size_t i = first + thread_of(simt); i < end; i += Simt::kBlockThreads) {
      own = own + simt.template load<TileCounts>(tiles + i);
    }
    simt.exclusive_sum(own, totals);
    return totals;
  }

  /// What is left to be selected after so many.
  RINGPRESS_DEVICE static Wanted after(const Wanted& all, const TileCounts& counts) {
    const std::uint32_t taken = counts.lowest < all.quota ? counts.lowest : all.quota;
    const std::uint32_t before = all.is_marked ? 0 : counts.above + taken;
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
