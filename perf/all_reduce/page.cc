#include "perf/all_reduce/page.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {
namespace {

/// The exit status, or 128 and the signal as a shell has it.
int status_of(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string report_command() {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = own.parent_path() / "ringpress";
  const bool is_there = !error && access(beside.c_str(), X_OK) == 0;
  return is_there ? beside.string() : "ringpress";
}

void write_page(const std::string& json_path, const std::string& page_path) {
  const std::string command = report_command();
  const char* const arguments[] = {command.c_str(),   "report",          "-o",
                                   page_path.c_str(), json_path.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Its summary does not belong to the table that is printed here.
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  const int failure = posix_spawnp(&process, command.c_str(), &actions, nullptr,
                                   const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    throw terminal::Error(fmt::format("--plot {}: {} cannot be started: {}", page_path, command,
                                      std::strerror(failure)));
  }
  const int status = status_of(process);
  if (status == 0) return;
  throw terminal::Error(
      fmt::format("--plot {}: {} report ended with {}", page_path, command, status));
}

TemporaryFile::TemporaryFile() {
  std::error_code error;
  const auto folder = std::filesystem::temp_directory_path(error);
  path_ = ((error ? "/tmp" : folder) / "all_reduce_perf-XXXXXX").string();
  const int descriptor = mkstemp(path_.data());
  if (descriptor < 0) throw terminal::Error(path_ + ": " + std::strerror(errno));
  close(descriptor);
}

TemporaryFile::~TemporaryFile() {
  unlink(path_.c_str());
}

}  // namespace ringpress::perf
