// Coordinate scales of a device whose memory is the host's and where work is done at once.
#include <algorithm>
#include <cstring>

#include "compress_kernels/core/element.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/isa.h"
#include "compress_kernels/scales/arithmetic.h"
#include "compress_kernels/scales/scales.h"

namespace ringpress::compress_kernels {
namespace {

constexpr std::size_t kGroup = 1024;  // A block, at most.

class HostScales final : public DeviceScales {
 public:
  HostScales() : kernels_(selected_kernels(scales::reference_kernels(), scales::simd_kernels)) {}

  Status divide(Stream, DType dtype, std::span<const DividedPart> parts) override {
    for (const DividedPart& part : parts) {
      divide(dtype, part, part.values, part.scaled);
      if (part.residual != nullptr) {
        divide(DType::kFloat32, part, part.residual, part.scaled_residual);
      }
    }
    return Status::ok();
  }
  Status multiply(Stream, DType dtype, std::span<const MultipliedPart> parts) override {
    for (const MultipliedPart& part : parts) {
      if (part.values != nullptr) multiply(dtype, part, part.scaled, part.values);
      if (part.residual != nullptr) {
        multiply(DType::kFloat32, part, part.scaled_residual, part.residual);
      }
    }
    return Status::ok();
  }

  Status measure(Stream, const KeptScales& tensor, const GradientSpan& result, std::uint32_t calls,
                 ScaleErrorPart*) override {
    ScaleErrors errors;
    for (std::size_t first = 0; first < tensor.count; first += tensor.block) {
      const std::size_t count = std::min(tensor.block, tensor.count - first);
      std::uint8_t codes[kGroup];
      find_scales(tensor.squares + first, count, tensor.block, codes);
      const auto* const values =
          static_cast<const std::byte*>(result.values) + first * dtype_size(result.dtype);
      const ScaleErrors of_block = measure_scales(values, count, result.dtype, codes, tensor.block);
      errors.plain += of_block.plain;
      errors.scaled += of_block.scaled;
    }
    const bool may_help = tensor.agreed == nullptr || *tensor.agreed != 0;
    const bool helps = may_help && do_scales_help(errors);
    *tensor.use = ScaleUse::of(*tensor.use).settled(calls, helps).word();
    return Status::ok();
  }
  Status learn(Stream stream, const KeptScales& tensor, const GradientSpan& result,
               float weight) override {
    learn_scales(result.values, tensor.count, result.dtype, weight, tensor.squares);
    return find(stream, tensor);
  }
  Status find(Stream, const KeptScales& tensor) override {
    if (ScaleUse::of(*tensor.use).is_helped) {
      find_scales(tensor.squares, tensor.count, tensor.block, tensor.codes);
    } else {
      std::memset(tensor.codes, 0, tensor.count);
    }
    return Status::ok();
  }

 private:
  // Arrays of the caller need not be aligned for vectors.
  void divide(DType dtype, const DividedPart& part, const void* from, float* to) const {
    alignas(64) float scaled[kGroup];
    for (std::size_t first = 0; first < part.count; first += kGroup) {
      const std::size_t count = std::min(kGroup, part.count - first);
      const auto* const values = static_cast<const std::byte*>(from) + first * dtype_size(dtype);
      kernels_.divide(dtype, values, part.codes + first, count, scaled);
      std::memcpy(to + first, scaled, count * sizeof(float));
    }
  }
  void multiply(DType dtype, const MultipliedPart& part, const float* from, void* to) const {
    alignas(64) float scaled[kGroup];
    for (std::size_t first = 0; first < part.count; first += kGroup) {
      const std::size_t count = std::min(kGroup, part.count - first);
      std::memcpy(scaled, from + first, count * sizeof(float));
      kernels_.multiply(dtype, scaled, part.codes + first, count,
                        static_cast<std::byte*>(to) + first * dtype_size(dtype));
    }
  }

  const scales::ScaleKernels kernels_;
};

}  // namespace

std::unique_ptr<DeviceScales> make_host_scales() {
  return std::make_unique<HostScales>();
}

}  // namespace ringpress::compress_kernels
