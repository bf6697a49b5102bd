#include "perf/all_reduce/progress.h"

#include <fmt/core.h>
#include <unistd.h>

namespace ringpress::perf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBarCells = 24;
constexpr std::chrono::milliseconds kRedrawInterval{100};
constexpr std::chrono::milliseconds kLineInterval{3000};

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::step(const std::string& what, int step, int steps) {
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + (terminal_ ? kRedrawInterval : kLineInterval);
  if (!terminal_) {
    fmt::print(stderr, "[{}/{}] {}\n", step, steps, what);
    return;
  }
  const int filled = kBarCells * (step - 1) / (steps > 0 ? steps : 1);
  fmt::print(stderr, "\r\033[K[{}{}] {}/{} {}", std::string(static_cast<std::size_t>(filled), '#'),
             std::string(static_cast<std::size_t>(kBarCells - filled), '.'), step, steps, what);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace ringpress::perf
