// What every door does at its entry points: inside, errors are Statuses and exceptions; outside,
// ncclResult_t. They are translated here and nowhere else.
#ifndef NCCL_PLUGIN_ERRORS_FIREWALL_H_
#define NCCL_PLUGIN_ERRORS_FIREWALL_H_

#include <exception>
#include <new>
#include <utility>

#include "ringpress/internal/status.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin {

ncclResult_t to_nccl_result(Code code);

/// What a function of the real library answered: the way back, so that its callers get its code.
Status answered(const char* function, ncclResult_t result);

/// Calls `body` and returns its Status; an exception becomes one.
template <typename Body>
Status catch_all(Body&& body) noexcept {
  try {
    try {
      return std::forward<Body>(body)();
    } catch (const std::bad_alloc&) {
      return Status(Code::kSystem, "out of memory");
    } catch (const std::exception& error) {
      return Status(Code::kInternal, error.what());
    } catch (...) {
      return Status(Code::kInternal, "an exception of unknown type");
    }
  } catch (...) {
    return Status(Code::kSystem, "");  // Not even the message could be stored.
  }
}

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_ERRORS_FIREWALL_H_
