// The one thread of a process that writes what is said of communicators while they run.
//
// It is started with the first of them, has all signals blocked and is never joined: the libraries
// stay mapped. It lives only in the process that started it, so one that is forked writes nothing
// of its parent's.
#ifndef NCCL_PLUGIN_SESSION_LIVE_LIVE_WRITER_H_
#define NCCL_PLUGIN_SESSION_LIVE_LIVE_WRITER_H_

#include <semaphore.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "nccl_plugin/session/live/capped_file.h"
#include "nccl_plugin/session/live/live_entry.h"

namespace ringpress::nccl_plugin {

class LiveWriter {
 public:
  using EntryPointer = std::shared_ptr<LiveEntry>;

  /// Another one in a process that was forked. Never destroyed. Throws std::bad_alloc.
  static LiveWriter& of_this_process();

  LiveWriter(const LiveWriter&) = delete;
  LiveWriter& operator=(const LiveWriter&) = delete;

  // Any thread.

  /// False in a process that was forked from that one.
  bool is_of_this_process() const { return process_ == getpid(); }
  /// Lanes of a timeline that no other communicator has; the first of them.
  std::size_t take_lanes(std::size_t count) { return next_lane_.fetch_add(count); }
  /// It is written from now on. Throws std::system_error where no thread can be started.
  void add(const EntryPointer& entry);
  /// Waits until all that was there is written: when a communicator ends, a fifth of a second at
  /// most, as programs may leave with _exit() then; at the exit two seconds, with all other calls
  /// of this.
  void flush(ReportTime time) noexcept;

 private:
  using Clock = LiveEntry::Clock;

  LiveWriter();
  void start();
  [[noreturn]] void run() noexcept;
  void name_files(LiveEntry& entry);
  void write_all(bool has_dump);
  void write_entry(LiveEntry& entry, std::set<std::string>* pages);
  void drop_closed();
  Clock::time_point next_round();
  Clock::rep end_of_flush(ReportTime time);
  CappedFile& file_of(const char* variable, const std::string& path, const LiveEntry& entry);

  const pid_t process_;
  sem_t awake_;
  std::atomic<std::size_t> next_lane_{1};
  std::atomic<bool> is_running_{false};
  std::atomic<std::uint64_t> asked_{0};     // How often flush() was called,
  std::atomic<std::uint64_t> done_{0};      // and is done with.
  std::atomic<Clock::rep> flush_until_{0};  // In the clock's ticks; 0: nobody has asked.

  std::mutex mutex_;  // Of what follows.
  std::vector<EntryPointer> entries_;
  // The process's first communicator, and its lowest rank in it.
  LiveIdentity first_;

  std::map<std::string, CappedFile> files_;  // Of the thread alone, by path.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_LIVE_WRITER_H_
