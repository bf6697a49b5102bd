// One call of each operation of a DeviceCodec: which values, and the arrays of it.
#ifndef TESTS_COMPRESS_KERNELS_DEVICE_SHARD_H_
#define TESTS_COMPRESS_KERNELS_DEVICE_SHARD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "ringpress/internal/codec.h"
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
  bool has_residual;
  GuardedBuffer values;
  GuardedBuffer decoded;
  GuardedBuffer residual;
  GuardedBuffer wire;

  Shard(const Codec& codec, const Case& c, std::size_t number)
      : count(c.counts[number]),
        has_residual(c.residual),
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

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_DEVICE_SHARD_H_
