// Files that people write, as text.
#ifndef NCCL_PLUGIN_COMMAND_PLAN_TEXT_FILE_H_
#define NCCL_PLUGIN_COMMAND_PLAN_TEXT_FILE_H_

#include <cstddef>
#include <string>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::command {

inline constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;

/// Up to its end; refused if there are more than kMostTextBytes. An error does not name the file.
Result<std::string> read_text_file(const std::string& path);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PLAN_TEXT_FILE_H_
