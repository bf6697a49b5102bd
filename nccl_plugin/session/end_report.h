// What is written of a communicator once: when it ends, or when the process exits with it. Most
// programs do not end their communicators: they return from main.
//
// A process that a signal or _exit() ends writes nothing. Nor does one that was forked from the one
// that made the communicator: it is not its own.
#ifndef NCCL_PLUGIN_SESSION_END_REPORT_H_
#define NCCL_PLUGIN_SESSION_END_REPORT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "ringpress/internal/report_time.h"

namespace ringpress::nccl_plugin {

/// At kExit a lock may be held by the thread that exits, in a handler of a signal: it is given up
/// after a moment, and then the lock does not own the mutex.
template <typename Mutex>
std::unique_lock<Mutex> lock_for_report(Mutex& mutex, ReportTime time) {
  std::unique_lock<Mutex> lock(mutex, std::defer_lock);
  switch (time) {
    case ReportTime::kEnd:
      lock.lock();
      return lock;
    case ReportTime::kExit:
      break;
  }
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPatience{2000};
  const auto until = Clock::now() + kPatience;
  while (!lock.try_lock() && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return lock;
}

/// Of one communicator. Any thread, but its owner opens and destroys it.
class EndReport {
 public:
  using Write = std::function<void(ReportTime)>;

  /// Nothing is due yet. Throws std::bad_alloc.
  EndReport();
  /// Nothing is due any more; waits while another thread writes it.
  ~EndReport();
  EndReport(const EndReport&) = delete;
  EndReport& operator=(const EndReport&) = delete;

  /// It is due from now on: `write` is called once, by write() or by the thread that exits. What it
  /// throws is dropped. Once, if at all. Without memory it is not written at the exit.
  void open(Write write) noexcept;
  /// Writes it now, if it is still due, or waits for who does so.
  void write() noexcept;

 private:
  friend class OpenReports;
  struct Entry;

  const std::shared_ptr<Entry> entry_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_END_REPORT_H_
