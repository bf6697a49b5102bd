// What the registry knows of the codec. In compress_kernels/ the line
//
//   RINGPRESS_CODEC(fixed, fixed, 8)
//
// of codecs.inc is all that makes it one that users can name.
#include <cmath>
#include <string_view>
#include <utility>

#include "compress_kernels/codec_family.h"
#include "tests/examples/codec/fixed.h"

namespace ringpress::compress_kernels::fixed {
namespace {

bool accepts_shift(std::string_view text) {
  return text.size() == 1 && text[0] >= '0' && text[0] <= '9';
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry&,
                            const ParameterValues& values) {
  FixedParameters parameters;
  parameters.steps = std::ldexp(1.0f, static_cast<int>(values.number("shift")));
  parameters.dtype = identity.dtype;
  // Kernels for vectors would be the last argument: cast/cast_host.cc is the smallest example.
  return make_kernel_codec(std::move(identity), parameters, reference_kernels());
}

/// What lies beyond the largest code loses all that is above it.
ErrorBound error_bound(const CodecEntry&, const ParameterValues& values) {
  ErrorBound bound;
  bound.of_value = 1;
  bound.absolute = std::ldexp(0.5, -static_cast<int>(values.number("shift")));
  return bound;
}

}  // namespace

/// In compress_kernels/ it also has plan_for_device = plan_of<DeviceFamilyId::kFixed, ...>, and its
/// id is a line of device_families.inc.
const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .parameters = {{"shift", "6", "a digit", accepts_shift}},
      .make = make,
      .error_bound = error_bound,
      .variants = {"shift=3"},
      .examples = {{"fixed", "values of one size that is known"}},
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::fixed
