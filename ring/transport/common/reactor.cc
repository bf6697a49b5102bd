#include "ring/transport/common/reactor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ringpress::ring::transport {
namespace {

/// Rounded up, so that a sleeper does not come back a moment before its deadline.
int milliseconds_until(Deadline until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3600 * 1000));
}

}  // namespace

Reactor::Reactor()
    : process_(getpid()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_.valid() || !wake_.valid()) {
    error_ = errno;  // Both fail alike.
    return;
  }
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = nullptr;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
}

Status Reactor::ready() const {
  if (epoll_.valid() && wake_.valid()) return Status::ok();
  errno = error_;
  return system_error("cannot make an epoll set");
}

bool Reactor::is_of_this_process() const {
  return process_ == getpid();
}

Status Reactor::add(int descriptor, EventHandler* handler) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = handler;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0) return Status::ok();
  return system_error("epoll_ctl");
}

void Reactor::remove(int descriptor, EventHandler* handler) {
  epoll_event event{};
  if (is_of_this_process()) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, &event);
  for (int i = 0; i < batch_size_; ++i) {
    epoll_event& pending = batch_[static_cast<std::size_t>(i)];
    if (pending.data.ptr == handler) pending.data.ptr = nullptr;
  }
}

bool Reactor::dispatch() {
  return dispatch_events(0);
}

bool Reactor::dispatch_until(Deadline until) {
  const int timeout_ms = milliseconds_until(until);
  if (guard_ == nullptr) return dispatch_events(timeout_ms);
  const bool sleep = guard_->enter_sleep();
  const bool any = dispatch_events(sleep ? timeout_ms : 0);
  guard_->leave_sleep();
  return any;
}

void Reactor::await_ready(Deadline until) const {
  pollfd waited{epoll_.get(), POLLIN, 0};
  static_cast<void>(::poll(&waited, 1, milliseconds_until(until)));
}

void Reactor::wake() const {
  // The descriptor is edge-triggered, so the counter is never read; it cannot overflow in practice.
  const std::uint64_t one = 1;
  const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  static_cast<void>(written);
}

bool Reactor::dispatch_events(int timeout_ms) {
  const int count =
      epoll_wait(epoll_.get(), batch_.data(), static_cast<int>(batch_.size()), timeout_ms);
  if (count <= 0) return false;
  batch_size_ = count;
  for (int i = 0; i < count; ++i) {
    // Copied first: a handler may remove handlers that come later in the batch.
    const epoll_event event = batch_[static_cast<std::size_t>(i)];
    if (event.data.ptr != nullptr)
      static_cast<EventHandler*>(event.data.ptr)->on_events(event.events);
  }
  batch_size_ = 0;
  return true;
}

}  // namespace ringpress::ring::transport
