// One rank of an all-reduce with topk, without the collective.
#ifndef TESTS_COMPRESS_KERNELS_TOPK_RANK_H_
#define TESTS_COMPRESS_KERNELS_TOPK_RANK_H_

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/topk/topk.h"

namespace ringpress::compress_kernels::testing {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

inline std::unique_ptr<Codec> make(const std::string& specification, DType dtype = DType::kFloat32,
                                   ReduceOp op = ReduceOp::kSum) {
  auto codec = make_codec(specification, dtype, op);
  EXPECT_TRUE(codec.is_ok()) << codec.status().message();
  return std::move(codec).value();
}

inline std::string topk_of(double density) {
  return "topk:density=" + std::to_string(density);
}

inline std::uint64_t summarise(const Codec& codec, const std::byte* values, std::size_t count,
                               const float* residual = nullptr) {
  std::uint64_t summary = 0;
  SummariseArgs args;
  args.values = values;
  args.count = count;
  args.residual = residual;
  args.summary = reinterpret_cast<std::byte*>(&summary);
  codec.agreement()->summarise_tensor(args);
  return summary;
}

inline const std::byte* bytes_of(const Floats& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

/// One rank of an all-reduce, chunk by chunk.
struct Rank {
  const Codec& codec;
  const Floats& values;
  Floats* residual;
  std::uint64_t summary = 0;

  Rank(const Codec& c, const Floats& v, Floats* r)
      : codec(c),
        values(v),
        residual(r),
        summary(summarise(c, bytes_of(v), v.size(), r == nullptr ? nullptr : r->data())) {}

  template <typename Args>
  Args arguments(std::size_t first, std::size_t count, std::size_t world, Bytes* wire) const {
    Args args;
    args.values = values.data() + first;
    args.count = count;
    args.residual = residual == nullptr ? nullptr : residual->data() + first;
    args.random.first_element = first;
    args.form = {1, world};
    args.agreed.tensor = reinterpret_cast<const std::byte*>(&summary);
    wire->resize(codec.wire_bytes(count, args.form));
    args.wire = wire->data();
    return args;
  }

  Bytes encode(std::size_t first, std::size_t count, std::size_t world = 2) const {
    Bytes wire;
    wire.resize(codec.encode(arguments<EncodeArgs>(first, count, world, &wire)));
    return wire;
  }

  /// What the owner of a chunk makes of others' wires, being the rank at `position`.
  Bytes reduce(std::size_t first, std::size_t count, const std::vector<Bytes>& wires,
               std::size_t position, std::size_t divisor = 1) const {
    std::vector<const std::byte*> pointers;
    std::vector<std::size_t> sizes;
    for (const Bytes& wire : wires) {
      pointers.push_back(wire.data());
      sizes.push_back(wire.size());
    }
    Bytes wire;
    auto args = arguments<DecodeAddEncodeArgs>(first, count, wires.size() + 1, &wire);
    args.wires = pointers;
    args.wire_sizes = sizes;
    args.own_position = position;
    args.divisor = divisor;
    wire.resize(codec.decode_add_encode(args));
    return wire;
  }
};

inline Floats decode(const Codec& codec, const Bytes& wire, std::size_t count) {
  Floats values(count, 77.0f);
  DecodeArgs args;
  args.wire = wire.data();
  args.wire_size = wire.size();
  args.count = count;
  args.values = values.data();
  codec.decode(args);
  return values;
}

template <typename Law>
Floats draw(std::size_t count, Law law, std::uint32_t seed = 3) {
  std::mt19937 engine(seed);
  Floats values(count);
  for (float& value : values) value = static_cast<float>(law(engine));
  return values;
}

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_TOPK_RANK_H_
