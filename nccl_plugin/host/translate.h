// The firewall of the C door: inside, errors are Statuses and exceptions; outside, ncclResult_t and
// the text of ncclGetLastError().
#ifndef NCCL_PLUGIN_HOST_TRANSLATE_H_
#define NCCL_PLUGIN_HOST_TRANSLATE_H_

#include <string>
#include <utility>

#include "nccl_plugin/errors/firewall.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::host {

/// Makes `text` the last error of this thread and of the process. Never throws; long texts are cut.
void set_last_error(const std::string& text) noexcept;

/// The last error of this thread or, without one, of the process. Never null; valid until this
/// thread asks again.
const char* last_error() noexcept;

/// Keeps `text` for this thread, as last_error() does, and returns it.
const char* keep_text(const std::string& text) noexcept;

/// Records a failure of the entry point `function` and returns its result code. The text also
/// becomes that of `comm`, if it is a live handle. Success and "in progress" record nothing.
ncclResult_t report(const char* function, ncclComm_t comm, const Status& status) noexcept;

/// The body of an entry point that groups do not collect.
template <typename Body>
ncclResult_t firewall(const char* function, ncclComm_t comm, Body&& body) noexcept {
  return report(function, comm, catch_all(std::forward<Body>(body)));
}

}  // namespace ringpress::nccl_plugin::host

// An entry point throws nothing, and gcc, which has seen that, wants its second name to say so.
// clang takes the word for a different type.
#ifdef __clang__
#define RINGPRESS_ALIAS_OF(target) __attribute__((alias(target)))
#else
#define RINGPRESS_ALIAS_OF(target) __attribute__((nothrow, alias(target)))
#endif

/// Gives the entry point nccl`name`, defined above in the same file, its second name.
#define RINGPRESS_PROFILING_NAME(name) \
  extern "C" RINGPRESS_EXPORT __typeof__(nccl##name) pnccl##name RINGPRESS_ALIAS_OF("nccl" #name)

#endif  // NCCL_PLUGIN_HOST_TRANSLATE_H_
