// From a specification string to a codec object.
#include <memory>
#include <utility>

#include "compress_kernels/cast/cast.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/isa.h"
#include "compress_kernels/none/none.h"
#include "compress_kernels/specification.h"
#include "compress_kernels/uniform/uniform.h"

namespace ringpress::compress_kernels {
namespace {

bool is_sum(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kAvg;
}

template <typename Parameters>
std::unique_ptr<Codec> make(CodecIdentity identity, const Parameters& parameters,
                            const KernelTable<Parameters>& reference,
                            const KernelTable<Parameters>* (*simd)(std::int64_t)) {
  const std::int64_t target = selected_isa().target;
  const KernelTable<Parameters>* kernels = target == kScalarTarget ? nullptr : simd(target);
  return std::make_unique<KernelCodec<Parameters>>(std::move(identity), parameters,
                                                   kernels != nullptr ? *kernels : reference);
}

std::unique_ptr<Codec> make_cast(CodecIdentity identity, DType wire) {
  identity.traits.identity = wire == identity.dtype;
  identity.traits.lossless = wire == identity.dtype;
  const CastParameters parameters{wire, identity.dtype};
  return make(std::move(identity), parameters, cast::reference_kernels(), cast::simd_kernels);
}

std::unique_ptr<Codec> make_none(CodecIdentity identity) {
  if (is_compressible(identity.dtype) && is_sum(identity.op)) {
    const DType wire = identity.dtype;
    return make_cast(std::move(identity), wire);
  }
  identity.traits.identity = true;
  identity.traits.lossless = true;
  const NoneParameters parameters{identity.dtype, identity.op};
  return make(std::move(identity), parameters, none::reference_kernels(), none::simd_kernels);
}

std::unique_ptr<Codec> make_uniform(CodecIdentity identity, UniformParameters parameters) {
  parameters.dtype = identity.dtype;
  identity.traits.deterministic = parameters.rounding == Rounding::kNearest;
  return make(std::move(identity), parameters, uniform::reference_kernels(), uniform::simd_kernels);
}

Status check_supported(const Specification& specification, DType dtype, ReduceOp op) {
  if (specification.codec.family == Family::kNone) return Status::ok();
  const std::string name(specification.codec.name);
  if (!is_compressible(dtype)) {
    return Status(
        Code::kUnsupported,
        "codec " + name + " takes float32, float16 and bfloat16, not " + dtype_name(dtype));
  }
  if (!is_sum(op)) {
    return Status(Code::kUnsupported,
                  "codec " + name + " takes sum and avg, not " + reduce_op_name(op));
  }
  return Status::ok();
}

}  // namespace

Result<std::unique_ptr<Codec>> make_codec(const std::string& specification, DType dtype,
                                          ReduceOp op) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  RINGPRESS_RETURN_IF_ERROR(check_supported(parsed, dtype, op));
  CodecIdentity identity;
  identity.specification = to_string(parsed);
  identity.dtype = dtype;
  identity.op = op;
  switch (parsed.codec.family) {
    case Family::kNone:
      return make_none(std::move(identity));
    case Family::kCastFloat16:
      return make_cast(std::move(identity), DType::kFloat16);
    case Family::kCastBfloat16:
      return make_cast(std::move(identity), DType::kBfloat16);
    case Family::kUniform:
      return make_uniform(std::move(identity), parsed.uniform);
  }
  return Status(Code::kInternal, "codec family without a maker");
}

Result<std::string> normalize_specification(const std::string& specification) {
  RINGPRESS_ASSIGN_OR_RETURN(const Specification parsed, parse_specification(specification));
  return to_string(parsed);
}

std::vector<std::string_view> codec_names() {
  std::vector<std::string_view> names;
  for (const CodecEntry& codec : codec_list()) names.push_back(codec.name);
  return names;
}

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Isa& isa : isa_list()) names.push_back(isa.name);
  return names;
}

Status force_isa(const std::string& name) {
  return select_isa(name);
}

}  // namespace ringpress::compress_kernels
