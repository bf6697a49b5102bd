#include "compress_kernels/cast/cast.h"
#include "compress_kernels/codec_family.h"
#include "compress_kernels/none/none.h"

namespace ringpress::compress_kernels::none {
namespace {

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry&, const ParameterValues&) {
  identity.traits.identity = true;
  identity.traits.lossless = true;
  if (is_compressible(identity.dtype) && is_sum(identity.op)) {
    const CastParameters parameters{identity.dtype, identity.dtype};
    return make_kernel_codec(std::move(identity), parameters, cast::reference_kernels(),
                             cast::simd_kernels);
  }
  const NoneParameters parameters{identity.dtype, identity.op};
  return make_kernel_codec(std::move(identity), parameters, reference_kernels(), simd_kernels);
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .make = make,
      .error_bound = [](const CodecEntry&, const ParameterValues&) { return ErrorBound{}; },
      .takes_everything = true,
      .unbiased = "",
      .examples = {{"none", "fast networks, small messages; sums are exact"}},
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::none
