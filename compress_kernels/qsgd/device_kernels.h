// The kernels of qsgd and qsgd-ms, which know their form.
#ifndef COMPRESS_KERNELS_QSGD_DEVICE_KERNELS_H_
#define COMPRESS_KERNELS_QSGD_DEVICE_KERNELS_H_

#include <memory>

#include "compress_kernels/qsgd/device_parameters.h"
#include "compress_kernels/qsgd/qsgd.h"
#include "compress_kernels/qsgd/task_agreement.h"
#include "compress_kernels/task_codec.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels::qsgd {

struct DeviceKernels : PlainKernels<qsgd::Parameters> {
  template <typename Use>
  static Status of_form(const Parameters& plan, Contributions form, Use&& use) {
    return use(device_parameters(plan, form, form));
  }
  template <typename Use>
  static Status of_hop(const Parameters& plan, Contributions form, Contributions part, Use&& use) {
    return use(device_parameters(plan, form, part));
  }

  template <typename Backend>
  static std::unique_ptr<DeviceAgreement> make_agreement(const Codec& codec, const Parameters& plan,
                                                         const Backend& backend) {
    return std::make_unique<TaskAgreement<Backend>>(codec, device_parameters(plan, {}, {}),
                                                    backend);
  }
};

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_DEVICE_KERNELS_H_
