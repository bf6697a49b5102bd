// Transfers under way, and where they come from: a channel reuses them, so that a small frame costs
// no allocation.
#ifndef RING_TRANSPORT_COMMON_OPERATION_H_
#define RING_TRANSPORT_COMMON_OPERATION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "ring/transport/common/frame.h"
#include "ringpress/internal/transport.h"

namespace ringpress::ring::transport {

/// Memory of a receive whose caller named none. Grows, never shrinks; 64-byte aligned.
class ViewMemory {
 public:
  std::byte* reserve(std::size_t bytes) {
    if (bytes > capacity_) {
      const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
      if (memory_ == nullptr) throw std::bad_alloc();
      capacity_ = rounded;
    }
    return memory_.get();
  }
  std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_ = 0;
};

/// Objects of one type that are used again. Pointers stay valid until the pool goes.
template <typename T>
class Pool {
 public:
  T* take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<T>());
      return all_.back().get();
    }
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(T* object) { free_.push_back(object); }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;
};

/// The memory of views. Each piece is as large as the largest view so far, so that it does not
/// matter which one a view gets: once as many as ever have been in use, nothing grows any more.
class ViewPool {
 public:
  /// At least `bytes` long.
  ViewMemory* take(std::size_t bytes) {
    largest_bytes_ = std::max(largest_bytes_, bytes);
    ViewMemory* memory = pool_.take();
    memory->reserve(largest_bytes_);
    return memory;
  }
  void give(ViewMemory* memory) { pool_.give(memory); }

 private:
  Pool<ViewMemory> pool_;
  std::size_t largest_bytes_ = 0;
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_OPERATION_H_
