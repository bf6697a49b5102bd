#include "compress_kernels/core/projecting_codec.h"

#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/reduce.h"

namespace ringpress::compress_kernels::core {

void load_chunk(const ChunkValues& values, float* floats) {
  for_each_value(values.dtype, values.values, values.count,
                 [&](std::size_t i, float value) { floats[i] = value; });
  if (values.residual == nullptr) return;
  for (std::size_t i = 0; i < values.count; ++i) {
    floats[i] += load_element<float>(values.residual, i);
  }
}

void store_chunk(const float* floats, std::size_t count, DType dtype, void* elements) {
  store_values(dtype, elements, count, [&](std::size_t i) { return floats[i]; });
}

std::size_t ProjectingCodec::encode(const EncodeArgs& args) const {
  if (args.count == 0) return 0;
  encode_chunk({args.values, args.count, dtype(), args.residual}, args.random, args.wire,
               args.residual, args.decoded);
  return encoded_bytes(args.count);
}

void ProjectingCodec::decode(const DecodeArgs& args) const {
  if (args.count > 0) decode_chunk(args.wire, args.count, dtype(), args.values);
}

void ProjectingCodec::decode_add(const DecodeAddArgs& args) const {
  if (args.count == 0) return;
  std::vector<float> values(args.count);
  decode_chunk(args.wire, args.count, DType::kFloat32, values.data());
  for (std::size_t i = 0; i < args.count; ++i) {
    store_element<float>(args.sum, i, load_element<float>(args.sum, i) + values[i]);
  }
}

std::size_t ProjectingCodec::decode_add_encode(const DecodeAddEncodeArgs& args) const {
  if (args.count == 0) return 0;
  std::vector<float> sum(args.count);
  std::vector<float> next(args.count);
  for (std::size_t position = 0; position <= args.wires.size(); ++position) {
    float* term = position == 0 ? sum.data() : next.data();
    if (position == args.own_position) {
      load_chunk({args.values, args.count, dtype(), nullptr}, term);
    } else {
      const std::size_t k = position > args.own_position ? position - 1 : position;
      decode_chunk(args.wires[k], args.count, DType::kFloat32, term);
    }
    if (position == 0) continue;
    for (std::size_t i = 0; i < args.count; ++i) sum[i] += next[i];
  }
  if (args.divisor != 1) {
    for (float& value : sum) value = divide(value, args.divisor);
  }
  if (args.wire == nullptr) {
    store_chunk(sum.data(), args.count, dtype(), args.decoded);
    return 0;
  }
  encode_chunk({sum.data(), args.count, DType::kFloat32, args.residual}, args.random, args.wire,
               args.residual, args.decoded);
  return encoded_bytes(args.count);
}

}  // namespace ringpress::compress_kernels::core
