#include "compress_kernels/cast/cast.h"
#include "compress_kernels/codec_family.h"

namespace ringpress::compress_kernels::cast {
namespace {

CastParameters parameters_of(const CodecEntry& entry, const ParameterValues&, DType dtype) {
  return {entry.name == "fp16" ? DType::kFloat16 : DType::kBfloat16, dtype};
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry& entry,
                            const ParameterValues& values) {
  const CastParameters parameters = parameters_of(entry, values, identity.dtype);
  identity.traits.identity = parameters.wire == identity.dtype;
  identity.traits.lossless = parameters.wire == identity.dtype;
  return make_kernel_codec(std::move(identity), parameters, reference_kernels(), simd_kernels);
}

ErrorBound error_bound(const CodecEntry& entry, const ParameterValues&) {
  ErrorBound bound;
  bound.of_value = entry.name == "fp16" ? 0x1p-11 : 0x1p-8;
  bound.absolute = entry.name == "fp16" ? 0x1p-25 : 0x1p-133;
  return bound;
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .make = make,
      .error_bound = error_bound,
      .plan_for_device = plan_of<DeviceFamilyId::kCast, parameters_of>,
      .examples = {{"fp16", "float32 values below 65504 that need 11 bits"},
                   {"bf16", "half the bytes of float32 at no risk of overflow"}},
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::cast
