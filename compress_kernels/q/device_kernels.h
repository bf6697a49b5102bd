// The kernels of q1 .. q8: those of a grid, or of both and the hops between them.
#ifndef COMPRESS_KERNELS_Q_DEVICE_KERNELS_H_
#define COMPRESS_KERNELS_Q_DEVICE_KERNELS_H_

#include <cstdint>
#include <utility>

#include "compress_kernels/lloyd/device_parameters.h"
#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/q/regridding_parameters.h"
#include "compress_kernels/q/wider_forms.h"
#include "compress_kernels/task_codec.h"
#include "compress_kernels/uniform/uniform.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels::q {

/// How partial sums of a ring are encoded.
enum class PartialSums : std::uint8_t {
  kSame,       // As everything else.
  kWider,      // In more bits: wider_forms.h.
  kRegridded,  // On another grid: regridding_codec.h.
};

struct DeviceParameters {
  PartialSums partial_sums = PartialSums::kSame;
  bool is_lloyd = false;
  UniformParameters uniform;
  LloydParameters lloyd;  // Where it is one of Lloyd's.
};

struct DeviceKernels : PlainKernels<DeviceParameters> {
  template <typename Use>
  static Status of_form(const Parameters& plan, Contributions form, Use&& use) {
    if (is_regridded(plan, form)) return use(regridded_sum(plan, form, form));
    return of_grid(plan, form, form, use);
  }

  template <typename Use>
  static Status of_hop(const Parameters& plan, Contributions form, Contributions part, Use&& use) {
    const bool to_sums = is_regridded(plan, form);
    const bool from_sums = is_regridded(plan, part);
    if (to_sums && from_sums) return use(regridded_sum(plan, form, part));
    if (!to_sums && !from_sums) return of_grid(plan, form, part, use);
    const Contributions sum = to_sums ? form : part;
    return use(RegriddingParameters{plan.uniform, regridded_sum(plan, sum, sum), to_sums});
  }

 private:
  static bool is_regridded(const Parameters& plan, Contributions form) {
    return plan.partial_sums == PartialSums::kRegridded && is_partial_sum(form);
  }

  static LloydDeviceParameters regridded_sum(const Parameters& plan, Contributions form,
                                             Contributions part) {
    LloydParameters sum = sum_parameters(plan.uniform, form);
    sum.part_bits = sum_parameters(plan.uniform, part).bits;
    return device_parameters(sum, form);
  }

  /// `codec` for a form and what a hop adds to it.
  template <typename Codec>
  static Codec widened(const Parameters& plan, Codec codec, Contributions form,
                       Contributions part) {
    if (plan.partial_sums == PartialSums::kWider) {
      return WiderForms<Codec>::of_hop(codec, form, part);
    }
    codec.part_bits = codec.bits;
    return codec;
  }

  template <typename Use>
  static Status of_grid(const Parameters& plan, Contributions form, Contributions part, Use&& use) {
    if (plan.is_lloyd) return use(device_parameters(widened(plan, plan.lloyd, form, part), form));
    return use(widened(plan, plan.uniform, form, part));
  }
};

}  // namespace ringpress::compress_kernels::q

#endif  // COMPRESS_KERNELS_Q_DEVICE_KERNELS_H_
