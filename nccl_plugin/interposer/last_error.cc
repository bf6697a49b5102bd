#include "nccl_plugin/interposer/last_error.h"

#include <cstdio>
#include <mutex>

#include "nccl_plugin/errors/firewall.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::interposer {
namespace {

constexpr std::size_t kLongest = 1024;
std::mutex mutex;
char current[kLongest];

}  // namespace

void set_last_error(const std::string& text) {
  const std::lock_guard lock(mutex);
  std::snprintf(current, sizeof current, "%s", text.c_str());
}

ncclResult_t of_real(ncclResult_t result) {
  if (result != ncclSuccess && result != ncclInProgress) set_last_error("");
  return result;
}

ncclResult_t out_of_memory() noexcept {
  static_cast<void>(catch_all([] {
    set_last_error("ringpress: out of memory");
    return Status::ok();
  }));
  return ncclSystemError;
}

void warn_if_failed(const char* what, const Status& status) noexcept {
  if (status.is_ok()) return;
  log_line(LogLevel::kWarn, "%s: %s", what, status.message().c_str());
}

const char* last_error() {
  thread_local char copied[kLongest];
  const std::lock_guard lock(mutex);
  std::snprintf(copied, sizeof copied, "%s", current);
  return copied;
}

}  // namespace ringpress::nccl_plugin::interposer
