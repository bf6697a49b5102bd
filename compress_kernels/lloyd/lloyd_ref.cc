// The specification of qB:grid=lloyd as code: plain loops over blocks and elements.
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/chunk.h"
#include "compress_kernels/lloyd/lloyd.h"

namespace ringpress::compress_kernels::lloyd {
namespace {

/// Encodes the blocks whose values value(index) gives; adds the residual first.
template <typename Value>
void encode_values(const LloydParameters& parameters, std::size_t count, const Output& output,
                   Value&& value) {
  const Chunk chunk(parameters, count);
  for (std::size_t block = 0; block < chunk.block_count(); ++block) {
    float x[kLargestLloydBlock];
    float y[kLargestLloydBlock];
    const std::size_t first = chunk.first_of(block);
    const std::size_t length = chunk.length_of(block);
    for (std::size_t i = 0; i < length; ++i) {
      x[i] = value(first + i);
      if (output.residual != nullptr) {
        x[i] += core::load_element<float>(output.residual, first + i);
      }
    }
    chunk.encode(block, x, output.random, output.wire);
    if (!core::wants_values(output)) continue;
    const bool finite = chunk.decode(block, output.wire, y);
    for (std::size_t i = 0; i < length; ++i) {
      if (output.residual != nullptr && finite) {
        const float old = core::load_element<float>(output.residual, first + i);
        core::store_element<float>(output.residual, first + i, core::new_residual(x[i], y[i], old));
      }
      if (output.decoded != nullptr) {
        core::store_wide(parameters.dtype, output.decoded, first + i,
                         as_element(y[i], parameters.dtype, output.form));
      }
    }
  }
}

/// Calls use(index, value) for every decoded value.
template <typename Use>
void for_each_decoded(const LloydParameters& parameters, const std::byte* wire, std::size_t count,
                      Use&& use) {
  const Chunk chunk(parameters, count);
  for (std::size_t block = 0; block < chunk.block_count(); ++block) {
    float x[kLargestLloydBlock];
    chunk.decode(block, wire, x);
    for (std::size_t i = 0; i < chunk.length_of(block); ++i) use(chunk.first_of(block) + i, x[i]);
  }
}

void encode(const LloydParameters& parameters, const EncodeArgs& args) {
  const Output output{core::output_of(args), args.form};
  encode_values(parameters, args.count, output,
                [&](std::size_t i) { return core::load_wide(parameters.dtype, args.values, i); });
}

void decode(const LloydParameters& parameters, const DecodeArgs& args) {
  for_each_decoded(parameters, args.wire, args.count, [&](std::size_t i, float value) {
    core::store_wide(parameters.dtype, args.values, i,
                     as_element(value, parameters.dtype, args.form));
  });
}

void decode_add(const LloydParameters& parameters, const DecodeAddArgs& args) {
  for_each_decoded(parameters, args.wire, args.count, [&](std::size_t i, float value) {
    core::store_element<float>(args.sum, i, core::load_element<float>(args.sum, i) + value);
  });
}

/// Reduces a tile's worth of values at a time; blocks divide tiles.
void decode_add_encode(const LloydParameters& parameters, const DecodeAddEncodeArgs& args) {
  const LloydParameters part = parameters_of_parts(parameters);
  std::vector<std::vector<float>> parts(args.wires.size());
  for (std::size_t k = 0; k < parts.size(); ++k) {
    parts[k].resize(args.count);
    for_each_decoded(part, args.wires[k], args.count,
                     [&](std::size_t i, float value) { parts[k][i] = value; });
  }
  std::vector<float> sums(args.count);
  for (std::size_t i = 0; i < args.count; ++i) {
    const float sum = core::reduce_in_order<ReduceOp::kSum>(
        parts.size(), args.own_position, [&](std::size_t k) { return parts[k][i]; },
        [&] { return core::load_wide(parameters.dtype, args.values, i); });
    sums[i] = args.divisor == 1 ? sum : core::divide(sum, args.divisor);
  }
  if (args.wire != nullptr) {
    encode_values(parameters, args.count, Output{core::output_of(args), args.form},
                  [&](std::size_t i) { return sums[i]; });
    return;
  }
  for (std::size_t i = 0; i < args.count; ++i)
    core::store_wide(parameters.dtype, args.decoded, i, sums[i]);
}

}  // namespace

const KernelTable<LloydParameters>& reference_kernels() {
  static constexpr KernelTable<LloydParameters> kTable{encode, decode, decode_add,
                                                       decode_add_encode};
  return kTable;
}

}  // namespace ringpress::compress_kernels::lloyd
