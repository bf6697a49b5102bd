// The memory that collectives work on. Everything that differs between host and GPU memory is
// behind this file: allocation, copies, and waiting for a call to be done.
#ifndef PERF_ALL_REDUCE_DEVICE_MEMORY_H_
#define PERF_ALL_REDUCE_DEVICE_MEMORY_H_

#include <cstddef>
#include <memory>
#include <string>

#include "ringpress/nccl.h"

namespace ringpress::perf {

/// Page-aligned memory that is freed with the object. Contents start as zeros.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  /// To pass to NCCL; not to be dereferenced here.
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  void write(std::size_t offset_bytes, const void* source, std::size_t bytes);
  void read(std::size_t offset_bytes, void* target, std::size_t bytes) const;
  /// Copies the first `bytes` bytes of another buffer.
  void copy_from(const DeviceBuffer& source, std::size_t bytes);

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The order in which calls run on the device.
class DeviceStream {
 public:
  cudaStream_t handle() const { return nullptr; }
  /// Returns when every call given to the stream is done; at once on the host.
  void synchronize() const {}
};

/// For the table's list of devices: bus position and model.
struct DeviceDescription {
  std::string position;
  std::string model;
};
DeviceDescription describe_device();

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_DEVICE_MEMORY_H_
