// Every file and folder that a setting has this library write to: looked at when a communicator is
// made, and by `ringpress doctor` before a job, so that a wrong path is no surprise at its end.
#ifndef NCCL_PLUGIN_SESSION_OUTPUT_FILES_H_
#define NCCL_PLUGIN_SESSION_OUTPUT_FILES_H_

#include <vector>

#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// "VARIABLE=path: reason" of each that could not be written; empty if all could. Leaves nothing
/// behind. Of all ranks: those of RINGPRESS_TUNING_LOG, RINGPRESS_TRACE and RINGPRESS_CACHE are
/// written by rank 0 alone. NCCL_DEBUG_FILE is only this library's on host memory.
std::vector<Status> find_output_problems(const Settings& settings);

/// Warns, once a process, of those that this rank is to write.
void warn_of_outputs(const Settings& settings, int rank);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_OUTPUT_FILES_H_
