// libringpress-cuda.so: kernels and CUDA's runtime in a library of its own, which is looked for
// when a device is asked for. So everything else is built and loaded where there is no CUDA.
//
// Both sides are built from one tree: what passes between them has the layout of one compiler. The
// library takes minutes to build, so it may be left from another day, and says which headers it was
// built with.
#ifndef COMPRESS_KERNELS_CUDA_MODULE_H_
#define COMPRESS_KERNELS_CUDA_MODULE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "compress_kernels/device_family.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"
#include "ringpress_module_layout.h"

namespace ringpress::compress_kernels::cuda {

inline constexpr const char* kModuleEntry = "ringpress_cuda_open";
inline constexpr const char* kModuleLayout = "ringpress_cuda_layout";

/// What kModuleLayout answers. Nothing is asked of a library with another one.
inline constexpr std::uint64_t kLayout = RINGPRESS_MODULE_LAYOUT;
using ModuleLayout = std::uint64_t (*)();

/// The registry of codecs is on the side of the host.
using PlanMaker = Result<PlannedCodec> (*)(const std::string& specification, DType dtype,
                                           ReduceOp op);
struct PlanMakers {
  PlanMaker codec = nullptr;
  PlanMaker projection = nullptr;
};

/// Puts the device in `opened`.
using ModuleEntry = void (*)(int ordinal, const PlanMakers& make_plan,
                             Result<std::unique_ptr<Device>>* opened);

}  // namespace ringpress::compress_kernels::cuda

#endif  // COMPRESS_KERNELS_CUDA_MODULE_H_
