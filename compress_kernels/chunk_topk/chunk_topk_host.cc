// topk:select=chunk on a host: a pass that counts classes, and one that writes, a tile at a time.
#include <algorithm>
#include <cstring>
#include <memory_resource>
#include <vector>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/chunk_topk/tile_codes.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/encode_output.h"
#include "compress_kernels/core/reduce.h"

namespace ringpress::compress_kernels::chunk_topk {
namespace {

// Elements that are looked at together: loops of this length become vectors.
constexpr std::size_t kRow = 16;

/// x of an element: a value of type T and its residual.
template <typename T>
struct Source {
  const void* values;
  const float* residual;

  float at(std::size_t index) const {
    const float value = core::load_wide<T>(values, index);
    return residual == nullptr ? value : value + core::load_element<float>(residual, index);
  }
  void load_row(std::size_t first, float (&x)[kRow]) const {
    for (std::size_t i = 0; i < kRow; ++i) x[i] = core::load_wide<T>(values, first + i);
    if (residual == nullptr) return;
    for (std::size_t i = 0; i < kRow; ++i) x[i] += core::load_element<float>(residual, first + i);
  }
};

/// Elements of each class. Neighbours, which are often of one class, have different counters: an
/// addition need not wait for the one before it.
class ClassCounts {
 public:
  template <typename T>
  void add(const Source<T>& source, std::size_t count) {
    std::size_t first = 0;
    for (; first + kRow <= count; first += kRow) {
      float x[kRow];
      std::uint32_t classes[kRow];
      source.load_row(first, x);
      for (std::size_t i = 0; i < kRow; ++i) classes[i] = class_of(x[i]);
      for (std::size_t i = 0; i < kRow; ++i) ++counts_[i % kCounters][classes[i]];
    }
    for (; first < count; ++first) ++counts_[0][class_of(source.at(first))];
  }
  std::size_t of(std::uint32_t value_class) const {
    std::size_t sum = 0;
    for (const auto& row : counts_) sum += row[value_class];
    return sum;
  }

 private:
  static constexpr std::size_t kCounters = 4;  // Of a class.
  std::uint32_t counts_[kCounters][kClasses] = {};
};

Threshold find_threshold(const ClassCounts& counts, std::size_t room) {
  for (std::uint32_t lowest = kLargestClass; lowest > 0; --lowest) {
    const std::size_t count = counts.of(lowest);
    if (count >= room) return {lowest, room};
    room -= count;
  }
  return {};
}

/// Selects what is sent of one tile after the other, and keeps the rest, which is finite.
class Selector {
 public:
  Selector(const Threshold& threshold, float* residual)
      : threshold_(threshold),
        smallest_(std::max(threshold.lowest, 1u) << kClassShift),
        residual_(residual) {}

  template <typename T>
  void select(const Source<T>& source, std::size_t first, std::size_t count, Selection* selection) {
    selection->count = 0;
    std::size_t i = 0;
    for (; i + kRow <= count; i += kRow) {
      float x[kRow];
      source.load_row(first + i, x);
      if (may_be_sent(x)) {
        for (std::size_t j = 0; j < kRow; ++j) take(first, i + j, x[j], selection);
      } else if (residual_ != nullptr) {
        std::memcpy(residual_ + first + i, x, sizeof x);
      }
    }
    for (; i < count; ++i) take(first, i, source.at(first + i), selection);
  }

 private:
  bool may_be_sent(const float (&x)[kRow]) const {
    bool some = false;
    for (const float value : x) some |= core::magnitude_bits(value) >= smallest_;
    return some;
  }
  void take(std::size_t first, std::size_t index, float x, Selection* selection) {
    const std::uint32_t value_class = class_of(x);
    if (value_class > threshold_.lowest) return selection->add(index, x);
    if (value_class == threshold_.lowest && threshold_.quota > 0) {
      --threshold_.quota;
      return selection->add(index, x);
    }
    if (residual_ != nullptr) core::store_element<float>(residual_, first + index, x);
  }

