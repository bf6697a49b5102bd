// What kernels of qsgd and qsgd-ms are launched with: of a form, what takes a loop to find out.
#ifndef COMPRESS_KERNELS_QSGD_DEVICE_PARAMETERS_H_
#define COMPRESS_KERNELS_QSGD_DEVICE_PARAMETERS_H_

#include "compress_kernels/qsgd/qsgd.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels {

struct QsgdDeviceParameters {
  qsgd::Parameters codec;
  Contributions form;
  Contributions part;  // What a hop adds.
  int width = 0;       // Bits of a code of `form`.
  int part_width = 0;  // Bits of a code of `part`.
};

inline QsgdDeviceParameters device_parameters(const qsgd::Parameters& codec, Contributions form,
                                              Contributions part) {
  return {codec, form, part, qsgd::width_of(codec, form.summed),
          qsgd::width_of(codec, part.summed)};
}

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_QSGD_DEVICE_PARAMETERS_H_
