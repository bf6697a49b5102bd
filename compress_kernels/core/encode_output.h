// Where the results of encoding go.
#ifndef COMPRESS_KERNELS_CORE_ENCODE_OUTPUT_H_
#define COMPRESS_KERNELS_CORE_ENCODE_OUTPUT_H_

#include <cstddef>

#include "compress_kernels/core/host_device.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::core {

/// As in EncodeArgs. A plain struct: it is a part of the arguments of kernels.
struct EncodeOutput {
  float* residual = nullptr;
  std::byte* wire = nullptr;  // Null in a hop: `decoded` gets the values themselves.
  void* decoded = nullptr;
  RandomKey random;
};

/// Args: EncodeArgs or DecodeAddEncodeArgs.
template <typename Args>
EncodeOutput output_of(const Args& args) {
  return {args.residual, args.wire, args.decoded, args.random};
}

/// True if someone wants to know what encoded values decode to.
RINGPRESS_HOST_DEVICE inline bool wants_values(const EncodeOutput& output) {
  return output.residual != nullptr || output.decoded != nullptr;
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_ENCODE_OUTPUT_H_