  Threshold threshold_;
  const std::uint32_t smallest_;  // Magnitude of what may be sent.
  float* const residual_;
};

void store_losses(const Selection& selection, float* residual) {
  for (std::size_t j = 0; j < selection.count; ++j) {
    const float x = selection.value[j];
    if (!core::is_finite(x)) continue;
    core::store_element<float>(residual, selection.index[j], x - selection.decoded[j]);
  }
}

template <typename T>
void fill(void* values, std::size_t count, float value) {
  const T element = core::narrow<T>(value);
  for (std::size_t i = 0; i < count; ++i) core::store_element<T>(values, i, element);
}

template <typename T>
void* at(void* values, std::size_t index) {
  return static_cast<std::byte*>(values) + index * sizeof(T);
}

/// T: of the values; Decoded: of the tensor.
template <typename T, typename Decoded>
void encode_chunk(const Layout& layout, const Source<T>& source, const core::EncodeOutput& output) {
  ClassCounts counts;
  counts.add(source, layout.count);
  const bool marked = counts.of(kLargestClass) > layout.room;
  clear(layout, marked, output.wire);
  if (marked) {
    if (output.decoded == nullptr) return;
    return fill<Decoded>(output.decoded, layout.count, core::float_of(core::kCanonicalNanBits));
  }
  Selector selector(find_threshold(counts, layout.room), output.residual);
  Selection selection;
  std::size_t sent = 0;
  for (std::size_t tile = 0; tile < layout.tiles(); ++tile) {
    const std::size_t first = tile * kTile;
    const std::size_t count = layout.elements(tile);
    selector.select(source, first, count, &selection);
    write_tile(layout, tile, sent, &selection, output.wire);
    sent += selection.count;
    if (output.residual != nullptr) store_losses(selection, output.residual + first);
    if (output.decoded == nullptr) continue;
    void* const decoded = at<Decoded>(output.decoded, first);
    fill<Decoded>(decoded, count, 0.0f);
    for (std::size_t j = 0; j < selection.count; ++j) {
      core::store_wide<Decoded>(decoded, selection.index[j],
                                topk::limited<Decoded>(selection.decoded[j]));
    }
  }
}

void encode(const ChunkTopkParameters& parameters, const EncodeArgs& args) {
  core::visit_compressible(parameters.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    encode_chunk<T, T>(layout_of(parameters, args.count), {args.values, args.residual},
                       core::output_of(args));
  });
}

void decode(const ChunkTopkParameters& parameters, const DecodeArgs& args) {
  const Layout layout = layout_of(parameters, args.count);
  const bool marked = is_marked(layout, args.wire);
  core::visit_compressible(parameters.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (marked) {
      return fill<T>(args.values, args.count, core::float_of(core::kCanonicalNanBits));
    }
    for (std::size_t tile = 0; tile < layout.tiles(); ++tile) {
      void* const values = at<T>(args.values, tile * kTile);
      fill<T>(values, layout.elements(tile), 0.0f);
      read_tile(layout, tile, args.wire, [&](std::size_t index, float value) {
        core::store_wide<T>(values, index, topk::limited<T>(value));
      });
    }
  });
}

void decode_add(const ChunkTopkParameters& parameters, const DecodeAddArgs& args) {
  const Layout layout = layout_of(parameters, args.count);
  const bool marked = is_marked(layout, args.wire);
  for (std::size_t tile = 0; tile < layout.tiles(); ++tile) {
    void* const sums = at<float>(args.sum, tile * kTile);
    if (marked) {  // Whatever the sums are.
      fill<float>(sums, layout.elements(tile), core::float_of(core::kCanonicalNanBits));
      continue;
    }
    read_tile(layout, tile, args.wire, [&](std::size_t index, float value) {
      core::store_element<float>(sums, index, core::load_element<float>(sums, index) + value);
    });
  }
}

/// Sums in the order of summation, divided.
void add_up(const ChunkTopkParameters& parameters, const DecodeAddEncodeArgs& args, float* sums) {
  for (std::size_t k = 0; k <= args.wires.size(); ++k) {
    if (k == args.own_position) {
      core::visit_compressible(parameters.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (std::size_t i = 0; i < args.count; ++i) {
          sums[i] += core::load_wide<T>(args.values, i);
        }
      });
    }
    if (k < args.wires.size()) {
      decode_add(parameters, {.wire = args.wires[k], .count = args.count, .sum = sums});
    }
  }
  if (args.divisor == 1) return;
  for (std::size_t i = 0; i < args.count; ++i) sums[i] = core::divide(sums[i], args.divisor);
}

void decode_add_encode(const ChunkTopkParameters& parameters, const DecodeAddEncodeArgs& args) {
  // -0: anything can be added to it unchanged.
  std::pmr::vector<float> sums(args.count, -0.0f, args.memory);
  add_up(parameters, args, sums.data());
  core::visit_compressible(parameters.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (args.wire != nullptr) {
      return encode_chunk<float, T>(layout_of(parameters, args.count), {sums.data(), args.residual},
                                    core::output_of(args));
    }
    for (std::size_t i = 0; i < args.count; ++i) {
      core::store_wide<T>(args.decoded, i, sums[i]);
    }
  });
}

}  // namespace

const KernelTable<ChunkTopkParameters>* simd_kernels(std::int64_t) {
  static constexpr KernelTable<ChunkTopkParameters> kKernels{encode, decode, decode_add,
                                                             decode_add_encode};
  return &kKernels;
}

}  // namespace ringpress::compress_kernels::chunk_topk
