// One object for each thread that asks for it.
#ifndef RINGPRESS_INTERNAL_PER_THREAD_H_
#define RINGPRESS_INTERNAL_PER_THREAD_H_

#include <pthread.h>

#include <memory>
#include <new>
#include <system_error>

namespace ringpress {

/// As thread_local, but for two things. It outlives what a program keeps in thread_local objects
/// and, in the main thread, in static ones, whose destructors may make calls of NCCL. And where the
/// program is out of memory it throws, and does not end the program. To be kept in an object that
/// is never destroyed.
template <typename T>
class PerThread {
 public:
  /// Throws std::system_error if the process has no key left.
  PerThread() {
    const int error = pthread_key_create(&key_, [](void* one) { delete static_cast<T*>(one); });
    if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_key_create");
  }
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  /// Null if this thread has none yet.
  T* find() const noexcept { return static_cast<T*>(pthread_getspecific(key_)); }

  /// This thread's; `make` gives the first one, as a std::unique_ptr. Throws std::bad_alloc.
  template <typename Make>
  T& get(Make make) const {
    if (T* const known = find()) return *known;
    std::unique_ptr<T> made = make();
    if (pthread_setspecific(key_, made.get()) != 0) throw std::bad_alloc();
    return *made.release();
  }

 private:
  pthread_key_t key_{};
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_PER_THREAD_H_
