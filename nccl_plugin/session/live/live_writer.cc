#include "nccl_plugin/session/live/live_writer.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <utility>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/session/live/dump_signal.h"
#include "nccl_plugin/session/live/prometheus_page.h"
#include "nccl_plugin/session/live/timeline.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

// What a timeline loses if the process is killed.
constexpr std::chrono::seconds kTimelineInterval{1};
constexpr std::chrono::milliseconds kLongestWaitOfEnd{200};
constexpr std::chrono::milliseconds kLongestWaitOfExit{2000};

std::atomic<LiveWriter*> current_writer{nullptr};

/// Until then, or until somebody posts.
void sleep_until(sem_t* awake, LiveEntry::Clock::time_point until) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch());
  timespec end{};
  end.tv_sec = static_cast<time_t>(since.count() / 1000000000);
  end.tv_nsec = static_cast<long>(since.count() % 1000000000);
  while (sem_clockwait(awake, CLOCK_MONOTONIC, &end) != 0 && errno == EINTR) {
  }
}

/// What communicators that have ended left to be written.
void flush_at_exit() {
  LiveWriter* const writer = current_writer.load();
  if (writer != nullptr && writer->is_of_this_process()) writer->flush(ReportTime::kExit);
}

/// What a person wants to know of a process that stands still.
void dump_entry(LiveEntry& entry) {
  std::string now, total;
  {
    const std::lock_guard lock(entry.mutex);
    if (entry.read == nullptr) return;
    now = entry.describe();
    const std::optional<Statistics> statistics = entry.read(ReportTime::kEnd);
    if (statistics) total = describe_totals(*statistics);
  }
  log_always("DUMP", "%s", now.c_str());
  log_always("DUMP", "communicator %s: %s", entry.identity.comm.c_str(), total.c_str());
}

/// A process may have several ranks.
void note_rank(const LiveIdentity& identity, LiveIdentity* first) {
  if (first->ranks == 0) *first = identity;
  const bool is_of_first = identity.comm == first->comm && identity.ranks == first->ranks;
  if (is_of_first) first->rank = std::min(first->rank, identity.rank);
}

/// One that has ended is on one more page, so the last page of a program has all that it ended
/// with.
void write_pages(const std::vector<LiveWriter::EntryPointer>& all,
                 const std::set<std::string>& pages) {
  for (const std::string& path : pages) {
    std::vector<PrometheusSource> sources;
    for (const LiveWriter::EntryPointer& entry : all) {
      if (entry->files.prometheus != path) continue;
      const std::lock_guard lock(entry->mutex);
      sources.push_back({entry->identity, entry->before, {}});
      for (const CallWatch* const watch : entry->watches) {
        sources.back().activities.push_back(watch->now());
      }
    }
    write_prometheus_page(path, prometheus_page(sources));
  }
}

}  // namespace

LiveWriter& LiveWriter::of_this_process() {
  LiveWriter* writer = current_writer.load();
  while (writer == nullptr || writer->process_ != getpid()) {
    // (That of the process before stays where it is: its locks may be held.)
    std::unique_ptr<LiveWriter> own(new LiveWriter);
    if (current_writer.compare_exchange_strong(writer, own.get())) writer = own.release();
  }
  return *writer;
}

LiveWriter::LiveWriter() : process_(getpid()) {
  sem_init(&awake_, 0, 0);
}

void LiveWriter::add(const EntryPointer& entry) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_running_) start();
    note_rank(entry->identity, &first_);
    entries_.push_back(entry);
  }
  sem_post(&awake_);
}

/// Late: by then it is known which ranks the process has.
void LiveWriter::name_files(LiveEntry& entry) {
  if (std::exchange(entry.has_files, true)) return;
  const std::lock_guard lock(mutex_);
  entry.files = live_files(entry.names, first_.rank);
}

/// Signals of the program are not for this thread.
void LiveWriter::start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const Status started = catch_all([this] {
    std::thread([this] { run(); }).detach();
    return Status::ok();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started.is_ok()) throw std::runtime_error(started.message());
  is_running_ = true;
  std::atexit(flush_at_exit);
  set_dump_semaphore(&awake_);
}

