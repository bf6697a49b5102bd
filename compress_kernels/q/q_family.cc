// q1 .. q8: B bits per value on one of several grids, each with kernels in a folder of its own.
#include "compress_kernels/codec_family.h"
#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/q/device_kernels.h"
#include "compress_kernels/q/regridding_codec.h"
#include "compress_kernels/q/wider_forms.h"
#include "compress_kernels/uniform/uniform.h"

namespace ringpress::compress_kernels::q {
namespace {

UniformParameters uniform_parameters(const CodecEntry& entry, const ParameterValues& values) {
  UniformParameters parameters;
  parameters.bits = entry.bits;
  parameters.grid = values.text("grid") == "uniform" ? Grid::kUniform : Grid::kMinMax;
  parameters.block = values.number("block");
  parameters.rounding =
      values.text("round") == "nearest" ? Rounding::kNearest : Rounding::kStochastic;
  parameters.fits = entry.bits <= core::kMostFittedBits && values.text("scale") != "largest";
  return parameters;
}

/// Picks the kernels of the selected instruction set.
template <typename Parameters>
std::unique_ptr<Codec> make_with(CodecIdentity identity, const Parameters& parameters,
                                 const ParameterValues& values,
                                 const KernelTable<Parameters>& reference,
                                 const KernelTable<Parameters>* (*simd)(std::int64_t)) {
  if (values.text("partial") == "same") {
    return make_kernel_codec(std::move(identity), parameters, reference, simd);
  }
  return make_kernel_codec<WiderForms>(std::move(identity), parameters, reference, simd);
}

std::unique_ptr<Codec> make_regridding(CodecIdentity identity,
                                       const UniformParameters& parameters) {
  identity.traits.deterministic = false;  // Sums are rotated at random.
  return std::make_unique<RegriddingCodec>(
      std::move(identity), parameters,
      selected_kernels(uniform::reference_kernels(), uniform::simd_kernels),
      selected_kernels(lloyd::reference_kernels(), lloyd::simd_kernels));
}

bool is_lloyd(const ParameterValues& values) {
  return values.text("grid") == "lloyd";
}

LloydParameters lloyd_parameters(const CodecEntry& entry, const ParameterValues& values) {
  LloydParameters parameters;
  parameters.bits = entry.bits;
  parameters.block = values.number("block");
  parameters.rotates = values.text("rotate") == "1";
  parameters.unbiased = values.text("round") == "stochastic";
  return parameters;
}

std::unique_ptr<Codec> make_lloyd(CodecIdentity identity, const CodecEntry& entry,
                                  const ParameterValues& values) {
  LloydParameters parameters = lloyd_parameters(entry, values);
  parameters.dtype = identity.dtype;
  identity.traits.deterministic = !parameters.rotates;
  return make_with(std::move(identity), parameters, values, lloyd::reference_kernels(),
                   lloyd::simd_kernels);
}

Status settle_lloyd(ParameterValues& values) {
  if (values.text("block").empty()) values.set("block", "1024");
  if (values.text("rotate").empty()) values.set("rotate", "1");
  const bool unbiased = values.text("round") == "stochastic";
  const std::size_t smallest = unbiased ? kSmallestUnbiasedLloydBlock : kSmallestLloydBlock;
  if (values.number("block") < smallest) {
    return Status(Code::kInvalidArgument,
                  "codec parameter block=" + values.text("block") + ": grid=lloyd" +
                      (unbiased ? ",round=stochastic" : "") + " takes a power of two from " +
                      std::to_string(smallest) + " to 1024 (maybe " + std::to_string(smallest) +
                      "?)");
  }
  if (values.text("rotate") == "0" && unbiased) {
    return Status(
        Code::kInvalidArgument,
        "codec parameter round=stochastic: grid=lloyd needs rotate=1 for it (maybe rotate=1?)");
  }
  return Status::ok();
}

/// There is a choice of scales where codes are few and rounded to nearest.
Status settle_scale(const CodecEntry& entry, ParameterValues& values) {
  const std::string scale = values.text("scale");
  if (scale.empty()) return Status::ok();
  const bool is_fitted = values.text("round") == "nearest" && entry.bits <= core::kMostFittedBits;
  const bool has_scales = values.text("grid") == "uniform" && entry.bits > 1;
  if (!has_scales || (scale == "fit" && !is_fitted)) {
    return Status(Code::kInvalidArgument, "codec parameter scale=" + scale +
                                              ": only q2 to q6 with grid=uniform,round=nearest "
                                              "have a choice (maybe leave it out?)");
  }
  if (scale == "fit" || !is_fitted) values.set("scale", "");
  return Status::ok();
}

/// Fills in the defaults that depend on the grid. What is usual is left out of the specification.
Status settle(const CodecEntry& entry, ParameterValues& values) {
  RINGPRESS_RETURN_IF_ERROR(settle_scale(entry, values));
  if (values.text("partial") == "wide") values.set("partial", "");
  if (is_lloyd(values)) return settle_lloyd(values);
  if (values.text("block").empty()) values.set("block", "128");
  if (values.text("rotate") == "1") {
    return Status(Code::kInvalidArgument,
                  "codec parameter rotate=1: only grid=lloyd rotates (maybe grid=lloyd,rotate=1?)");
  }
  values.set("rotate", "");
  return Status::ok();
}

/// Other levels than minmax's would lose what makes it: the offset of each block.
bool is_regridded(const UniformParameters& parameters) {
  return parameters.bits == 2 && parameters.grid == Grid::kUniform;
}

std::unique_ptr<Codec> make(CodecIdentity identity, const CodecEntry& entry,
                            const ParameterValues& values) {
  if (is_lloyd(values)) return make_lloyd(std::move(identity), entry, values);
  UniformParameters parameters = uniform_parameters(entry, values);
  parameters.dtype = identity.dtype;
  identity.traits.deterministic = parameters.rounding == Rounding::kNearest;
  if (is_regridded(parameters) && values.text("partial") != "same") {
    return make_regridding(std::move(identity), parameters);
  }
  return make_with(std::move(identity), parameters, values, uniform::reference_kernels(),
                   uniform::simd_kernels);
}

DeviceParameters device_parameters_of(const CodecEntry& entry, const ParameterValues& values,
                                      DType dtype) {
  DeviceParameters parameters;
  const bool wide = values.text("partial") != "same";
  parameters.partial_sums = wide ? PartialSums::kWider : PartialSums::kSame;
  parameters.is_lloyd = is_lloyd(values);
  if (parameters.is_lloyd) {
    parameters.lloyd = lloyd_parameters(entry, values);
    return parameters;
  }
  parameters.uniform = uniform_parameters(entry, values);
  parameters.uniform.dtype = dtype;
  if (wide && is_regridded(parameters.uniform)) parameters.partial_sums = PartialSums::kRegridded;
  return parameters;
}

/// See uniform.h. Units are rounded up to 8 significant bits.
ErrorBound error_bound(const CodecEntry& entry, const ParameterValues& values) {
  if (is_lloyd(values)) {
    ErrorBound bound;
    bound.block = values.number("block");
    // Nearest: the scale has the least squared error, and zero is a scale. Unbiased: 1 / cos^2 - 1
    // of the angle between values and levels, which is at least 1 / block.
    bound.of_norm = values.text("round") == "stochastic" ? 32 : 1;
    bound.absolute = 0x1p-100;
    return bound;
  }
  constexpr double kScale = 1 + 0x1p-7;
  const UniformParameters parameters = uniform_parameters(entry, values);
  const bool is_stochastic = parameters.rounding == Rounding::kStochastic;
  double steps = is_stochastic ? 1.0 : 0.5;
  if (takes_fit(parameters)) steps = fitted_steps(parameters.bits, parameters.block);
  ErrorBound bound;
  bound.block = parameters.block;
  bound.of_value = 0x1p-8;
  bound.absolute = 0x1p-100;
  if (parameters.grid == Grid::kMinMax) {
    bound.of_magnitude = 0x1p-20;
    bound.of_range = steps / core::minmax_levels(parameters.bits) * kScale;
  } else if (parameters.bits == 1) {
    bound.of_magnitude = is_stochastic ? 2 * kScale : kScale;
  } else {
    bound.of_magnitude = steps / core::uniform_levels(parameters.bits) * kScale;
  }
  return bound;
}

/// Unbiased on levels so few that a step is the largest magnitude, or twice that.
bool refuses_feedback(const CodecEntry& entry, const ParameterValues& values) {
  if (values.text("round") != "stochastic") return false;
  return entry.bits == 1 || (entry.bits == 2 && values.text("grid") == "uniform");
}

FeedbackNeed feedback_need(const CodecEntry& entry, const ParameterValues& values) {
  if (values.text("round") == "stochastic" || entry.bits >= 8) return FeedbackNeed::kNone;
  return entry.bits <= 2 ? FeedbackNeed::kNeeded : FeedbackNeed::kAdvised;
}

}  // namespace

const CodecFamily& family() {
  static const CodecFamily& kFamily = *new CodecFamily{
      .parameters =
          {
              {"block", "", "a power of two from 32 to 1024", is_block},
              {"grid", "uniform", "lloyd, minmax or uniform"},
              {"partial", "", "same or wide"},
              {"rotate", "", "0 or 1"},
              {"round", "nearest", "nearest or stochastic"},
              {"scale", "", "fit or largest"},
          },
      .settle = settle,
      .make = make,
      .error_bound = error_bound,
      .refuses_feedback = refuses_feedback,
      .feedback_need = feedback_need,
      .plan_for_device = plan_of<DeviceFamilyId::kQ, device_parameters_of>,
      .unbiased = "round=stochastic",
      .variants = {"block=32", "block=1024,round=stochastic", "grid=minmax",
                   "block=64,grid=minmax,round=stochastic", "grid=lloyd", "block=64,grid=lloyd",
                   "grid=lloyd,round=stochastic", "block=128,grid=lloyd,rotate=0"},
      .examples =
          {
              {"q8", "nearly exact at a quarter of the bytes"},
              {"q7", "an eighth smaller than `q8`"},
              {"q6", "between `q8` and `q4`"},
              {"q5", "between `q8` and `q4`"},
              {"q4", "the default of `auto`"},
              {"q4:grid=minmax", "values that are far from zero"},
              {"q4:grid=lloyd", "heavy tails; links slow enough to hide its arithmetic"},
              {"q4:grid=lloyd,round=stochastic", "without a residual: unbiased"},
              {"q3", "a quarter smaller than `q4`"},
              {"q3:grid=lloyd",
               "heavy tails: as accurate as `q4:grid=minmax,block=1024`, a quarter smaller"},
              {"q2", "as `q2:grid=lloyd`, encoded twice as fast; loses more"},
              {"q2:grid=lloyd", "slow links"},
              {"q1", "as `sign`, in blocks of 128"},
              {"q1:grid=lloyd", "the slowest links, where `sign` loses too much"},
          },
  };
  return kFamily;
}

}  // namespace ringpress::compress_kernels::q
