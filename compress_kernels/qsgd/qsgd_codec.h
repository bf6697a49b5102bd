// qsgd as a Codec and its Agreement.
#ifndef COMPRESS_KERNELS_QSGD_QSGD_CODEC_H_
#define COMPRESS_KERNELS_QSGD_QSGD_CODEC_H_

#include <memory>

#include "compress_kernels/kernel_codec.h"
#include "compress_kernels/qsgd/qsgd.h"

namespace ringpress::compress_kernels::qsgd {

/// A codec that runs the kernels of the selected instruction set. Sets those of the identity's
/// traits that follow from the parameters.
std::unique_ptr<Codec> make_qsgd_codec(CodecIdentity identity, const Parameters& parameters);

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_QSGD_CODEC_H_
