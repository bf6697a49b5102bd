// How the nodes that stand in for NCCL's find each other.
#ifndef TESTS_SUPPORT_COLLNET_MEETING_H_
#define TESTS_SUPPORT_COLLNET_MEETING_H_

#include <pthread.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "nccl_plugin/abi/types.h"

namespace ringpress::testing {

inline constexpr int kMostNodes = 16;

/// What the nodes exchange as NCCL's bootstrap does.
class Meeting {
 public:
  using Bytes = std::array<char, abi::kHandleBytes>;
  virtual ~Meeting() = default;
  virtual int size() const = 0;
  /// All nodes' 128 bytes, on every node.
  virtual std::vector<Bytes> gather(int rank, const void* own) = 0;
};

/// Of threads, or of processes that one has forked: made before they start.
class NodeMeeting final : public Meeting {
 public:
  explicit NodeMeeting(int size) : size_(size) {
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    shared_ = static_cast<Shared*>(memory);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared_->barrier, &attributes, static_cast<unsigned>(size));
  }
  ~NodeMeeting() override { munmap(shared_, sizeof(Shared)); }
  NodeMeeting(const NodeMeeting&) = delete;
  NodeMeeting& operator=(const NodeMeeting&) = delete;

  int size() const override { return size_; }
  void wait() { pthread_barrier_wait(&shared_->barrier); }
  std::vector<Bytes> gather(int rank, const void* own) override {
    std::memcpy(shared_->handles[rank].data(), own, abi::kHandleBytes);
    wait();
    std::vector<std::array<char, abi::kHandleBytes>> all(shared_->handles.begin(),
                                                         shared_->handles.begin() + size_);
    wait();
    return all;
  }

 private:
  struct Shared {
    pthread_barrier_t barrier;
    std::array<Bytes, kMostNodes> handles;
  };
  const int size_;
  Shared* shared_ = nullptr;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_COLLNET_MEETING_H_
