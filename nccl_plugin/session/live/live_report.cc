#include "nccl_plugin/session/live/live_report.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/live/dump_signal.h"
#include "nccl_plugin/session/live/live_entry.h"
#include "nccl_plugin/session/live/live_writer.h"

namespace ringpress::nccl_plugin {
namespace {

/// A clock can count that far.
constexpr double kLongestInterval = 1e8;
constexpr double kShortestInterval = 1e-3;

CallWatch::Clock::duration interval_of(const Settings& settings) {
  const double seconds = std::clamp(settings.live_seconds, kShortestInterval, kLongestInterval);
  return std::chrono::duration_cast<CallWatch::Clock::duration>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

LiveReport::~LiveReport() {
  // In another process its lock may be held for ever.
  if (entry_ == nullptr || entry_->process != getpid()) return;
  const std::lock_guard lock(entry_->mutex);
  entry_->read = nullptr;
  entry_->watches.clear();
}

void LiveReport::open(const Settings& settings, const LiveIdentity& identity, Read read,
                      Watches watches) noexcept {
  if (!follows_calls(settings)) return;
  const Status opened = catch_all([&] {
    LiveWriter& writer = LiveWriter::of_this_process();
    auto entry = std::make_shared<LiveEntry>();
    entry->process = getpid();
    entry->identity = identity;
    entry->names = live_names(settings);
    entry->interval = interval_of(settings);
    entry->limit_bytes = settings.live_limit_bytes;
    entry->lane = writer.take_lanes(std::max<std::size_t>(watches.size(), 1));
    entry->read = std::move(read);
    entry->watches = std::move(watches);
    entry->last_line = LiveEntry::Clock::now();
    entry->next_line = entry->last_line + entry->interval;
    writer.add(entry);
    entry_ = std::move(entry);
    if (settings.dump_signal) take_dump_signal();
    return Status::ok();
  });
  if (opened.is_ok()) return;
  static_cast<void>(catch_all([&] {
    warn_once("RINGPRESS_LIVE and the like: nothing is written while the program runs: " +
              opened.message());
    return Status::ok();
  }));
}

void LiveReport::close(ReportTime time) noexcept {
  if (entry_ == nullptr || entry_->process != getpid()) return;
  static_cast<void>(catch_all([&] {
    {
      const auto lock = lock_for_report(entry_->mutex, time);
      if (!lock.owns_lock() || entry_->read == nullptr) return Status::ok();
      entry_->add_events();
      entry_->add_line(time, true);
      entry_->stays_at_exit = time == ReportTime::kExit;
      entry_->read = nullptr;
      entry_->watches.clear();
    }
    LiveWriter::of_this_process().flush(time);
    return Status::ok();
  }));
}

}  // namespace ringpress::nccl_plugin
