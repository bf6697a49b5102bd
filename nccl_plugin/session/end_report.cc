#include "nccl_plugin/session/end_report.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>
#include <vector>

#include "nccl_plugin/errors/firewall.h"

namespace ringpress::nccl_plugin {

struct EndReport::Entry {
  std::mutex mutex;  // Held while it is written, so that nobody frees what that reads.
  Write write;       // Empty: nothing is due.
  pid_t process = 0;

  void write_once(ReportTime time) noexcept {
    if (process != getpid()) return;
    const auto lock = lock_for_report(mutex, time);
    if (!lock.owns_lock() || write == nullptr) return;
    static_cast<void>(catch_all([&] {
      std::exchange(write, nullptr)(time);
      return Status::ok();
    }));
  }
};

/// Those that are due in this process.
class OpenReports {
 public:
  using Entry = std::shared_ptr<EndReport::Entry>;

  static OpenReports& instance() {
    static OpenReports* const reports = new OpenReports;  // Other threads may outlive main().
    return *reports;
  }

  /// The first time, asks for exit() to write them: what the program does at its exit by handlers
  /// that it had before is not waited for, as it may not get to its end.
  void add(const Entry& entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
    process_.store(entry->process);
    if (has_handler_) return;
    has_handler_ = std::atexit([] { instance().write_all(); }) == 0;
  }

  void remove(const Entry& entry) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(entries_.begin(), entries_.end(), entry);
    if (found != entries_.end()) entries_.erase(found);
  }

 private:
  /// In a process that was forked meanwhile another thread may have had the lock.
  void write_all() noexcept {
    if (process_.load() != getpid()) return;
    static_cast<void>(catch_all([this] {
      for (const Entry& entry : entries()) entry->write_once(ReportTime::kExit);
      return Status::ok();
    }));
  }

  std::vector<Entry> entries() {
    const auto lock = lock_for_report(mutex_, ReportTime::kExit);
    return lock.owns_lock() ? entries_ : std::vector<Entry>();
  }

  std::mutex mutex_;
  std::vector<Entry> entries_;  // In the order in which they were opened.
  bool has_handler_ = false;
  std::atomic<pid_t> process_{0};
};

EndReport::EndReport() : entry_(std::make_shared<Entry>()) {}

EndReport::~EndReport() {
  if (entry_->process != getpid()) return;  // Never opened; or its locks are of another process.
  {
    const std::lock_guard lock(entry_->mutex);
    entry_->write = nullptr;
  }
  OpenReports::instance().remove(entry_);
}

void EndReport::open(Write write) noexcept {
  entry_->process = getpid();
  entry_->write = std::move(write);
  static_cast<void>(catch_all([this] {
    OpenReports::instance().add(entry_);
    return Status::ok();
  }));
}

void EndReport::write() noexcept {
  entry_->write_once(ReportTime::kEnd);
}

}  // namespace ringpress::nccl_plugin
