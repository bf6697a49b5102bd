// Data in host memory, which is its own device; libraries are done when their calls return.
#include "perf/all_reduce/device_memory.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {
namespace {

constexpr std::size_t kPageBytes = 4096;

int selected_device = 0;

}  // namespace

void require_device() {}

void select_device(int local_rank) {
  selected_device = local_rank;
}

bool device_is_asynchronous() {
  return false;
}

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
  const std::size_t pages = bytes / kPageBytes + 1;
  data_ = std::aligned_alloc(kPageBytes, pages * kPageBytes);
  if (data_ == nullptr) throw terminal::Error("out of memory: " + std::to_string(bytes) + " bytes");
  std::memset(data_, 0, pages * kPageBytes);
}

DeviceBuffer::~DeviceBuffer() {
  std::free(data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

void DeviceBuffer::write(std::size_t offset_bytes, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  std::memcpy(static_cast<std::byte*>(data_) + offset_bytes, source, bytes);
}

void DeviceBuffer::read(std::size_t offset_bytes, void* target, std::size_t bytes) const {
  if (bytes == 0) return;
  std::memcpy(target, static_cast<const std::byte*>(data_) + offset_bytes, bytes);
}

void DeviceBuffer::copy_from(const DeviceBuffer& source, std::size_t bytes) {
  if (bytes == 0) return;
  std::memcpy(data_, source.data_, bytes);
}

DeviceStream::DeviceStream() = default;

DeviceStream::~DeviceStream() = default;

void DeviceStream::synchronize() const {}

DeviceDescription describe_device() {
  std::ifstream information("/proc/cpuinfo");
  std::string line;
  while (std::getline(information, line)) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return {selected_device, "host", line.substr(colon + 2)};
    }
  }
  return {selected_device, "host", "CPU"};
}

}  // namespace ringpress::perf
