#include "nccl_plugin/command/child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace ringpress::nccl_plugin::command {
namespace {

/// Everything until the end of the stream; false if it does not come in time.
bool read_all(int stream, std::chrono::milliseconds patience, std::string* text) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd readable = {stream, POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&readable, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char part[4096];
    const ssize_t got = read(stream, part, sizeof part);
    if (got <= 0) return got == 0;
    text->append(part, static_cast<std::size_t>(got));
  }
}

void write_all(int stream, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t put = write(stream, text.data() + at, text.size() - at);
    if (put <= 0) return;
    at += static_cast<std::size_t>(put);
  }
}

/// Of a child that has not answered in full.
std::string fate_text(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("died of signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("was ended, with exit status {}", WEXITSTATUS(status));
}

/// `work` gets the stream that the text of the answer comes from.
ChildAnswer talk_to_child(const std::function<void(int)>& work,
                          std::chrono::milliseconds patience) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {"", "was not started: there is no pipe for it"};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    work(ends[1]);
    _exit(EXIT_SUCCESS);
  }
  close(ends[1]);
  ChildAnswer answer;
  const bool in_time = child > 0 && read_all(ends[0], patience, &answer.text);
  close(ends[0]);
  if (child < 0) return {"", "was not started"};
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) return {"", fmt::format("took longer than {} s", patience.count() / 1000.0)};
  if (status != 0 || answer.text.empty()) return {"", fate_text(status)};
  return answer;
}

}  // namespace

ChildAnswer answer_of_child(const std::function<std::string()>& work,
                            std::chrono::milliseconds patience) {
  return talk_to_child(
      [&work](int stream) {
        const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (dup2(nothing, STDOUT_FILENO) >= 0) write_all(stream, work());
      },
      patience);
}

std::string output_of(const std::vector<std::string>& command, const Variables& variables) {
  const auto start = [&](int stream) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (dup2(nothing, STDIN_FILENO) < 0 || dup2(stream, STDOUT_FILENO) < 0 ||
        dup2(nothing, STDERR_FILENO) < 0) {
      return;
    }
    execvp(arguments[0], arguments.data());
  };
  return talk_to_child(start, kChildPatience).text;
}

}  // namespace ringpress::nccl_plugin::command
