// One epoll set for all descriptors of a mesh, whatever transport they belong to, so that a rank
// sleeps in one place. Descriptors are edge-triggered: a handler keeps going until the system says
// "try again", and nothing is re-armed on the way.
//
// A process that was forked from the one which made it has the same epoll set, not one of its own:
// what it removed would be lost to its parent, so there remove() leaves the set alone.
//
// Threads: the owner of the mesh alone calls add, remove and dispatch; wake() and await_ready() may
// be called from any thread.
#ifndef RING_TRANSPORT_COMMON_REACTOR_H_
#define RING_TRANSPORT_COMMON_REACTOR_H_

#include <sys/epoll.h>
#include <sys/types.h>

#include <array>
#include <cstdint>

#include "ring/transport/common/socket.h"
#include "ringpress/internal/transport.h"

namespace ringpress::ring::transport {

class EventHandler {
 public:
  virtual ~EventHandler() = default;
  /// `events` are epoll's bits. May add and remove handlers, this one too.
  virtual void on_events(std::uint32_t events) = 0;
};

/// Something besides descriptors that a sleeper must look at, such as a doorbell in shared memory.
class SleepGuard {
 public:
  virtual ~SleepGuard() = default;
  /// Announces that this process is about to sleep. False: there is work, do not.
  virtual bool enter_sleep() = 0;
  virtual void leave_sleep() = 0;
};

class Reactor {
 public:
  Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// kSystem when the process has no descriptors left.
  Status ready() const;

  /// False in a process that was forked from the one that made it.
  bool is_of_this_process() const;

  /// Handlers must be removed before their descriptor is closed.
  Status add(int descriptor, EventHandler* handler);
  void remove(int descriptor, EventHandler* handler);
  void set_guard(SleepGuard* guard) { guard_ = guard; }

  /// Runs the handlers of what is ready, without blocking. True if there were any.
  bool dispatch();
  /// The same, but sleeps until something is ready, wake() was called or `until` has come.
  bool dispatch_until(Deadline until);
  /// Sleeps likewise without running handlers.
  void await_ready(Deadline until) const;
  void wake() const;
  /// The descriptor behind wake(), for processes that may write to it. Owned by the reactor.
  int wake_descriptor() const { return wake_.get(); }

 private:
  bool dispatch_events(int timeout_ms);

  const pid_t process_;
  Fd epoll_;
  Fd wake_;
  int error_ = 0;  // Why they are not there.
  SleepGuard* guard_ = nullptr;
  std::array<epoll_event, 64> batch_{};
  int batch_size_ = 0;  // Entries of batch_ that are being dispatched.
};

}  // namespace ringpress::ring::transport

#endif  // RING_TRANSPORT_COMMON_REACTOR_H_
