#include "compress_kernels/scales/scaled_codec.h"

#include <algorithm>
#include <memory_resource>
#include <utility>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/isa.h"

namespace ringpress::compress_kernels::scales {
namespace {

const void* at(DType dtype, const void* array, std::size_t element) {
  return static_cast<const std::byte*>(array) + element * dtype_size(dtype);
}
void* at(DType dtype, void* array, std::size_t element) {
  return static_cast<std::byte*>(array) + element * dtype_size(dtype);
}

RandomKey key_at(RandomKey key, std::size_t element) {
  key.first_element += element;
  return key;
}

}  // namespace

/// Of one group, in scaled units.
struct ScaledCodec::Scratch {
  std::size_t count = 0;
  alignas(64) float values[kGroupElements];  // And then what they are decoded to.
  alignas(64) float residual[kGroupElements];
};

ScaledCodec::ScaledCodec(CodecIdentity identity, std::unique_ptr<Codec> inner)
    : IdentifiedCodec(std::move(identity)),
      inner_(std::move(inner)),
      kernels_(selected_kernels(reference_kernels(), simd_kernels)) {}

std::size_t ScaledCodec::wire_bytes(std::size_t count, Contributions form) const {
  const std::size_t groups = count / kGroupElements;
  return groups * inner_->wire_bytes(kGroupElements, form) +
         inner_->wire_bytes(count % kGroupElements, form);
}

/// The group's own values and their residual.
template <typename Args>
void ScaledCodec::take_values(const Args& args, std::size_t first, Scratch* scratch) const {
  const std::size_t count = std::min(kGroupElements, args.count - first);
  const std::uint8_t* const codes = args.scales + first;
  scratch->count = count;
  kernels_.divide(dtype(), at(dtype(), args.values, first), codes, count, scratch->values);
  if (args.residual == nullptr) return;
  kernels_.divide(DType::kFloat32, args.residual + first, codes, count, scratch->residual);
}

/// What the group was decoded to and its new residual, as far as they are wanted.
template <typename Args>
void ScaledCodec::store_results(const Args& args, std::size_t first, const Scratch& scratch) const {
  const std::uint8_t* const codes = args.scales + first;
  if (args.decoded != nullptr) {
    kernels_.multiply(dtype(), scratch.values, codes, scratch.count,
                      at(dtype(), args.decoded, first));
  }
  if (args.residual == nullptr) return;
  kernels_.multiply(DType::kFloat32, scratch.residual, codes, scratch.count, args.residual + first);
}

std::size_t ScaledCodec::encode(const EncodeArgs& args) const {
  Scratch scratch;
  std::size_t bytes = 0;
  for (std::size_t first = 0; first < args.count; first += kGroupElements) {
    take_values(args, first, &scratch);
    EncodeArgs group;
    group.values = scratch.values;
    group.count = scratch.count;
    group.residual = args.residual == nullptr ? nullptr : scratch.residual;
    group.wire = args.wire + bytes;
    group.decoded = args.decoded == nullptr ? nullptr : scratch.values;
    group.random = key_at(args.random, first);
    group.form = args.form;
    bytes += inner_->encode(group);
    store_results(args, first, scratch);
  }
  return bytes;
}

/// Decodes the group, in scaled units. What is returned says how many values it has, and how many
/// bytes it took.
template <typename Args>
DecodeArgs ScaledCodec::decode_group(const Args& args, std::size_t first, const std::byte* wire,
                                     std::size_t divisor, Scratch* scratch) const {
  DecodeArgs group;
  group.wire = wire;
  group.count = std::min(kGroupElements, args.count - first);
  group.values = scratch->values;
  group.wire_size = inner_->wire_bytes(group.count, args.form);
  group.divisor = divisor;
  group.form = args.form;
  inner_->decode(group);
  return group;
}

void ScaledCodec::decode(const DecodeArgs& args) const {
  Scratch scratch;
  const std::byte* wire = args.wire;
  for (std::size_t first = 0; first < args.count; first += kGroupElements) {
    const DecodeArgs group = decode_group(args, first, wire, args.divisor, &scratch);
    kernels_.multiply(dtype(), scratch.values, args.scales + first, group.count,
                      at(dtype(), args.values, first));
    wire += group.wire_size;
  }
}

void ScaledCodec::decode_add(const DecodeAddArgs& args) const {
  Scratch scratch;
  const std::byte* wire = args.wire;
  auto* const sum = static_cast<float*>(args.sum);
  for (std::size_t first = 0; first < args.count; first += kGroupElements) {
    const DecodeArgs group = decode_group(args, first, wire, 1, &scratch);
    kernels_.multiply(DType::kFloat32, scratch.values, args.scales + first, group.count,
                      scratch.values);
    for (std::size_t i = 0; i < group.count; ++i) {
      const float before = core::load_element<float>(sum, first + i);
      core::store_element<float>(sum, first + i, before + scratch.values[i]);
    }
    wire += group.wire_size;
  }
}

std::size_t ScaledCodec::decode_add_encode(const DecodeAddEncodeArgs& args) const {
  Scratch scratch;
  const Contributions part{args.wire_contributions, args.form.world};
  std::pmr::vector<const std::byte*> wires(args.wires.begin(), args.wires.end(), args.memory);
  std::pmr::vector<std::size_t> wire_sizes(wires.size(), args.memory);
  std::size_t bytes = 0;
  for (std::size_t first = 0; first < args.count; first += kGroupElements) {
    take_values(args, first, &scratch);
    const std::size_t arrived = inner_->wire_bytes(scratch.count, part);
    wire_sizes.assign(wires.size(), arrived);
    DecodeAddEncodeArgs group;
    group.wires = wires;
    group.wire_sizes = wire_sizes;
    group.own_position = args.own_position;
    group.values = scratch.values;
    group.count = scratch.count;
    group.divisor = args.divisor;
    group.residual = args.residual == nullptr ? nullptr : scratch.residual;
    group.wire = args.wire == nullptr ? nullptr : args.wire + bytes;
    group.decoded = args.decoded == nullptr ? nullptr : scratch.values;
    group.random = key_at(args.random, first);
    group.wire_contributions = args.wire_contributions;
    group.form = args.form;
    group.memory = args.memory;
    bytes += inner_->decode_add_encode(group);
    store_results(args, first, scratch);
    for (const std::byte*& wire : wires) wire += arrived;
  }
  return bytes;
}

}  // namespace ringpress::compress_kernels::scales
