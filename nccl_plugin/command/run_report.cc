#include "nccl_plugin/command/run_report.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "nccl_plugin/command/run_settings.h"
#include "nccl_plugin/command/terminal/error.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::command {
namespace {

namespace fs = std::filesystem;

struct ReportFile {
  const char* variable;
  const char* begin;  // Of the file's name; the host's name and the end follow.
  const char* end;
};
// The file of RINGPRESS_LIVE has the host's and the process's numbers by itself.
constexpr ReportFile kReportFiles[] = {{"RINGPRESS_STATS", "statistics-", ".jsonl"},
                                       {"RINGPRESS_TUNING_LOG", "tuning-", ".csv"}};
constexpr const char* kLive = "RINGPRESS_LIVE";
constexpr const char* kLiveFile = "live-%h-%p-%r.jsonl";

// Signals by which a process is asked to end or to say something.
constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

volatile std::sig_atomic_t child_of_handler = 0;

/// What a terminal sends goes to the child too, as it is of the same process group.
void pass_on(int signal, siginfo_t* info, void*) {
  const bool is_of_terminal = info->si_code > 0;
  if (child_of_handler > 0 && !is_of_terminal) kill(child_of_handler, signal);
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "host";
  std::string text = name;
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

bool has_setting(const char* name) {
  const auto& all = setting_descriptions();
  return std::any_of(all.begin(), all.end(), [name](const SettingDescription& setting) {
    return std::string(setting.name) == name;
  });
}

std::string absolute(const std::string& folder) {
  return fs::absolute(folder).lexically_normal().string();
}

}  // namespace

Variables variables_of_report(const std::string& folder, const JobEnvironment& environment) {
  Variables variables;
  const fs::path root = absolute(folder);
  const auto set = [&](const char* variable, const std::string& name) {
    const std::string path = (root / name).string();
    check_not_set("--report " + folder, variable, path, environment);
    variables.emplace_back(variable, path);
  };
  for (const ReportFile& file : kReportFiles) {
    set(file.variable, file.begin + host_name() + file.end);
  }
  if (has_setting(kLive)) set(kLive, kLiveFile);
  return variables;
}

void make_report_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) {
    throw terminal::Error(fmt::format("--report {}: {}", folder,
                                      error ? error.message() : "it is there and is no folder"));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    throw terminal::Error(fmt::format("--report {}: {}", folder, std::strerror(errno)));
  }
}

void tell_report(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error)) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  if (found.empty()) {
    fmt::print(stderr,
               "ringpress run: report: {} has no file: no communicator of the program used this "
               "library, or none has ended; `ringpress doctor PROGRAM` says why\n",
               folder);
    return;
  }
  for (const std::string& path : found) fmt::print(stderr, "ringpress run: report: {}\n", path);
  fmt::print(stderr, "ringpress run: report: `ringpress report {}` makes a page of them\n", folder);
}

ChildEnd run_in_child(const std::function<int()>& work) {
  struct sigaction handler = {};
  handler.sa_sigaction = pass_on;
  handler.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : kPassedOn) sigaddset(&handler.sa_mask, signal);
  // Until the child is known, what comes waits.
  sigset_t before;
  sigprocmask(SIG_BLOCK, &handler.sa_mask, &before);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    sigprocmask(SIG_SETMASK, &before, nullptr);
    throw terminal::Error(fmt::format("cannot start a process: {}", std::strerror(error)));
  }
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    _exit(work());
  }
  child_of_handler = child;
  for (const int signal : kPassedOn) {
    struct sigaction old = {};
    sigaction(signal, nullptr, &old);
    if (old.sa_handler != SIG_IGN) sigaction(signal, &handler, nullptr);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  child_of_handler = 0;
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

int end_as(const ChildEnd& child) {
  if (child.signal == 0) return child.status;
  std::fflush(nullptr);
  std::signal(child.signal, SIG_DFL);
  std::raise(child.signal);
  return 128 + child.signal;  // As a shell has it, where the signal is blocked.
}

}  // namespace ringpress::nccl_plugin::command
