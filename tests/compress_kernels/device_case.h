// One call of each operation of a DeviceCodec beside the scalar reference: which values, and what
// differs. Knows nothing of GoogleTest: tests/gpu/ runs it where there is none.
#ifndef TESTS_COMPRESS_KERNELS_DEVICE_CASE_H_
#define TESTS_COMPRESS_KERNELS_DEVICE_CASE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "ringpress/codec.h"
#include "ringpress/device.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels::testing {

struct Case {
  std::string specification;
  DType dtype = DType::kFloat32;
  std::vector<std::size_t> counts;  // Of the shards.
  Values kind = Values::kNormal;
  std::uint32_t seed = 1;
  std::size_t offset = 0;  // Misalignment of arrays, in elements, and of wires, in bytes.
  std::size_t parts = 0;
  std::size_t own_position = 0;
  std::size_t divisor = 1;
  bool residual = false;
  bool decoded = false;
  bool in_place = false;
  bool is_encoded = true;  // What the hop makes.
  std::size_t world = 1;
  std::size_t part_summed = 1;  // Contributions of each part of the hop.

  Contributions hop_form() const { return {world == 1 ? 1 : parts * part_summed + 1, world}; }
};

inline std::ostream& operator<<(std::ostream& stream, const Case& c) {
  return stream << c.specification << ' ' << dtype_name(c.dtype) << " shards " << c.counts.size()
                << " of " << c.counts.front() << " kind " << static_cast<int>(c.kind) << " seed "
                << c.seed << " offset " << c.offset << " parts " << c.parts << " own "
                << c.own_position << " divisor " << c.divisor << " residual " << c.residual
                << " decoded " << c.decoded << " in place " << c.in_place << " encoded "
                << c.is_encoded << " world " << c.world << " of " << c.part_summed;
}

/// The arrays of one shard.
struct Shard {
  std::size_t count;
  GuardedBuffer values;
  GuardedBuffer decoded;
  GuardedBuffer residual;
  GuardedBuffer wire;

  Shard(const Codec& codec, const Case& c, std::size_t number)
      : count(c.counts[number]),
        values(count * dtype_size(c.dtype), c.offset * dtype_size(c.dtype)),
        decoded(count * dtype_size(c.dtype), c.offset * 3 % 7 * dtype_size(c.dtype)),
        residual(c.residual ? count * sizeof(float) : 0, c.offset * 5 % 11 * sizeof(float)),
        wire(std::max({codec.wire_bytes(count, {1, c.world}),
                       codec.wire_bytes(count, {c.part_summed, c.world}),
                       codec.wire_bytes(count, c.hop_form())}),
             c.offset * 7 % 13) {
    const auto seed = c.seed + 100 * static_cast<std::uint32_t>(number);
    values.assign(draw_elements(count, c.dtype, c.kind, seed).data());
    if (!c.residual) return;
    std::vector<float> old = draw_floats(count, Values::kNormal, seed + 1);
    for (float& r : old) r *= 0.1f;
    residual.assign(old.data());
  }

  template <typename Args>
  Args arguments(const Case& c) {
    Args args;
    args.values = values.data();
    args.count = count;
    args.residual = c.residual ? residual.floats() : nullptr;
    args.wire = wire.data();
    if (c.decoded) args.decoded = c.in_place ? values.data() : decoded.data();
    args.random = {c.seed * 77, c.seed + (std::uint64_t{3} << 32), 2, c.seed % 13};
    return args;
  }

  bool guards_intact() const {
    return values.guards_intact() && decoded.guards_intact() && residual.guards_intact() &&
           wire.guards_intact();
  }
};

using Shards = std::vector<std::unique_ptr<Shard>>;

inline Shards make_shards(const Codec& codec, const Case& c) {
  Shards shards;
  for (std::size_t i = 0; i < c.counts.size(); ++i) {
    shards.push_back(std::make_unique<Shard>(codec, c, i));
  }
  return shards;
}

/// Casts may differ in the bits of a NaN, which a sum made.
inline bool same_wire(const Codec& codec, const Case& c, const Shard& a, const Shard& b) {
  if (std::memcmp(a.wire.data(), b.wire.data(), a.wire.bytes()) == 0) return true;
  const std::string& name = codec.specification();
  if (name != "fp16" && name != "bf16") return false;
  std::vector<std::byte> values[2];
  for (const Shard* shard : {&a, &b}) {
    auto& decoded = values[shard == &b];
    decoded.resize(a.count * dtype_size(c.dtype));
    codec.decode({.wire = shard->wire.data(), .count = a.count, .values = decoded.data()});
  }
  return first_difference(values[0].data(), values[1].data(), a.count, c.dtype) == a.count;
}

