// One object for each thread that asks for it.
#ifndef NCCL_PLUGIN_INTERPOSER_PER_THREAD_H_
#define NCCL_PLUGIN_INTERPOSER_PER_THREAD_H_

#include <pthread.h>

#include <memory>
#include <new>

namespace ringpress::nccl_plugin::interposer {

/// As thread_local, but for two things. It outlives what a program keeps in thread_local objects
/// and, in the main thread, in static ones, whose destructors may make calls of NCCL. And where the
/// program is out of memory it throws, and does not end the program. To be kept in an object that
/// is never destroyed.
template <typename T>
class PerThread {
 public:
  /// Throws std::bad_alloc if the process has no key left.
  PerThread() {
    if (pthread_key_create(&key_, [](void* object) { delete static_cast<T*>(object); }) != 0) {
      throw std::bad_alloc();
    }
  }
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  /// Null if this thread has none yet.
  T* find() const noexcept { return static_cast<T*>(pthread_getspecific(key_)); }

  /// This thread's; `make` gives the first one. Throws std::bad_alloc.
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

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_PER_THREAD_H_
