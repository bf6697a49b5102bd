// The parameters that qsgd and qsgd-ms have in common.
#ifndef COMPRESS_KERNELS_QSGD_OPTIONS_H_
#define COMPRESS_KERNELS_QSGD_OPTIONS_H_

#include <vector>

#include "compress_kernels/codec_family.h"
#include "compress_kernels/qsgd/qsgd.h"

namespace ringpress::compress_kernels::qsgd {

/// And block, norm, round.
std::vector<ParameterRule> rules_with(const ParameterRule& bits);
/// Blocks are a matter of norm=bucket.
Status settle(ParameterValues& values);
/// All but the grids.
Parameters parameters_of(const ParameterValues& values);
/// Of a grid of so many steps.
ErrorBound bound_of(const ParameterValues& values, std::uint32_t steps);

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_OPTIONS_H_
