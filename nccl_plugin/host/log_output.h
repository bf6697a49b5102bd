// RINGPRESS_DEBUG, NCCL_DEBUG and NCCL_DEBUG_FILE on host memory, where no other NCCL reads them.
#ifndef NCCL_PLUGIN_HOST_LOG_OUTPUT_H_
#define NCCL_PLUGIN_HOST_LOG_OUTPUT_H_

#include "ringpress/internal/log.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::host {

/// What is logged: as RINGPRESS_DEBUG says, else NCCL_DEBUG, else warnings.
LogLevel log_level_of(const Settings& settings);

/// Makes both hold from now on. With NCCL_DEBUG, the first time, logs the library's version, unless
/// RINGPRESS_DEBUG asks for less. A file that cannot be opened is named on standard error, where
/// lines then go on going; a word that NCCL does not know is a warning.
void direct_log(const Settings& settings);

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_LOG_OUTPUT_H_
