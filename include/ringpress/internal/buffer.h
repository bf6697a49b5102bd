// Memory and streams with the backend they belong to, so that a GPU joins without a new interface.
#ifndef RINGPRESS_INTERNAL_BUFFER_H_
#define RINGPRESS_INTERNAL_BUFFER_H_

#include <cstddef>
#include <cstdint>

namespace ringpress {

enum class Backend : std::uint8_t { kHost, kCuda };

/// Writable memory that somebody else owns.
struct Buffer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  Backend backend = Backend::kHost;
  int device = 0;  // Index of the CUDA device; 0 on the host.
};

/// Read-only memory that somebody else owns.
struct ConstBuffer {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  Backend backend = Backend::kHost;
  int device = 0;

  ConstBuffer() = default;
  ConstBuffer(const void* memory, std::size_t size_bytes)
      : data(static_cast<const std::byte*>(memory)), bytes(size_bytes) {}
  ConstBuffer(const Buffer& b)  // NOLINT: implicit on purpose, as from T* to const T*
      : data(b.data), bytes(b.bytes), backend(b.backend), device(b.device) {}
};

/// Where work is ordered. On the host a call runs in the calling thread and `handle` is ignored.
struct StreamRef {
  void* handle = nullptr;  // A cudaStream_t when backend is kCuda.
  Backend backend = Backend::kHost;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_BUFFER_H_