void LiveWriter::run() noexcept {
  while (true) {
    const std::uint64_t asked = asked_.load();
    const bool has_dump = take_dump_request();
    // (For want of memory a round may be left out.)
    static_cast<void>(catch_all([&] {
      write_all(has_dump);
      return Status::ok();
    }));
    done_.store(asked);
    sleep_until(&awake_, next_round());
  }
}

void LiveWriter::write_all(bool has_dump) {
  std::vector<EntryPointer> all;
  {
    const std::lock_guard lock(mutex_);
    all = entries_;
  }
  std::set<std::string> pages;
  for (const EntryPointer& entry : all) write_entry(*entry, &pages);
  write_pages(all, pages);
  if (has_dump) {
    for (const EntryPointer& entry : all) dump_entry(*entry);
  }
  drop_closed();
}

/// No lock is held while a file is written.
void LiveWriter::write_entry(LiveEntry& entry, std::set<std::string>* pages) {
  std::string lines, events;
  bool has_page = false;
  {
    const std::lock_guard lock(entry.mutex);
    const bool is_open = entry.read != nullptr;
    const bool is_due = is_open && Clock::now() >= entry.next_line;
    if (is_due) entry.add_line(ReportTime::kEnd, false);
    if (is_open) entry.add_events();
    lines.swap(entry.lines);
    events.swap(entry.events);
    has_page = is_due || !is_open;
  }
  if (lines.empty() && events.empty() && !has_page) return;
  name_files(entry);
  const LiveFiles& files = entry.files;
  if (has_page && !files.prometheus.empty()) pages->insert(files.prometheus);
  if (!lines.empty()) file_of("RINGPRESS_LIVE", files.live, entry).write(lines);
  if (events.empty() || files.timeline.empty()) return;
  file_of("RINGPRESS_TIMELINE", files.timeline, entry).write(events);
}

CappedFile& LiveWriter::file_of(const char* variable, const std::string& path,
                                const LiveEntry& entry) {
  const auto found = files_.find(path);
  if (found != files_.end()) return found->second;
  const bool is_timeline = path == entry.files.timeline;
  return files_
      .try_emplace(path, std::string(variable) + "=" + path, path, entry.limit_bytes,
                   is_timeline ? CappedFile::Start::kAnew : CappedFile::Start::kAppend,
                   is_timeline ? timeline_head(entry.identity) : std::string())
      .first->second;
}

void LiveWriter::drop_closed() {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const EntryPointer& entry) {
    const std::lock_guard of_entry(entry->mutex);
    return entry->read == nullptr && !entry->stays_at_exit && entry->lines.empty() &&
           entry->events.empty();
  });
}

LiveWriter::Clock::time_point LiveWriter::next_round() {
  const auto now = Clock::now();
  auto next = now + std::chrono::hours(1);
  const std::lock_guard lock(mutex_);
  for (const EntryPointer& entry : entries_) {
    const std::lock_guard of_entry(entry->mutex);
    if (entry->read == nullptr) continue;
    next = std::min(next, entry->next_line);
    if (!entry->names.timeline.empty()) next = std::min(next, now + kTimelineInterval);
  }
  return next;
}

/// In the clock's ticks.
LiveWriter::Clock::rep LiveWriter::end_of_flush(ReportTime time) {
  const auto now = Clock::now();
  switch (time) {
    case ReportTime::kEnd:
      return (now + kLongestWaitOfEnd).time_since_epoch().count();
    case ReportTime::kExit:
      break;
  }
  const auto end = (now + kLongestWaitOfExit).time_since_epoch().count();
  Clock::rep until = 0;
  return flush_until_.compare_exchange_strong(until, end) ? end : until;
}

void LiveWriter::flush(ReportTime time) noexcept {
  if (!is_running_) return;
  const Clock::rep until = end_of_flush(time);
  const std::uint64_t asked = asked_.fetch_add(1) + 1;
  sem_post(&awake_);
  while (done_.load() < asked && Clock::now().time_since_epoch().count() < until) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace ringpress::nccl_plugin
