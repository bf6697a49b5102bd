#include "perf/ringpress/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

namespace ringpress::perf {
namespace {

constexpr std::chrono::seconds kPatience(30);

/// Everything until the end of the stream; false if it does not come in time.
bool read_all(int stream, std::string* text) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
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

/// `work` gets the stream that the returned text comes from.
std::string talk_to_child(const std::function<void(int)>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    work(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  const bool complete = child > 0 && read_all(ends[0], &text);
  close(ends[0]);
  if (child > 0) {
    if (!complete) kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return complete ? text : "";
}

}  // namespace

std::string answer_of_child(const std::function<std::string()>& work) {
  return talk_to_child([&work](int stream) { write_all(stream, work()); });
}

std::string output_of(const std::vector<std::string>& command) {
  return talk_to_child([&command](int stream) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (dup2(nothing, STDIN_FILENO) < 0 || dup2(stream, STDOUT_FILENO) < 0 ||
        dup2(nothing, STDERR_FILENO) < 0) {
      return;
    }
    execvp(arguments[0], arguments.data());
  });
}

}  // namespace ringpress::perf
