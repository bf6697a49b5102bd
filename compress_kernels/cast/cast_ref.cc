// The specification of fp16 and bf16 (and of the sums of "none" on compressible types) as code.
#include "compress_kernels/cast/cast.h"

#include <cstring>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/reduce.h"

namespace ringpress::compress_kernels::cast {
namespace {

/// Encodes one value, adding the residual first. Args: EncodeArgs or DecodeAddEncodeArgs.
template <typename Args>
void encode_element(const CastParameters& parameters, const Args& args, std::size_t i, float x) {
  if (args.residual != nullptr) x += core::load_element<float>(args.residual, i);
  core::store_wide(parameters.wire, args.wire, i, x);
  const float value = core::load_wide(parameters.wire, args.wire, i);
  if (args.residual != nullptr && core::is_finite(x - value)) {
    core::store_element<float>(args.residual, i, x - value);
  }
  if (args.decoded != nullptr) core::store_wide(parameters.dtype, args.decoded, i, value);
}

float load_own(const CastParameters& parameters, const void* values, double input_scale,
               std::size_t i) {
  const float value = core::load_wide(parameters.dtype, values, i);
  return input_scale == 1 ? value
                          : core::apply_scale(value, core::convert_scale<float>(input_scale));
}

/// Where the wire type is the element type and nothing is to be computed, every bit stays.
void copy(const CastParameters& parameters, const void* from, void* to, std::size_t count) {
  if (to != nullptr) std::memmove(to, from, encoded_bytes(parameters, count));
}

void encode(const CastParameters& parameters, const EncodeArgs& args) {
  if (parameters.wire == parameters.dtype && args.residual == nullptr && args.input_scale == 1) {
    copy(parameters, args.values, args.wire, args.count);
    copy(parameters, args.values, args.decoded, args.count);
    return;
  }
  for (std::size_t i = 0; i < args.count; ++i) {
    encode_element(parameters, args, i, load_own(parameters, args.values, args.input_scale, i));
  }
}

void decode(const CastParameters& parameters, const DecodeArgs& args) {
  if (parameters.wire == parameters.dtype) {
    copy(parameters, args.wire, args.values, args.count);
    return;
  }
  for (std::size_t i = 0; i < args.count; ++i) {
    core::store_wide(parameters.dtype, args.values, i,
                     core::load_wide(parameters.wire, args.wire, i));
  }
}

void decode_add(const CastParameters& parameters, const DecodeAddArgs& args) {
  for (std::size_t i = 0; i < args.count; ++i) {
    const float sum = core::load_element<float>(args.sum, i);
    core::store_element<float>(args.sum, i, sum + core::load_wide(parameters.wire, args.wire, i));
  }
}

void decode_add_encode(const CastParameters& parameters, const DecodeAddEncodeArgs& args) {
  for (std::size_t i = 0; i < args.count; ++i) {
    const float sum = core::reduce_in_order<ReduceOp::kSum>(
        args.wires.size(), args.own_position,
        [&](std::size_t k) { return core::load_wide(parameters.wire, args.wires[k], i); },
        [&] { return load_own(parameters, args.values, args.input_scale, i); });
    const float x = args.divisor == 1 ? sum : core::divide(sum, args.divisor);
    if (args.wire != nullptr) {
      encode_element(parameters, args, i, x);
    } else {
      core::store_wide(parameters.dtype, args.decoded, i, x);
    }
  }
}

}  // namespace

const KernelTable<CastParameters>& reference_kernels() {
  static constexpr KernelTable<CastParameters> kTable{encode, decode, decode_add,
                                                      decode_add_encode};
  return kTable;
}

}  // namespace ringpress::compress_kernels::cast
