#include "compress_kernels/qsgd/transcoder.h"

#include "compress_kernels/qsgd/quantiser.h"
#include "compress_kernels/qsgd/tile_walk.h"

namespace ringpress::compress_kernels::qsgd {
namespace {

/// Where the values of a tile go.
struct Target {
  void* values = nullptr;
  std::size_t divisor = 1;
  bool streams = false;
};

/// Writes what scratch.codes, plus `offset`, stand for. Uses scratch.values.
void store_values(const Transcoder& transcoder, std::uint32_t offset, const Target& target,
                  Span span, Scratch& scratch) {
  const TileKernels& kernels = *transcoder.kernels;
  const DType dtype = transcoder.parameters.dtype;
  DequantiseArgs args{scratch.codes, offset, grids_of(transcoder.parameters, scratch),
                      target.divisor};
  if (dtype == DType::kFloat32 && span.is_whole()) {
    args.streams = target.streams;
    std::byte* values = static_cast<std::byte*>(target.values) + span.first * sizeof(float);
    kernels.dequantise(args, reinterpret_cast<float*>(values));
    return;
  }
  kernels.dequantise(args, scratch.values);
  kernels.store(dtype, scratch.values, span.count, target.values, span.first);
}

/// scratch.values = the values of a tile of an encoded form.
void decode_tile(const Transcoder& transcoder, const Form& form, const std::byte* wire, Span span,
                 Scratch& scratch) {
  const TileKernels& kernels = *transcoder.kernels;
  read_grids(transcoder.parameters, kernels, form, span, scratch);
  unpack_tile(kernels, wire + form.codes_offset, span, form.width, scratch.codes);
  kernels.dequantise({scratch.codes, form.offset, grids_of(transcoder.parameters, scratch)},
                     scratch.values);
}

/// Writes norms and levels of a form that stands alone.
void write_grids(const Transcoder& transcoder, const float* x, std::size_t count, Span span,
                 std::byte* wire, Scratch& scratch) {
  const Parameters& parameters = transcoder.parameters;
  const TileKernels& kernels = *transcoder.kernels;
  write_norms(parameters, kernels, x, span, wire);
  if (parameters.grids == 1) return;
  read_scales(parameters, wire, parameters.block, span, scratch.scales);
  kernels.choose_levels(x, grids_of(parameters, scratch), scratch.levels);
  pack_tile(kernels, scratch.levels, span, level_bits(parameters),
            wire + norm_bytes(parameters, count));
}

/// The sum in float32 of what stands alone in `args.wires` and the own values, divided, and with
/// the residual added.
void add_contributions(const Transcoder& transcoder, const DecodeAddEncodeArgs& args, Span span,
                       Scratch& scratch) {
  const TileKernels& kernels = *transcoder.kernels;
  const DType dtype = transcoder.parameters.dtype;
  for (std::size_t position = 0; position <= args.wires.size(); ++position) {
    if (position == args.own_position) {
      kernels.load(dtype, args.values, nullptr, span.first, span.count, scratch.values);
    } else {
      const std::byte* wire = args.wires[position - (position > args.own_position ? 1 : 0)];
      const Form form = form_of(transcoder.parameters, args.count, {}, {}, wire);
      decode_tile(transcoder, form, wire, span, scratch);
    }
    if (position == 0) {
      std::memcpy(scratch.sum, scratch.values, sizeof scratch.sum);
    } else {
      kernels.add(scratch.values, kTileElements, scratch.sum);
    }
  }
  if (args.divisor != 1) kernels.divide(args.divisor, span.count, scratch.sum);
  if (args.residual != nullptr) {
    kernels.load(DType::kFloat32, args.residual, nullptr, span.first, span.count, scratch.values);
    kernels.add(scratch.values, kTileElements, scratch.sum);
  }
  std::fill(scratch.sum + span.count, scratch.sum + kTileElements, 0.0f);
}

void hop_alone(const Transcoder& transcoder, const DecodeAddEncodeArgs& args) {
  const Parameters& parameters = transcoder.parameters;
  const TileKernels& kernels = *transcoder.kernels;
  const Form form = form_of(parameters, args.count, args.form, {}, args.wire);
  const Quantiser quantiser(parameters, kernels, args.random, args.residual);
  Scratch scratch;
  for_each_tile(args.count, [&](Span span) {
    add_contributions(transcoder, args, span, scratch);
    if (args.wire == nullptr) {
      kernels.store(parameters.dtype, scratch.sum, span.count, args.decoded, span.first);
      return;
    }
    write_grids(transcoder, scratch.sum, args.count, span, args.wire, scratch);
    read_grids(parameters, kernels, form, span, scratch);
    quantiser.quantise(scratch.sum, span, scratch);
    pack_tile(kernels, scratch.codes, span, form.width, args.wire + form.codes_offset);
    if (args.decoded == nullptr) return;
    store_values(transcoder, form.offset, {args.decoded}, span, scratch);
  });
}

/// scratch.codes = sum of the codes of own values and of `args.wires`, plus form.offset.
void add_codes(const Transcoder& transcoder, const DecodeAddEncodeArgs& args, const Form& form,
               Span span, Scratch& scratch) {
  const int width = width_of(transcoder.parameters, args.wire_contributions);
  const std::uint32_t lift =
      lift_of_sum(form, transcoder.parameters, args.wires.size() * args.wire_contributions + 1);
  // Whatever the wires hold, the sum fits its width.
  const std::uint32_t limit = lift == 0 ? 2 * form.offset : ~0u;
  for (const std::byte* wire : args.wires) {
    unpack_add_tile(*transcoder.kernels, wire, span, width, limit, scratch.codes);
  }
  if (lift != 0) transcoder.kernels->lift(lift, 2 * form.offset, scratch.codes);
}

void hop_together(const Transcoder& transcoder, const DecodeAddEncodeArgs& args) {
  const Parameters& parameters = transcoder.parameters;
  const TileKernels& kernels = *transcoder.kernels;
  const Form form = form_of(parameters, args.count, args.form, args.agreed, args.wire);
  const Source source{parameters.dtype, args.values, args.residual};
  const Quantiser quantiser(parameters, kernels, args.random, args.residual);
  Scratch scratch;
  for_each_tile(args.count, [&](Span span) {
    read_grids(parameters, kernels, form, span, scratch);
    quantiser.quantise(load(kernels, source, span, scratch.x), span, scratch);
    add_codes(transcoder, args, form, span, scratch);
    if (args.wire != nullptr) pack_tile(kernels, scratch.codes, span, form.width, args.wire);
    if (args.decoded == nullptr) return;
    store_values(transcoder, form.offset, {args.decoded, args.divisor}, span, scratch);
  });
}

/// Encodes a whole tile of one grid in one pass. False: it must go the longer way.
bool encode_plain(const Transcoder& transcoder, const EncodeArgs& args, const Form& form,
                  const Quantiser& quantiser, Span span, Scratch& scratch) {
  const TileKernels& kernels = *transcoder.kernels;
  const Source source{transcoder.parameters.dtype, args.values, nullptr};
  if (!span.is_whole() || (stands_alone(args.form) && args.residual != nullptr)) return false;
  const float* values = load(kernels, source, span, scratch.x);
  if (stands_alone(args.form)) {
    write_grids(transcoder, values, args.count, span, args.wire, scratch);
  }
  read_grids(transcoder.parameters, kernels, form, span, scratch);
  if (args.residual != nullptr && scratch.scales.any_is_lost) return false;
  quantiser.encode(values, span, form.width, args.wire + form.codes_offset, scratch);
  return true;
}

/// True if the values are too many to stay in the cache, and may be written around it.
bool streams(DType dtype, const DecodeArgs& args) {
  constexpr std::size_t kStreamBytes = 256 * 1024;
  return dtype == DType::kFloat32 && args.count * sizeof(float) >= kStreamBytes &&
         reinterpret_cast<std::uintptr_t>(args.values) % 64 == 0;
}

}  // namespace

void Transcoder::encode(const EncodeArgs& args) const {
  const Form form = form_of(parameters, args.count, args.form, args.agreed, args.wire);
  const Source source{parameters.dtype, args.values, args.residual};
  const Quantiser quantiser(parameters, *kernels, args.random, args.residual);
  const bool is_plain =
      parameters.grids == 1 && form.offset == parameters.steps[0] && args.decoded == nullptr;
  Scratch scratch;
  for_each_tile(args.count, [&](Span span) {
    if (is_plain && encode_plain(*this, args, form, quantiser, span, scratch)) return;
    const float* x = load(*kernels, source, span, scratch.x);
    if (stands_alone(args.form)) write_grids(*this, x, args.count, span, args.wire, scratch);
    read_grids(parameters, *kernels, form, span, scratch);
    quantiser.quantise(x, span, scratch);
    if (form.offset != parameters.steps[0]) {
      kernels->lift(form.offset - parameters.steps[0], 2 * form.offset, scratch.codes);
    }
    pack_tile(*kernels, scratch.codes, span, form.width, args.wire + form.codes_offset);
    if (args.decoded == nullptr) return;
    store_values(*this, form.offset, {args.decoded}, span, scratch);
  });
}

void Transcoder::decode(const DecodeArgs& args) const {
  const Form form = form_of(parameters, args.count, args.form, args.agreed, args.wire);
  const Target target{args.values, args.divisor, streams(parameters.dtype, args)};
  Scratch scratch;
  for_each_tile(args.count, [&](Span span) {
    read_grids(parameters, *kernels, form, span, scratch);
    unpack_tile(*kernels, args.wire + form.codes_offset, span, form.width, scratch.codes);
    store_values(*this, form.offset, target, span, scratch);
  });
  if (target.streams) kernels->flush();
}

void Transcoder::decode_add(const DecodeAddArgs& args) const {
  const Form form = form_of(parameters, args.count, args.form, args.agreed, args.wire);
  Scratch scratch;
  for_each_tile(args.count, [&](Span span) {
    decode_tile(*this, form, args.wire, span, scratch);
    std::byte* sum = static_cast<std::byte*>(args.sum) + span.first * sizeof(float);
    kernels->add(scratch.values, span.count, reinterpret_cast<float*>(sum));
  });
}

void Transcoder::decode_add_encode(const DecodeAddEncodeArgs& args) const {
  if (stands_alone(args.form)) {
    hop_alone(*this, args);
  } else {
    hop_together(*this, args);
  }
}

std::uint32_t Transcoder::measure_tensor(const SummariseArgs& args) const {
  const Source source{parameters.dtype, args.values, args.residual};
  Scratch scratch;
  std::uint32_t largest = 0;
  for_each_tile(args.count, [&](Span span) {
    alignas(64) std::uint32_t magnitudes[kRows];
    kernels->measure(load(*kernels, source, span, scratch.x), magnitudes);
    largest = std::max(largest, *std::max_element(magnitudes, magnitudes + kRows));
  });
  return largest;
}

void Transcoder::measure_blocks(const SummariseArgs& args) const {
  const Source source{parameters.dtype, args.values, args.residual};
  Scratch scratch;
  for_each_tile(args.count, [&](Span span) {
    write_norms(parameters, *kernels, load(*kernels, source, span, scratch.x), span, args.summary);
  });
}

void Transcoder::choose_levels(const SummariseArgs& args) const {
  const Form form = agreed_form(parameters, args.count, args.agreed);
  const Source source{parameters.dtype, args.values, args.residual};
  Scratch scratch;
  for_each_tile(args.count, [&](Span span) {
    read_scales(parameters, form.norms, form.norm_block, span, scratch.scales);
    kernels->choose_levels(load(*kernels, source, span, scratch.x), grids_of(parameters, scratch),
                           scratch.levels);
    pack_tile(*kernels, scratch.levels, span, level_bits(parameters), args.summary);
  });
}

}  // namespace ringpress::compress_kernels::qsgd
