// When a report is written, and how often. Each test ends processes of its own.
#include "nccl_plugin/session/end_report.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/errors/warn_once.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {
namespace {

/// Where processes write to, one after the other.
class Paper {
 public:
  Paper() : file_(std::tmpfile()) { EXPECT_EQ(fcntl(descriptor(), F_SETFL, O_APPEND), 0); }
  ~Paper() { std::fclose(file_); }
  Paper(const Paper&) = delete;
  Paper& operator=(const Paper&) = delete;

  void write(const std::string& text) const {
    if (::write(descriptor(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      std::abort();
    }
  }
  std::string read() const {
    std::string text(1 << 20, ' ');
    const ssize_t size = pread(descriptor(), text.data(), text.size(), 0);
    return text.substr(0, static_cast<std::size_t>(size));
  }
  /// What a report of that name writes.
  EndReport::Write entry(const std::string& name) const {
    return [this, name](ReportTime time) {
      write(name + (time == ReportTime::kEnd ? " at its end\n" : " at the exit\n"));
    };
  }

 private:
  int descriptor() const { return fileno(file_); }
  std::FILE* file_;
};

/// Runs `body` in a process that then exits.
template <typename Body>
void in_exiting_process(Body&& body) {
  std::fflush(nullptr);
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    body();
    std::exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0);
}

TEST(EndReport, IsWrittenAtItsEndOrAtTheExit) {
  Paper paper;
  in_exiting_process([&] {
    static EndReport written, left, again, never_open;
    EndReport dropped;
    written.open(paper.entry("written"));
    left.open(paper.entry("left"));
    again.open(paper.entry("again"));
    dropped.open(paper.entry("dropped"));
    again.write();
    written.write();
    again.write();
    never_open.write();
  });
  EXPECT_EQ(paper.read(), "again at its end\nwritten at its end\nleft at the exit\n");
}

TEST(EndReport, WhatThrowsKeepsNoOtherFromBeingWritten) {
  Paper paper;
  in_exiting_process([&] {
    static EndReport thrower, other, at_its_end;
    at_its_end.open([](ReportTime) { throw 1; });
    thrower.open([](ReportTime) { throw std::bad_alloc(); });
    other.open(paper.entry("other"));
    at_its_end.write();
  });
  EXPECT_EQ(paper.read(), "other at the exit\n");
}

TEST(EndReport, IsOfTheProcessThatOpenedIt) {
  Paper paper;
  in_exiting_process([&] {
    static auto parents = std::make_unique<EndReport>();
    static EndReport childs;
    parents->open(paper.entry("parent's"));
    in_exiting_process([&] { parents->write(); });
    in_exiting_process([&] { parents.reset(); });
    in_exiting_process([&] { childs.open(paper.entry("child's")); });
    paper.write("children have ended\n");
  });
  EXPECT_EQ(paper.read(), "child's at the exit\nchildren have ended\nparent's at the exit\n");
}

TEST(EndReport, TheExitWaitsForWhatIsBeingWritten) {
  Paper paper;
  in_exiting_process([&] {
    static EndReport slow;
    static std::atomic<bool> has_begun{false};
    slow.open([&](ReportTime) {
      has_begun.store(true);
      has_begun.notify_one();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      paper.write("all of it\n");
    });
    std::thread([] { slow.write(); }).detach();
    has_begun.wait(false);
  });
  EXPECT_EQ(paper.read(), "all of it\n");
}

TEST(EndReport, TheExitDoesNotWaitForEverForALock) {
  Paper paper;
  in_exiting_process([&] {
    static std::mutex kept;
    static EndReport stuck, other;
    kept.lock();  // As in a handler of a signal that calls exit().
    stuck.open([&](ReportTime time) {
      if (!lock_for_report(kept, time).owns_lock()) paper.write("gives up\n");
    });
    other.open(paper.entry("other"));
  });
  EXPECT_EQ(paper.read(), "gives up\nother at the exit\n");
}

TEST(EndReport, ComesOnceWhileThreadsEndThem) {
  constexpr int kThreads = 4, kReports = 2000;
  Paper paper;
  in_exiting_process([&] {
    for (int thread = 0; thread < kThreads; ++thread) {
      std::thread([&paper, thread] {
        for (int i = 0; i < kReports; ++i) {
          EndReport report;
          report.open(paper.entry(std::to_string(thread) + "," + std::to_string(i)));
          if (i % 2 == 0) report.write();
          std::this_thread::yield();
          report.write();
        }
      }).detach();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  std::istringstream lines(paper.read());
  std::set<std::string> names;
  std::size_t count = 0;
  for (std::string name, rest; lines >> name && std::getline(lines, rest); ++count) {
    names.insert(name);
  }
  EXPECT_EQ(names.size(), count);
  EXPECT_GT(count, 0u);
}

// As one at the exit may, in a handler of a signal.
TEST(WarnOnce, MayInterruptItself) {
  in_exiting_process([] {
    static const std::string text = "said before";
    static volatile std::sig_atomic_t handled = 0;
    set_log_level(LogLevel::kError);
    warn_once(text);
    std::signal(SIGALRM, [](int) {
      warn_once(text);
      handled = handled + 1;
    });
    const itimerval often{{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &often, nullptr);
    while (handled < 1000) warn_once(text);
    std::signal(SIGALRM, SIG_IGN);
  });
}

TEST(WarnOnce, LogsATextOnceWhateverThreadsSay) {
  constexpr int kThreads = 4, kTexts = 500;
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  set_log_descriptor(fileno(file));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread] {
      for (int i = 0; i < kTexts; ++i) {
        warn_once("text " + std::to_string(thread % 2 == 0 ? i : kTexts - 1 - i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  set_log_descriptor(STDERR_FILENO);
  std::rewind(file);
  char line[256];
  std::set<std::string> different;
  int lines = 0;
  for (; std::fgets(line, sizeof line, file) != nullptr; ++lines) different.insert(line);
  EXPECT_EQ(lines, kTexts);
  EXPECT_EQ(different.size(), static_cast<std::size_t>(kTexts));
  std::fclose(file);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
