// qsgd: one grid of 1 to 8 bits and a sign.
#include "compress_kernels/codec_family.h"
#include "compress_kernels/qsgd/options.h"
#include "compress_kernels/qsgd/qsgd_codec.h"

namespace ringpress::compress_kernels::qsgd {
namespace {

bool accepts_bits(std::string_view text) {
  return text.size() == 1 && text[0] >= '1' && text[0] <= '8';
}

Parameters grid_of(const CodecEntry&, const ParameterValues& values, DType dtype) {
  Parameters parameters = parameters_of(values);
  parameters.dtype = dtype;
  parameters.steps[0] = steps_of(static_cast<int>(values.number("bits")));
  return parameters;
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry& entry,
                            const ParameterValues& values) {
  const Parameters parameters = grid_of(entry, values, identity.dtype);
  return make_qsgd_codec(std::move(identity), parameters);
}

ErrorBound error_bound(const CodecEntry&, const ParameterValues& values) {
  return bound_of(values, steps_of(static_cast<int>(values.number("bits"))));
}

/// With 1 bit the step is the norm.
bool refuses_feedback(const CodecEntry&, const ParameterValues& values) {
  return values.number("bits") == 1;
}

/// What is rounded towards zero on a grid of one step is zero: all but what equals the norm.
Status settle_width(const CodecEntry&, ParameterValues& values) {
  if (values.number("bits") == 1 && values.text("round") == "zero") {
    return Status(
        Code::kInvalidArgument,
        "codec parameter bits=1: round=zero takes 2 to 8, it would send zeros (maybe 2?)");
  }
  return settle(values);
}

FeedbackNeed feedback_need(const CodecEntry&, const ParameterValues& values) {
  return values.text("round") == "zero" ? FeedbackNeed::kNeeded : FeedbackNeed::kNone;
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .parameters = rules_with({"bits", "4", "a whole number from 1 to 8", accepts_bits}),
      .settle = settle_width,
      .make = make,
      .error_bound = error_bound,
      .refuses_feedback = refuses_feedback,
      .feedback_need = feedback_need,
      .plan_for_device = plan_of<DeviceFamilyId::kQsgd, grid_of>,
      .unbiased = "round=stochastic",
      .variants = {"bits=1,block=32", "bits=2,round=zero", "bits=8,block=1024",
                   "bits=5,norm=global", "bits=8,norm=global,round=zero"},
      .examples =
          {
              {"qsgd", "sums that must be exact in the codes: unbiased, the same in any order"},
              {"qsgd:round=zero", "as `qsgd`, encoded faster; biased, for error feedback"},
          },
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::qsgd
