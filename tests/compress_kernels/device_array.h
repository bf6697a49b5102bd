// An array in a device's memory between guards, which the host reads and writes. Waits for the
// device.
#ifndef TESTS_COMPRESS_KERNELS_DEVICE_ARRAY_H_
#define TESTS_COMPRESS_KERNELS_DEVICE_ARRAY_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "ringpress/internal/device.h"

namespace ringpress::compress_kernels::testing {

class DeviceArray {
 public:
  /// `offset`: bytes by which it misses an alignment of 256.
  DeviceArray(Device& device, std::size_t bytes, std::size_t offset = 0)
      : device_(device), copy_(kGuardBytes + offset + bytes + kGuardBytes, kGuard), bytes_(bytes) {
    begin_ = kGuardBytes + offset;
    memory_ = static_cast<std::byte*>(device.allocate(copy_.size()).value());
    send();
  }
  ~DeviceArray() { device_.free(memory_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  std::byte* data() const { return memory_ + begin_; }
  float* floats() const { return reinterpret_cast<float*>(data()); }
  std::size_t bytes() const { return bytes_; }

  void write(const void* source) {
    if (bytes_ > 0) std::memcpy(copy_.data() + begin_, source, bytes_);
    send();
  }
  void zero() { write(std::vector<std::byte>(bytes_).data()); }
  /// Its bytes, valid until the next read() or write().
  const std::byte* read() {
    static_cast<void>(device_.copy(nullptr, copy_.data(), memory_, copy_.size()));
    return copy_.data() + begin_;
  }
  bool guards_intact() {
    read();
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(copy_.data(), copy_.data() + begin_, is_guard) &&
           std::all_of(copy_.data() + begin_ + bytes_, copy_.data() + copy_.size(), is_guard);
  }

 private:
  static constexpr std::size_t kGuardBytes = 256;
  static constexpr std::byte kGuard{0xA5};

  void send() {
    static_cast<void>(device_.copy(nullptr, memory_, copy_.data(), copy_.size()));
    static_cast<void>(device_.synchronize(nullptr));
  }

  Device& device_;
  std::vector<std::byte> copy_;
  std::size_t bytes_;
  std::size_t begin_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace ringpress::compress_kernels::testing

#endif  // TESTS_COMPRESS_KERNELS_DEVICE_ARRAY_H_
