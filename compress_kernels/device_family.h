// What a folder of kernels tells the codecs of a device. `Backend` launches the kernels: CUDA's
// (cuda/backend.cuh), or the tests'. A new one is a folder that defines its family with one of the
// macros below and a line in device_families.inc.
#ifndef COMPRESS_KERNELS_DEVICE_FAMILY_H_
#define COMPRESS_KERNELS_DEVICE_FAMILY_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "compress_kernels/device_plan.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels {

/// A codec of the host, and how kernels do the same.
struct PlannedCodec {
  std::unique_ptr<Codec> codec;
  DevicePlan plan;
};

/// Null: it has no such kernels.
template <typename Backend>
struct DeviceFamily {
  std::unique_ptr<DeviceCodec> (*make_codec)(PlannedCodec planned,
                                             const Backend& backend) = nullptr;
  std::unique_ptr<DeviceProjection> (*make_projection)(PlannedCodec planned,
                                                       const Backend& backend) = nullptr;
};

template <DeviceFamilyId id, typename Backend>
DeviceFamily<Backend> device_family();

template <typename Backend>
DeviceFamily<Backend> family_of(DeviceFamilyId id) {
  switch (id) {
#define RINGPRESS_DEVICE_FAMILY(id) \
  case DeviceFamilyId::id:          \
    return device_family<DeviceFamilyId::id, Backend>();
#include "compress_kernels/device_families.inc"
#undef RINGPRESS_DEVICE_FAMILY
  }
  return {};
}

/// `Made`: a class that is made from a codec, its parameters and a backend.
template <typename Interface, typename Made, typename Backend>
std::unique_ptr<Interface> make_planned(PlannedCodec planned, const Backend& backend) {
  const auto parameters = planned.plan.parameters.as<typename Made::Parameters>();
  return std::make_unique<Made>(std::move(planned.codec), parameters, backend);
}

template <template <typename> class Projection, typename Backend>
DeviceFamily<Backend> projects_with() {
  return {{}, make_planned<DeviceProjection, Projection<Backend>, Backend>};
}

inline Status no_kernels_in_module(const Codec& codec) {
  return Status(Code::kUnsupported,
                "the device's kernels are not those of " + codec.specification());
}

template <typename Backend>
Result<std::unique_ptr<DeviceCodec>> make_device_codec(PlannedCodec planned,
                                                       const Backend& backend) {
  const auto make = family_of<Backend>(planned.plan.family).make_codec;
  if (make == nullptr) return no_kernels_in_module(*planned.codec);
  return make(std::move(planned), backend);
}

template <typename Backend>
Result<std::unique_ptr<DeviceProjection>> make_device_projection(PlannedCodec planned,
                                                                 const Backend& backend) {
  const auto make = family_of<Backend>(planned.plan.family).make_projection;
  if (make == nullptr) return no_kernels_in_module(*planned.codec);
  return make(std::move(planned), backend);
}

}  // namespace ringpress::compress_kernels

/// Each defines a family for a backend. `Kernels`: as TaskCodec wants them.
#define RINGPRESS_DEVICE_CODEC(id, Backend, Kernels)                              \
  namespace ringpress::compress_kernels {                                         \
  template <>                                                                     \
  DeviceFamily<Backend> device_family<DeviceFamilyId::id, Backend>() {            \
    return {make_planned<DeviceCodec, TaskCodec<Kernels, Backend>, Backend>, {}}; \
  }                                                                               \
  }
#define RINGPRESS_DEVICE_PROJECTION(id, Backend, Projection)           \
  namespace ringpress::compress_kernels {                              \
  template <>                                                          \
  DeviceFamily<Backend> device_family<DeviceFamilyId::id, Backend>() { \
    return projects_with<Projection, Backend>();                       \
  }                                                                    \
  }

#endif  // COMPRESS_KERNELS_DEVICE_FAMILY_H_
