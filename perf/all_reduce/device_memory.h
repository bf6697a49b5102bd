// The memory and the stream of a rank. Everything that differs between host and GPU memory is
// behind this file: which device a rank has, allocation, copies, and waiting for calls to be done.
//
// It has two implementations, host_memory.cc and cuda_memory.cc. The build makes one program of
// each (all_reduce_perf, all_reduce_perf_cuda); nothing else in them differs.
#ifndef PERF_ALL_REDUCE_DEVICE_MEMORY_H_
#define PERF_ALL_REDUCE_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "ringpress/nccl.h"

namespace ringpress::perf {

/// Throws terminal::Error if the processes of this machine would find no device. Leaves no thread
/// behind in this process, which may fork afterwards.
void require_device();

/// Gives this process the device of a local rank, before anything else here is used; several ranks
/// may have the same one. Throws terminal::Error if there is none.
void select_device(int local_rank);

/// True if calls return before they are done, and the library's threads work beside the caller's.
bool device_is_asynchronous();

/// For the table's list of devices: the selected one's number, bus position and model.
struct DeviceDescription {
  int number = 0;
  std::string position;
  std::string model;
};
DeviceDescription describe_device();

/// Memory of the device that is freed with the object; page-aligned. Contents start as zeros. What
/// this class does is done when its functions return; calls that use the memory must be, before.
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
  DeviceStream();
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  cudaStream_t handle() const { return handle_; }
  /// Returns when every call given to the stream is done; at once on the host. Throws
  /// terminal::Error if one of them failed on the device.
  void synchronize() const;

 private:
  cudaStream_t handle_ = nullptr;
};

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_DEVICE_MEMORY_H_
