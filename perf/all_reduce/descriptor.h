// A file descriptor that is closed with its object.
#ifndef PERF_ALL_REDUCE_DESCRIPTOR_H_
#define PERF_ALL_REDUCE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace ringpress::perf {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_DESCRIPTOR_H_