/// The scalar reference of a case.
inline std::unique_ptr<Codec> make_reference(const Case& c) {
  static_cast<void>(force_isa("scalar"));
  auto codec = make_codec(c.specification, c.dtype, ReduceOp::kSum);
  static_cast<void>(force_isa(""));
  return std::move(codec).value();
}

/// Holds a device's codec to the scalar reference. Every function gives "" or what differs.
class DeviceComparison {
 public:
  DeviceComparison(const Case& c, DeviceCodec& device)
      : case_(c), reference_(make_reference(c)), device_(device) {}

  /// Encodes, decodes that, and makes a hop.
  std::string run() {
    const Shards encoded = make_shards(*reference_, case_);
    std::string wrong = encode(encoded);
    wrong += decode(encoded);
    return wrong + hop();
  }

  /// `expected` gets what the reference makes.
  std::string encode(const Shards& expected) {
    const Shards actual = make_shards(*reference_, case_);
    std::vector<EncodeArgs> all;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EncodeArgs args = expected[i]->arguments<EncodeArgs>(case_);
      args.form = {1, case_.world};
      reference_->encode(args);
      all.push_back(actual[i]->arguments<EncodeArgs>(case_));
      all.back().form = args.form;
    }
    return judge("encode", device_.encode(nullptr, all), actual, expected);
  }

  /// Decodes what `encoded` holds, into `decoded` of other shards.
  std::string decode(const Shards& encoded) {
    const Shards expected = make_shards(*reference_, case_);
    const Shards actual = make_shards(*reference_, case_);
    std::vector<DecodeArgs> all;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      DecodeArgs args;
      args.wire = encoded[i]->wire.data();
      args.count = expected[i]->count;
      args.values = expected[i]->decoded.data();
      args.form = {1, case_.world};
      reference_->decode(args);
      args.values = actual[i]->decoded.data();
      all.push_back(args);
    }
    return judge("decode", device_.decode(nullptr, all), actual, expected);
  }

  /// On the first shard; from then on there is no other.
  std::string hop() {
    case_.counts.resize(1);
    std::vector<Shards> parts;
    std::vector<const std::byte*> wires;
    for (std::size_t k = 0; k < case_.parts; ++k) wires.push_back(encode_part(k, parts));
    const Shards expected = make_shards(*reference_, case_);
    const Shards actual = make_shards(*reference_, case_);
    reference_->decode_add_encode(hop_arguments(expected, wires));
    return judge("hop", device_.decode_add_encode(nullptr, hop_arguments(actual, wires)), actual,
                 expected);
  }

 private:
  /// The wire bytes of part number `k`, which `parts` keeps.
  const std::byte* encode_part(std::size_t k, std::vector<Shards>& parts) const {
    Case part = case_;
    part.seed = case_.seed + 10 + static_cast<std::uint32_t>(k);
    part.residual = part.decoded = false;
    parts.push_back(make_shards(*reference_, part));
    EncodeArgs args = parts.back()[0]->arguments<EncodeArgs>(part);
    args.form = {case_.part_summed, case_.world};
    reference_->encode(args);
    return args.wire;
  }

  DecodeAddEncodeArgs hop_arguments(const Shards& shards,
                                    const std::vector<const std::byte*>& wires) const {
    auto args = shards[0]->arguments<DecodeAddEncodeArgs>(case_);
    args.wires = wires;
    args.own_position = case_.own_position;
    args.divisor = case_.divisor;
    args.form = case_.hop_form();
    args.wire_contributions = case_.part_summed;
    if (!case_.is_encoded) args.wire = nullptr;
    return args;
  }

  std::string judge(const char* what, const Status& status, const Shards& actual,
                    const Shards& expected) const {
    std::ostringstream text;
    if (!status.is_ok()) text << what << ": " << status.message() << ": " << case_ << '\n';
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const std::string differs = difference(*actual[i], *expected[i]);
      if (!differs.empty()) text << what << ", shard " << i << ": " << differs << case_ << '\n';
    }
    return text.str();
  }

  std::string difference(const Shard& a, const Shard& b) const {
    const auto same_elements = [&](const GuardedBuffer& x, const GuardedBuffer& y) {
      return first_difference(x.data(), y.data(), a.count, case_.dtype) == a.count;
    };
    std::string text;
    if (!a.guards_intact()) text += "written beyond an end; ";
    if (!same_wire(*reference_, case_, a, b)) text += "other bytes; ";
    if (!same_elements(a.values, b.values)) text += "other values; ";
    if (!same_elements(a.decoded, b.decoded)) text += "other decoded values; ";
    if (std::memcmp(a.residual.data(), b.residual.data(), a.residual.bytes()) != 0) {
      text += "another residual; ";
    }
    return text;
  }

  Case case_;
  std::unique_ptr<Codec> reference_;
  DeviceCodec& device_;
};

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_DEVICE_CASE_H_
