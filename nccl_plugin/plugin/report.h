// The firewall of the plugin door: inside, errors are Statuses and exceptions; outside,
// ncclResult_t, and one line in NCCL's own log that names the cause. Nothing goes to standard
// output.
#ifndef NCCL_PLUGIN_PLUGIN_REPORT_H_
#define NCCL_PLUGIN_PLUGIN_REPORT_H_

#include <utility>

#include "nccl_plugin/abi/types.h"
#include "nccl_plugin/errors/firewall.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::plugin {

/// NCCL's log function, as each of its init calls gives it. The process has one. Null is ignored.
void set_logger(abi::Logger logger) noexcept;

/// settings_from_environment(), of which RINGPRESS_DEBUG holds from now on: for lines of
/// ringpress's own, which go to standard error, as at the other doors.
Settings read_settings();

/// A line of NCCL's log, "ringpress: " before it; of ringpress's own while NCCL has given no
/// function. printf-style; cut at 1000 characters. Any thread.
__attribute__((format(printf, 3, 4))) void log(abi::LogLevel level, unsigned long subsystem,
                                               const char* format, ...) noexcept;

/// Logs a failure of the entry point `function` and returns its result code.
ncclResult_t report(const char* function, const Status& status) noexcept;

/// The body of an entry point.
template <typename Body>
ncclResult_t answer(const char* function, Body&& body) noexcept {
  return report(function, catch_all(std::forward<Body>(body)));
}

/// The same for calls that a failed communicator answers alike, however many there are: the body
/// sets a bool (false at first) where that failure has been logged before.
template <typename Body>
ncclResult_t answer_once(const char* function, Body&& body) noexcept {
  bool is_told = false;
  const Status status = catch_all([&] { return body(&is_told); });
  return is_told ? to_nccl_result(status.code()) : report(function, status);
}

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_REPORT_H_
