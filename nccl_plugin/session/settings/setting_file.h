// Files that settings name.
#ifndef NCCL_PLUGIN_SESSION_SETTINGS_SETTING_FILE_H_
#define NCCL_PLUGIN_SESSION_SETTINGS_SETTING_FILE_H_

#include <string>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// The whole of a regular file of at most a megabyte. Never waits, as a pipe would make it. An
/// error does not name the file.
Result<std::string> read_setting_file(const std::string& path);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_SETTINGS_SETTING_FILE_H_
