// First in, first out, in memory that is kept: std::deque gives a block back and takes another one
// every few dozen elements, which is an allocation in the midst of a call.
#ifndef RING_TRANSPORT_COMMON_QUEUE_H_
#define RING_TRANSPORT_COMMON_QUEUE_H_

#include <cstddef>
#include <vector>

namespace ringpress::ring::transport {

/// Grows to the most elements that were ever in it, never shrinks. T: small and copyable.
template <typename T>
class Queue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& front() { return (*this)[0]; }
  const T& front() const { return (*this)[0]; }
  /// The oldest element has index 0.
  T& operator[](std::size_t index) { return ring_[place_of(index)]; }
  const T& operator[](std::size_t index) const { return ring_[place_of(index)]; }

  void push_back(const T& element) {
    if (size_ == ring_.size()) grow();
    ring_[place_of(size_)] = element;
    ++size_;
  }
  void pop_front() {
    first_ = place_of(1);
    --size_;
  }
  void clear() { keep_first(0); }
  /// Drops all but the `count` oldest elements, of which there are as many.
  void keep_first(std::size_t count) { size_ = count; }

 private:
  static constexpr std::size_t kSmallest = 16;

  std::size_t place_of(std::size_t index) const { return (first_ + index) & (ring_.size() - 1); }
  void grow() {
    std::vector<T> larger(ring_.empty() ? kSmallest : 2 * ring_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
    ring_.swap(larger);
    first_ = 0;
  }

  std::vector<T> ring_;  // Its size is 0 or a power of two.
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_QUEUE_H_
