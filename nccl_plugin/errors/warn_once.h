// Warnings that would come again for each communicator.
#ifndef NCCL_PLUGIN_ERRORS_WARN_ONCE_H_
#define NCCL_PLUGIN_ERRORS_WARN_ONCE_H_

#include <string>

namespace ringpress::nccl_plugin {

/// Logs a warning, unless this process has logged the same text before. Any thread.
void warn_once(const std::string& text);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_ERRORS_WARN_ONCE_H_
