// What kernels of qB:grid=lloyd are launched with. Tables of levels come along: a kernel cannot
// look into an array of the host's.
#ifndef COMPRESS_KERNELS_LLOYD_DEVICE_PARAMETERS_H_
#define COMPRESS_KERNELS_LLOYD_DEVICE_PARAMETERS_H_

#include "compress_kernels/lloyd/levels.h"
#include "compress_kernels/lloyd/lloyd.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels {

struct LloydDeviceParameters {
  LloydParameters codec;
  lloyd::LevelTable levels;       // Of codec.bits.
  lloyd::LevelTable part_levels;  // Of parameters_of_parts().
  bool saturates = true;          // Decoded values: see lloyd::as_element().
};

inline LloydDeviceParameters device_parameters(const LloydParameters& codec,
                                               Contributions form = {}) {
  return {codec, lloyd::level_table(codec.bits),
          lloyd::level_table(parameters_of_parts(codec).bits), form.summed <= 1};
}

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_LLOYD_DEVICE_PARAMETERS_H_
