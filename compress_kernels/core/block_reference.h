// The four operations of a codec with one scale per block as plain loops. A format says how one
// block is encoded and one element decoded:
//
//   Format(parameters, count)
//   void clear(wire)                        before the first block
//   void encode(Block, random, wire)
//   float decode(wire, index)
//
// `parameters` has the members `block` and `dtype`.
#ifndef COMPRESS_KERNELS_CORE_BLOCK_REFERENCE_H_
#define COMPRESS_KERNELS_CORE_BLOCK_REFERENCE_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/encode_output.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::core {

/// The values of one block: those from element `first` of the chunk on.
struct Block {
  std::size_t first = 0;
  std::size_t count = 0;
  const float* x = nullptr;
};

template <typename Parameters, typename Format>
class BlockReference {
 public:
  static constexpr KernelTable<Parameters> table() {
    return {encode, decode, decode_add, decode_add_encode};
  }

 private:
  /// Encodes the values that value(index) gives; adds the residual first.
  template <typename Value>
  static void encode_values(const Parameters& parameters, std::size_t count,
                            const EncodeOutput& output, Value&& value) {
    const Format format(parameters, count);
    format.clear(output.wire);
    std::vector<float> x(parameters.block);
    for (std::size_t first = 0; first < count; first += parameters.block) {
      const Block block{first, std::min(parameters.block, count - first), x.data()};
      for (std::size_t i = 0; i < block.count; ++i) {
        x[i] = value(first + i);
        if (output.residual != nullptr) x[i] += load_element<float>(output.residual, first + i);
      }
      format.encode(block, output.random, output.wire);
      finish_block(parameters, format, block, output);
    }
  }

  static void finish_block(const Parameters& parameters, const Format& format, const Block& block,
                           const EncodeOutput& output) {
    for (std::size_t i = 0; i < block.count; ++i) {
      const std::size_t index = block.first + i;
      const float value = format.decode(output.wire, index);
      if (output.residual != nullptr) {
        const float old = load_element<float>(output.residual, index);
        store_element<float>(output.residual, index, new_residual(block.x[i], value, old));
      }
      if (output.decoded != nullptr) store_wide(parameters.dtype, output.decoded, index, value);
    }
  }

  static void encode(const Parameters& parameters, const EncodeArgs& args) {
    const EncodeOutput output = output_of(args);
    encode_values(parameters, args.count, output,
                  [&](std::size_t i) { return load_wide(parameters.dtype, args.values, i); });
  }

  static void decode(const Parameters& parameters, const DecodeArgs& args) {
    const Format format(parameters, args.count);
    for (std::size_t i = 0; i < args.count; ++i) {
      store_wide(parameters.dtype, args.values, i, format.decode(args.wire, i));
    }
  }

  static void decode_add(const Parameters& parameters, const DecodeAddArgs& args) {
    const Format format(parameters, args.count);
    for (std::size_t i = 0; i < args.count; ++i) {
      const float value = format.decode(args.wire, i);
      store_element<float>(args.sum, i, load_element<float>(args.sum, i) + value);
    }
  }

  static void decode_add_encode(const Parameters& parameters, const DecodeAddEncodeArgs& args) {
    const Format format(parameters, args.count);
    const auto value = [&](std::size_t i) {
      const float sum = reduce_in_order<ReduceOp::kSum>(
          args.wires.size(), args.own_position,
          [&](std::size_t k) { return format.decode(args.wires[k], i); },
          [&] { return load_wide(parameters.dtype, args.values, i); });
      return args.divisor == 1 ? sum : divide(sum, args.divisor);
    };
    if (args.wire != nullptr) {
      const EncodeOutput output = output_of(args);
      encode_values(parameters, args.count, output, value);
      return;
    }
    for (std::size_t i = 0; i < args.count; ++i)
      store_wide(parameters.dtype, args.decoded, i, value(i));
  }
};

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_BLOCK_REFERENCE_H_
