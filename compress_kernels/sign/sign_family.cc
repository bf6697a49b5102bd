// sign: one bit per value and the mean magnitude of each block (Bernstein et al., signSGD, 2018;
// with a scale and error feedback: Karimireddy et al., 2019). The kernels and the wire bytes are
// those of the one-bit uniform grid; large blocks make the scale free.
#include "compress_kernels/codec_family.h"
#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/uniform/uniform.h"

namespace ringpress::compress_kernels::sign {
namespace {

UniformParameters parameters_of(const CodecEntry&, const ParameterValues& values, DType dtype) {
  UniformParameters parameters;
  parameters.bits = 1;
  parameters.block = values.number("block");
  parameters.dtype = dtype;
  return parameters;
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry& entry,
                            const ParameterValues& values) {
  const UniformParameters parameters = parameters_of(entry, values, identity.dtype);
  return make_kernel_codec(std::move(identity), parameters, uniform::reference_kernels(),
                           uniform::simd_kernels);
}

/// A value's error is at most the larger of the scale and the largest magnitude minus it.
ErrorBound error_bound(const CodecEntry&, const ParameterValues& values) {
  ErrorBound bound;
  bound.block = values.number("block");
  bound.of_value = 0x1p-8;
  bound.of_magnitude = 1 + 0x1p-7;
  bound.absolute = 0x1p-100;
  return bound;
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .parameters = {{"block", "1024", "a power of two from 32 to 1024", is_block}},
      .make = make,
      .error_bound = error_bound,
      .feedback_need = always_needs_feedback,
      .plan_for_device = plan_of<DeviceFamilyId::kUniform, parameters_of>,
      .variants = {"block=64"},
      .examples = {{"sign", "the slowest links: a thirtieth of the bytes"}},
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::sign
