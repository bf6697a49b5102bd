// Who may touch the transports of a mesh. Not a mutex: it is held for the whole length of a call,
// calls of the system and sleep included, and what it is for is that nobody has to wait so long.
#ifndef RING_OWNERSHIP_H_
#define RING_OWNERSHIP_H_

#include <atomic>
#include <cstdint>

namespace ringpress::ring {

/// One owner at a time. Threads that can do without use try_take(). take() is for the thread that
/// makes the calls: it waits only while the progress thread moves bytes, which does not block, or
/// while abort() tells the peers of a failure.
class Ownership {
 public:
  bool try_take() {
    std::uint32_t free = 0;
    return taken_.compare_exchange_strong(free, 1);
  }
  void take() {
    while (!try_take()) taken_.wait(1);
  }
  void give() {
    taken_.store(0);
    taken_.notify_one();
  }

 private:
  std::atomic<std::uint32_t> taken_{0};
};

}  // namespace ringpress::ring

#endif  // RING_OWNERSHIP_H_
