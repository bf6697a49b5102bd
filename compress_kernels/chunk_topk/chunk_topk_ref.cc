// The specification of topk:select=chunk as code: what is selected is what comes first when all
// elements are sorted.
#include <algorithm>
#include <vector>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/chunk_topk/tile_codes.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/encode_output.h"
#include "compress_kernels/core/reduce.h"

namespace ringpress::compress_kernels::chunk_topk {
namespace {

/// A decoded value in the element type.
void store(DType dtype, void* values, std::size_t index, float value) {
  core::visit_compressible(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    core::store_wide<T>(values, index, topk::limited<T>(value));
  });
}

/// The elements that are sent, in order.
std::vector<std::size_t> select(const std::vector<float>& x, std::size_t room) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (class_of(x[i]) > 0) places.push_back(i);
  }
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return class_of(x[a]) > class_of(x[b]); });
  places.resize(std::min(places.size(), room));
  std::sort(places.begin(), places.end());
  return places;
}

bool has_room_for_all_that_is_not_finite(const std::vector<float>& x, std::size_t room) {
  const auto count = std::count_if(x.begin(), x.end(), [](float v) { return !core::is_finite(v); });
  return static_cast<std::size_t>(count) <= room;
}

/// What each element decodes to.
std::vector<float> write_chunk(const Layout& layout, const std::vector<float>& x, std::byte* wire) {
  clear(layout, false, wire);
  const std::vector<std::size_t> places = select(x, layout.room);
  std::vector<float> decoded(x.size(), 0.0f);
  std::size_t sent = 0;
  for (std::size_t tile = 0; tile < layout.tiles(); ++tile) {
    const std::size_t before = sent;
    Selection selection;
    for (; sent < places.size() && places[sent] / kTile == tile; ++sent) {
      selection.add(places[sent] % kTile, x[places[sent]]);
    }
    write_tile(layout, tile, before, &selection, wire);
    for (std::size_t j = 0; j < selection.count; ++j) {
      decoded[places[before + j]] = selection.decoded[j];
    }
  }
  return decoded;
}

/// `x`: without the residual.
void encode_all(const ChunkTopkParameters& parameters, std::vector<float> x,
                const core::EncodeOutput& output) {
  const Layout layout = layout_of(parameters, x.size());
  for (std::size_t i = 0; i < x.size() && output.residual != nullptr; ++i) {
    x[i] += core::load_element<float>(output.residual, i);
  }
  if (!has_room_for_all_that_is_not_finite(x, layout.room)) {
    clear(layout, true, output.wire);
    for (std::size_t i = 0; i < x.size() && output.decoded != nullptr; ++i) {
      store(parameters.dtype, output.decoded, i, core::float_of(core::kCanonicalNanBits));
    }
    return;
  }
  const std::vector<float> decoded = write_chunk(layout, x, output.wire);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (output.residual != nullptr && core::is_finite(x[i])) {
      core::store_element<float>(output.residual, i, x[i] - decoded[i]);
    }
    if (output.decoded != nullptr) store(parameters.dtype, output.decoded, i, decoded[i]);
  }
}

/// Calls use(index, value) for all that was sent.
template <typename Use>
void read_chunk(const Layout& layout, const std::byte* wire, Use&& use) {
  const bool marked = is_marked(layout, wire);
  for (std::size_t i = 0; i < layout.count && marked; ++i) {
    use(i, core::float_of(core::kCanonicalNanBits));
  }
  for (std::size_t tile = 0; tile < layout.tiles() && !marked; ++tile) {
    read_tile(layout, tile, wire,
              [&](std::size_t index, float value) { use(tile * kTile + index, value); });
  }
}

void encode(const ChunkTopkParameters& parameters, const EncodeArgs& args) {
  std::vector<float> x(args.count);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = core::load_wide(parameters.dtype, args.values, i);
  encode_all(parameters, std::move(x), core::output_of(args));
}

void decode(const ChunkTopkParameters& parameters, const DecodeArgs& args) {
  for (std::size_t i = 0; i < args.count; ++i) store(parameters.dtype, args.values, i, 0.0f);
  read_chunk(layout_of(parameters, args.count), args.wire, [&](std::size_t index, float value) {
    store(parameters.dtype, args.values, index, value);
  });
}

void decode_add(const ChunkTopkParameters& parameters, const DecodeAddArgs& args) {
  read_chunk(layout_of(parameters, args.count), args.wire, [&](std::size_t index, float value) {
    const float sum = core::load_element<float>(args.sum, index) + value;
    core::store_element<float>(args.sum, index, sum);
  });
}

void decode_add_encode(const ChunkTopkParameters& parameters, const DecodeAddEncodeArgs& args) {
  std::vector<float> sums(args.count, -0.0f);  // To which anything can be added unchanged.
  for (std::size_t k = 0; k <= args.wires.size(); ++k) {
    for (std::size_t i = 0; i < sums.size() && k == args.own_position; ++i) {
      sums[i] += core::load_wide(parameters.dtype, args.values, i);
    }
    if (k < args.wires.size()) {
      decode_add(parameters, {.wire = args.wires[k], .count = args.count, .sum = sums.data()});
    }
  }
  for (float& sum : sums) sum = args.divisor == 1 ? sum : core::divide(sum, args.divisor);
  if (args.wire != nullptr) {
    return encode_all(parameters, std::move(sums), core::output_of(args));
  }
  core::store_values(parameters.dtype, args.decoded, sums.size(),
                     [&](std::size_t i) { return sums[i]; });
}

}  // namespace

const KernelTable<ChunkTopkParameters>& reference_kernels() {
  static constexpr KernelTable<ChunkTopkParameters> kKernels{encode, decode, decode_add,
                                                             decode_add_encode};
  return kKernels;
}

}  // namespace ringpress::compress_kernels::chunk_topk
