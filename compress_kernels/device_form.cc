// What a form changes in the parameters of kernels. A part of libringpress-cuda.so too, so it knows
// nothing of the registry.
#include "compress_kernels/device_plan.h"
#include "compress_kernels/q/widening_codec.h"

namespace ringpress::compress_kernels {
namespace {

template <typename Parameters>
int bits_of(const DevicePlan& plan, const Parameters& codec, Contributions form) {
  if (plan.partial_sums != DevicePlan::PartialSums::kWider) return codec.bits;
  return q::bits_of_form(codec.bits, form, q::narrow_sums(codec));
}

bool is_regridded(const DevicePlan& plan, Contributions form) {
  return plan.partial_sums == DevicePlan::PartialSums::kRegridded && q::is_partial_sum(form);
}

LloydDeviceParameters regridded_sum(const DevicePlan& plan, Contributions form,
                                    Contributions part) {
  const auto& uniform = std::get<UniformParameters>(plan.parameters);
  LloydParameters sum = q::sum_parameters(uniform, form);
  sum.part_bits = q::sum_parameters(uniform, part).bits;
  return device_parameters(sum, form);
}

/// `part`: what a hop adds.
DeviceParameters parameters_of(const DevicePlan& plan, Contributions form, Contributions part) {
  DeviceParameters parameters = plan.parameters;
  if (auto* const uniform = std::get_if<UniformParameters>(&parameters)) {
    uniform->part_bits = bits_of(plan, *uniform, part);
    uniform->bits = bits_of(plan, *uniform, form);
  } else if (auto* const lloyd = std::get_if<LloydDeviceParameters>(&parameters)) {
    LloydParameters codec = lloyd->codec;
    codec.part_bits = bits_of(plan, codec, part);
    codec.bits = bits_of(plan, codec, form);
    *lloyd = device_parameters(codec, form);
  } else if (auto* const qsgd = std::get_if<QsgdDeviceParameters>(&parameters)) {
    *qsgd = device_parameters(qsgd->codec, form, part);
  }
  return parameters;
}

}  // namespace

DeviceParameters form_parameters(const DevicePlan& plan, Contributions form) {
  if (is_regridded(plan, form)) return regridded_sum(plan, form, form);
  return parameters_of(plan, form, form);
}

DeviceParameters hop_parameters(const DevicePlan& plan, Contributions form,
                                std::size_t wire_contributions) {
  const Contributions part{wire_contributions, form.world};
  const bool to_sums = is_regridded(plan, form);
  const bool from_sums = is_regridded(plan, part);
  if (to_sums && from_sums) return regridded_sum(plan, form, part);
  if (!to_sums && !from_sums) return parameters_of(plan, form, part);
  const Contributions sum = to_sums ? form : part;
  return RegriddingParameters{std::get<UniformParameters>(plan.parameters),
                              regridded_sum(plan, sum, sum), to_sums};
}

}  // namespace ringpress::compress_kernels
