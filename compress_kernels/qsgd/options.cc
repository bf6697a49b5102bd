#include "compress_kernels/qsgd/options.h"

namespace ringpress::compress_kernels::qsgd {

std::vector<ParameterRule> rules_with(const ParameterRule& bits) {
  return {bits,
          {"block", "", "a power of two from 32 to 1024", is_block},
          {"norm", "bucket", "bucket or global"},
          {"round", "stochastic", "stochastic or zero"}};
}

Status settle(ParameterValues& values) {
  if (values.text("norm") == "bucket") {
    if (values.text("block").empty()) values.set("block", "512");
  } else if (!values.text("block").empty()) {
    return Status(Code::kInvalidArgument,
                  "codec parameter block=" + values.text("block") +
                      ": only norm=bucket has blocks; leave it out or write norm=bucket");
  }
  return Status::ok();
}

Parameters parameters_of(const ParameterValues& values) {
  Parameters parameters;
  parameters.has_global_norm = values.text("norm") == "global";
  parameters.block = parameters.has_global_norm ? kTileElements : values.number("block");
  parameters.is_stochastic = values.text("round") == "stochastic";
  return parameters;
}

/// One step, and norms are rounded up to 8 significant bits.
ErrorBound bound_of(const ParameterValues& values, std::uint32_t steps) {
  ErrorBound bound;
  bound.block = parameters_of(values).block;
  bound.of_value = 0x1p-8;
  bound.of_magnitude = (1 + 0x1p-7) / steps;
  bound.absolute = 0x1p-100;
  return bound;
}

}  // namespace ringpress::compress_kernels::qsgd
