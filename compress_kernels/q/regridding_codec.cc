#include "compress_kernels/q/regridding_codec.h"

#include <algorithm>
#include <memory_resource>
#include <utility>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/q/regridding_parameters.h"
#include "compress_kernels/q/wider_forms.h"

namespace ringpress::compress_kernels::q {
namespace {

/// sum += values, or = if they are the first.
void add_values(DType dtype, const void* values, std::size_t count, bool is_first, float* sum) {
  core::for_each_value(dtype, values, count, [&](std::size_t i, float value) {
    sum[i] = is_first ? value : sum[i] + value;
  });
}

}  // namespace

RegriddingCodec::RegriddingCodec(CodecIdentity identity, const UniformParameters& parameters,
                                 const KernelTable<UniformParameters>& kernels,
                                 const KernelTable<LloydParameters>& sum_kernels)
    : IdentifiedCodec(std::move(identity)),
      parameters_(parameters),
      kernels_(kernels),
      sum_kernels_(sum_kernels) {}

LloydParameters RegriddingCodec::sum_parameters(Contributions form) const {
  return q::sum_parameters(parameters_, form);
}

template <typename Call>
void RegriddingCodec::with_grid(DType dtype, Contributions form, Call&& call) const {
  if (is_partial_sum(form)) {
    LloydParameters parameters = sum_parameters(form);
    parameters.dtype = dtype;
    call(sum_kernels_, parameters);
  } else {
    UniformParameters parameters = parameters_;
    parameters.dtype = dtype;
    call(kernels_, parameters);
  }
}

void RegriddingCodec::encode_from(DType dtype, const EncodeArgs& args) const {
  if (args.count == 0) return;
  with_grid(dtype, args.form,
            [&](const auto& kernels, const auto& parameters) { kernels.encode(parameters, args); });
}

void RegriddingCodec::decode_to(DType dtype, const DecodeArgs& args) const {
  if (args.count == 0) return;
  with_grid(dtype, args.form,
            [&](const auto& kernels, const auto& parameters) { kernels.decode(parameters, args); });
}

std::size_t RegriddingCodec::wire_bytes(std::size_t count, Contributions form) const {
  return is_partial_sum(form) ? encoded_bytes(sum_parameters(form), count)
                              : encoded_bytes(parameters_, count);
}

std::size_t RegriddingCodec::encode(const EncodeArgs& args) const {
  encode_from(dtype(), args);
  return wire_bytes(args.count, args.form);
}

void RegriddingCodec::decode(const DecodeArgs& args) const {
  decode_to(dtype(), args);
}

void RegriddingCodec::decode_add(const DecodeAddArgs& args) const {
  if (args.count == 0) return;
  with_grid(dtype(), args.form, [&](const auto& kernels, const auto& parameters) {
    kernels.decode_add(parameters, args);
  });
}

std::size_t RegriddingCodec::decode_add_encode(const DecodeAddEncodeArgs& args) const {
  const Contributions part{args.wire_contributions, args.form.world};
  const bool from_sums = is_partial_sum(part);
  const bool to_sums = is_partial_sum(args.form);
  if (args.count > 0 && from_sums != to_sums) {
    convert(args);
  } else if (args.count > 0 && to_sums) {
    LloydParameters parameters = sum_parameters(args.form);
    parameters.part_bits = sum_parameters(part).bits;
    sum_kernels_.decode_add_encode(parameters, args);
  } else if (args.count > 0) {
    kernels_.decode_add_encode(parameters_, args);
  }
  return args.wire == nullptr ? 0 : wire_bytes(args.count, args.form);
}

void RegriddingCodec::convert(const DecodeAddEncodeArgs& args) const {
  std::pmr::vector<float> sum(args.count, args.memory);
  add_up(args, sum.data());
  if (args.wire == nullptr) {
    core::store_values(parameters_.dtype, args.decoded, args.count,
                       [&](std::size_t i) { return sum[i]; });
    return;
  }
  EncodeArgs encoding;
  encoding.values = sum.data();
  encoding.count = args.count;
  encoding.residual = args.residual;
  encoding.wire = args.wire;
  encoding.random = args.random;
  encoding.form = args.form;
  encode_from(DType::kFloat32, encoding);
  if (args.decoded == nullptr) return;
  DecodeArgs decoding;
  decoding.wire = args.wire;
  decoding.wire_size = wire_bytes(args.count, args.form);
  decoding.count = args.count;
  decoding.values = args.decoded;
  decoding.form = args.form;
  decode(decoding);
}

void RegriddingCodec::add_up(const DecodeAddEncodeArgs& args, float* sum) const {
  const Contributions form{args.wire_contributions, args.form.world};
  for (std::size_t position = 0; position <= args.wires.size(); ++position) {
    const std::size_t index = position > args.own_position ? position - 1 : position;
    if (position == args.own_position) {
      add_values(parameters_.dtype, args.values, args.count, position == 0, sum);
    } else if (position == 0) {
      DecodeArgs part;
      part.wire = args.wires[index];
      part.count = args.count;
      part.values = sum;
      part.form = form;
      decode_to(DType::kFloat32, part);
    } else {
      DecodeAddArgs part;
      part.wire = args.wires[index];
      part.count = args.count;
      part.sum = sum;
      part.form = form;
      decode_add(part);
    }
  }
  if (args.divisor == 1) return;
  for (std::size_t i = 0; i < args.count; ++i) sum[i] = core::divide(sum[i], args.divisor);
}

}  // namespace ringpress::compress_kernels::q
