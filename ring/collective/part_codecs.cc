#include "ring/collective/part_codecs.h"

#include <algorithm>

namespace ringpress::ring {
namespace {

/// So many bytes on; null stays null.
void* at(void* memory, std::size_t bytes) {
  return memory == nullptr ? nullptr : static_cast<std::byte*>(memory) + bytes;
}
const void* at(const void* memory, std::size_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}
float* at_float(float* floats, std::size_t elements) {
  return floats == nullptr ? nullptr : floats + elements;
}

RandomKey key_at(RandomKey key, std::size_t elements) {
  key.first_element += elements;
  return key;
}

}  // namespace

PartCodecs::PartCodecs(const CollectiveContext& context)
    : whole_(*context.codec),
      parts_(context.parts),
      element_bytes_(dtype_size(whole_.dtype())),
      wires_(context.memory),
      wire_sizes_(context.memory) {}

/// Calls take(codec, elements before it in the range, its elements) for each part of the range.
template <typename Take>
void PartCodecs::for_each_part(const Range& range, Take&& take) const {
  const std::size_t end = range.offset + range.count;
  std::size_t first = range.offset;
  auto part = std::upper_bound(
      parts_.begin(), parts_.end(), first,
      [](std::size_t element, const CodecPart& candidate) { return element < candidate.end; });
  for (; first < end; ++part) {
    const std::size_t last = std::min(part->end, end);
    take(*part->codec, first - range.offset, last - first);
    first = last;
  }
}

std::size_t PartCodecs::wire_bytes(const Range& range, Contributions form) const {
  if (parts_.empty()) return whole_.wire_bytes(range.count, form);
  std::size_t bytes = 0;
  for_each_part(range, [&](const Codec& codec, std::size_t, std::size_t count) {
    bytes += codec.wire_bytes(count, form);
  });
  return bytes;
}

std::size_t PartCodecs::encode(const Range& range, const EncodeArgs& args) const {
  if (parts_.empty()) return whole_.encode(args);
  std::size_t bytes = 0;
  for_each_part(range, [&](const Codec& codec, std::size_t before, std::size_t count) {
    EncodeArgs part = args;
    part.values = at(args.values, before * element_bytes_);
    part.count = count;
    part.residual = at_float(args.residual, before);
    part.wire = args.wire + bytes;
    part.decoded = at(args.decoded, before * element_bytes_);
    part.random = key_at(args.random, before);
    bytes += codec.encode(part);
  });
  return bytes;
}

void PartCodecs::decode(const Range& range, const DecodeArgs& args) const {
  if (parts_.empty()) return whole_.decode(args);
  std::size_t bytes = 0;
  for_each_part(range, [&](const Codec& codec, std::size_t before, std::size_t count) {
    DecodeArgs part = args;
    part.wire = args.wire + bytes;
    part.wire_size = codec.wire_bytes(count, args.form);
    part.count = count;
    part.values = at(args.values, before * element_bytes_);
    bytes += part.wire_size;
    codec.decode(part);
  });
}

std::size_t PartCodecs::decode_add_encode(const Range& range, const DecodeAddEncodeArgs& args) {
  if (parts_.empty()) return whole_.decode_add_encode(args);
  const Contributions arriving{args.wire_contributions, args.form.world};
  wires_.assign(args.wires.begin(), args.wires.end());
  std::size_t bytes = 0;
  for_each_part(range, [&](const Codec& codec, std::size_t before, std::size_t count) {
    const std::size_t arrived = codec.wire_bytes(count, arriving);
    wire_sizes_.assign(wires_.size(), arrived);
    DecodeAddEncodeArgs part = args;
    part.wires = wires_;
    part.wire_sizes = wire_sizes_;
    part.values = at(args.values, before * element_bytes_);
    part.count = count;
    part.residual = at_float(args.residual, before);
    part.wire = args.wire == nullptr ? nullptr : args.wire + bytes;
    part.decoded = at(args.decoded, before * element_bytes_);
    part.random = key_at(args.random, before);
    bytes += codec.decode_add_encode(part);
    for (const std::byte*& wire : wires_) wire += arrived;
  });
  return bytes;
}

}  // namespace ringpress::ring
