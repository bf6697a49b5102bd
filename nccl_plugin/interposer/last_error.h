// The text of the engine's own last error, for ncclGetLastError(): the real library knows nothing
// of what failed here.
#ifndef NCCL_PLUGIN_INTERPOSER_LAST_ERROR_H_
#define NCCL_PLUGIN_INTERPOSER_LAST_ERROR_H_

#include <string>

#include "ringpress/internal/status.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::interposer {

/// Of the process, as NCCL's. Any thread.
void set_last_error(const std::string& text);
/// What the real library answered. If it is an error, that one is the last.
ncclResult_t of_real(ncclResult_t result);
/// What a call answers for which there is no memory.
ncclResult_t out_of_memory() noexcept;
/// A warning about what is not asked for by a call that could answer with an error.
void warn_if_failed(const char* what, const Status& status) noexcept;
/// Empty if there is none. Valid until this thread asks again.
const char* last_error();

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_LAST_ERROR_H_
