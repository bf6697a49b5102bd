// Which accelerators this build can drive. Hardware stays behind this one function.
#ifndef NCCL_PLUGIN_INTERPOSER_DEVICES_H_
#define NCCL_PLUGIN_INTERPOSER_DEVICES_H_

#include <memory>

#include "ringpress/internal/device.h"
#include "ringpress/internal/setting_types.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::interposer {

/// The device with this number, of the kind that RINGPRESS_BACKEND names; `auto` is CUDA.
/// kUnsupported: libringpress-cuda.so, which has the kernels, is not there, or host memory is asked
/// for in a process that uses CUDA. kSystem: there is no driver or no such device.
Result<std::unique_ptr<Device>> make_device(BackendChoice backend, int number);

/// The reason why make_device() could not make even the first one, or ok.
Status check_backend(BackendChoice backend);

/// Host memory, where work is done before the function that asks for it returns.
std::unique_ptr<Device> make_host_device();

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_DEVICES_H_
