#include "nccl_plugin/session/live/dump_signal.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "nccl_plugin/errors/warn_once.h"

namespace ringpress::nccl_plugin {
namespace {

std::atomic<sem_t*> dump_semaphore{nullptr};
std::atomic<bool> is_dump_wanted{false};
static_assert(std::atomic<sem_t*>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "a handler of a signal takes no lock");

/// All that may be done here is to wake who writes.
void ask_for_dump(int) {
  const int error = errno;
  is_dump_wanted.store(true);
  if (sem_t* const awake = dump_semaphore.load()) sem_post(awake);
  errno = error;
}

/// True if it is ours from now on, or was before.
bool take_signal() {
  struct sigaction found {};
  if (sigaction(SIGUSR2, nullptr, &found) != 0) return false;
  if (found.sa_handler == ask_for_dump) return true;
  if (found.sa_handler != SIG_DFL) return false;
  struct sigaction own {};
  own.sa_handler = ask_for_dump;
  own.sa_flags = SA_RESTART;
  sigemptyset(&own.sa_mask);
  return sigaction(SIGUSR2, &own, nullptr) == 0;
}

}  // namespace

void take_dump_signal() {
  if (take_signal()) return;
  warn_once("RINGPRESS_DUMP_SIGNAL=1: the program handles SIGUSR2 itself, which gets no dump");
}

void set_dump_semaphore(sem_t* awake) {
  dump_semaphore.store(awake);
}

bool take_dump_request() {
  return is_dump_wanted.exchange(false);
}

std::string describe_totals(const Statistics& total) {
  std::string text = std::to_string(total.calls) + " calls have ended, " +
                     std::to_string(total.compressed_calls) + " of them compressed; " +
                     std::to_string(total.raw_bytes) + " bytes would have been sent, and " +
                     std::to_string(total.wire_bytes) + " were";
  if (total.calls == 0) return text;
  text += "; the last call had " + total.last_codec + " by " + total.last_algorithm;
  if (!total.last_reason.empty()) text += " (" + total.last_reason + ")";
  for (const auto& [reason, count] : total.exact_calls) {
    text += "; exact as " + reason + ": " + std::to_string(count);
  }
  return text;
}

}  // namespace ringpress::nccl_plugin
