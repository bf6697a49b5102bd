// Which kernels of a device make the bytes of a specification, or project as it says, and with
// which parameters. Passes from the registry to libringpress-cuda.so, so it is plain data.
#ifndef COMPRESS_KERNELS_DEVICE_PLAN_H_
#define COMPRESS_KERNELS_DEVICE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

enum class DeviceFamilyId : std::uint8_t {
#define RINGPRESS_DEVICE_FAMILY(id) id,
#include "compress_kernels/device_families.inc"
#undef RINGPRESS_DEVICE_FAMILY
};

/// The parameters of a codec as the bytes of a plain struct, which its family alone knows.
class PlanParameters {
 public:
  PlanParameters() = default;
  template <typename Parameters>
  explicit PlanParameters(const Parameters& parameters) : size_(sizeof parameters) {
    check<Parameters>();
    std::memcpy(bytes_, &parameters, sizeof parameters);
  }

  /// Of the type that they were made from.
  template <typename Parameters>
  Parameters as() const {
    check<Parameters>();
    if (size_ != sizeof(Parameters)) throw std::logic_error("parameters of another family");
    Parameters parameters;
    std::memcpy(&parameters, bytes_, sizeof parameters);
    return parameters;
  }

 private:
  static constexpr std::size_t kMostBytes = 128;

  template <typename Parameters>
  static constexpr void check() {
    static_assert(std::is_trivially_copyable_v<Parameters>);
    static_assert(sizeof(Parameters) <= kMostBytes && alignof(Parameters) <= alignof(std::size_t));
  }

  std::size_t size_ = 0;
  alignas(std::size_t) std::byte bytes_[kMostBytes] = {};
};

struct DevicePlan {
  DeviceFamilyId family{};
  PlanParameters parameters;
};

/// kUnsupported: no kernels for this codec. Other errors are those of make_codec().
Result<DevicePlan> make_device_plan(const std::string& specification, DType dtype);
/// The same of kernels that project.
Result<DevicePlan> make_projection_plan(const std::string& specification, DType dtype);

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_DEVICE_PLAN_H_
