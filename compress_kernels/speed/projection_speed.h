// How fast codecs that project are on this machine.
#ifndef COMPRESS_KERNELS_SPEED_PROJECTION_SPEED_H_
#define COMPRESS_KERNELS_SPEED_PROJECTION_SPEED_H_

#include <string>

#include "compress_kernels/factory.h"
#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::speed {

/// measure_codec() of such a codec: what its inner codec takes, of float32, and in `look` what
/// projecting and rebuilding do. Of tensors whose layers nobody has told of.
Result<CodecSpeed> measure_projection(const std::string& specification, DType dtype,
                                      const MeasuredFor& use);

/// CodecSpeed::error of such a codec, of the first call for a tensor.
Result<double> measure_projection_error(const std::string& specification, DType dtype,
                                        ErrorOf values);

}  // namespace ringpress::compress_kernels::speed

#endif  // COMPRESS_KERNELS_SPEED_PROJECTION_SPEED_H_
