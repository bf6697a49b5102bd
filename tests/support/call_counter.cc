#include "tests/support/call_counter.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace {

std::atomic<bool> counting{false};
std::atomic<long> allocations{0};
std::atomic<long> socket_calls{0};
std::atomic<long> socket_calls_locked{0};
thread_local int mutexes_held = 0;
thread_local bool counting_thread = false;
thread_local long thread_allocations = 0;
thread_local long first_to_fail = -1;
thread_local bool all_after_fail = false;

/// False if it is to fail.
bool count_allocation() {
  const long number = counting_thread ? thread_allocations++ : -1;
  if (counting.load(std::memory_order_relaxed)) ++allocations;
  const bool fails =
      first_to_fail >= 0 && (number == first_to_fail || (all_after_fail && number > first_to_fail));
  if (fails) errno = ENOMEM;
  return !fails;
}

void count_socket_call() {
  if (!counting.load(std::memory_order_relaxed)) return;
  ++socket_calls;
  if (mutexes_held > 0) ++socket_calls_locked;
}

/// The function that stands behind one of ours.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// For the libraries that the program loads, too.
#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  return count_allocation() ? __libc_malloc(bytes) : nullptr;
}
void* calloc(std::size_t count, std::size_t bytes) {
  return count_allocation() ? __libc_calloc(count, bytes) : nullptr;
}
void* realloc(void* memory, std::size_t bytes) {
  return count_allocation() ? __libc_realloc(memory, bytes) : nullptr;
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return count_allocation() ? __libc_memalign(alignment, bytes) : nullptr;
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  *memory = count_allocation() ? __libc_memalign(alignment, bytes) : nullptr;
  return *memory == nullptr ? ENOMEM : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const lock = next<int(pthread_mutex_t*)>("pthread_mutex_lock");
  const int result = lock(mutex);
  if (result == 0) ++mutexes_held;
  return result;
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static auto* const try_lock = next<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  const int result = try_lock(mutex);
  if (result == 0) ++mutexes_held;
  return result;
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  static auto* const unlock = next<int(pthread_mutex_t*)>("pthread_mutex_unlock");
  --mutexes_held;
  return unlock(mutex);
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  static auto* const send = next<ssize_t(int, const msghdr*, int)>("sendmsg");
  count_socket_call();
  return send(descriptor, message, flags);
}
ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  static auto* const receive = next<ssize_t(int, msghdr*, int)>("recvmsg");
  count_socket_call();
  return receive(descriptor, message, flags);
}
int epoll_wait(int descriptor, epoll_event* events, int most, int timeout_ms) {
  static auto* const wait = next<int(int, epoll_event*, int, int)>("epoll_wait");
  count_socket_call();
  return wait(descriptor, events, most, timeout_ms);
}
}
#pragma GCC visibility pop

namespace ringpress::testing {

void start_counting() {
  allocations.store(0);
  socket_calls.store(0);
  socket_calls_locked.store(0);
  counting.store(true);
}

CallCounts stop_counting() {
  counting.store(false);
  return {allocations.load(), socket_calls_locked.load(), socket_calls.load()};
}

void start_counting_thread() {
  thread_allocations = 0;
  counting_thread = true;
}

bool pause_counting_thread() {
  return std::exchange(counting_thread, false);
}

void resume_counting_thread() {
  counting_thread = true;
}

void fail_thread_allocations(long first, bool and_all_after) {
  first_to_fail = first;
  all_after_fail = and_all_after;
}

long stop_counting_thread() {
  counting_thread = false;
  first_to_fail = -1;
  return thread_allocations;
}

}  // namespace ringpress::testing
