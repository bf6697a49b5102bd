#include "nccl_plugin/host/translate.h"

#include <cstddef>
#include <cstdio>
#include <mutex>
#include <type_traits>

#include "nccl_plugin/host/comm.h"
#include "nccl_plugin/host/registry.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin::host {
namespace {

constexpr std::size_t kTextBytes = 2048;

// Plain arrays: nothing to construct on the first use in a thread, nothing to destroy at its end.
thread_local char thread_text[kTextBytes];
thread_local char returned_text[kTextBytes];

// Nor here: it is there without memory, and until the process has ended.
struct ProcessText {
  std::mutex mutex;
  char text[kTextBytes] = "";
};
constinit ProcessText process;
static_assert(std::is_trivially_destructible_v<ProcessText>);

}  // namespace

void set_last_error(const std::string& text) noexcept {
  std::snprintf(thread_text, kTextBytes, "%s", text.c_str());
  const std::lock_guard lock(process.mutex);
  std::snprintf(process.text, kTextBytes, "%s", text.c_str());
}

const char* last_error() noexcept {
  if (thread_text[0] != '\0') {
    std::snprintf(returned_text, kTextBytes, "%s", thread_text);
    return returned_text;
  }
  const std::lock_guard lock(process.mutex);
  std::snprintf(returned_text, kTextBytes, "%s", process.text);
  return returned_text;
}

const char* keep_text(const std::string& text) noexcept {
  std::snprintf(returned_text, kTextBytes, "%s", text.c_str());
  return returned_text;
}

ncclResult_t report(const char* function, ncclComm_t comm, const Status& status) noexcept {
  if (status.is_ok() || status.code() == Code::kInProgress) return to_nccl_result(status.code());
  try {
    const std::string text =
        std::string(function) + ": " + code_name(status.code()) + ": " + status.message();
    set_last_error(text);
    log_line(LogLevel::kInfo, "%s", text.c_str());
    if (const auto live = Registry::instance().find(comm)) live->objects().error.set(text);
  } catch (const std::exception&) {
    set_last_error({});  // Out of memory: the code alone must do.
  }
  return to_nccl_result(status.code());
}

}  // namespace ringpress::nccl_plugin::host
