// NCCL's own variables in settings. What ringpress has a setting for comes first.
#ifndef NCCL_PLUGIN_SESSION_SETTINGS_NCCL_VARIABLES_H_
#define NCCL_PLUGIN_SESSION_SETTINGS_NCCL_VARIABLES_H_

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/internal/log.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// Fills Settings::nccl and Settings::address, after the settings of ringpress are read. NCCL
/// ignores values that it does not know: so does this, with a line in `warnings` (may be null).
void take_nccl_variables(const std::vector<std::pair<std::string, std::string>>& environment,
                         Settings* settings, std::vector<std::string>* warnings);

struct NcclVariable {
  const char* name;
  const char* meaning;
};
/// Those that it reads.
std::span<const NcclVariable> known_nccl_variables();

/// What is logged where NCCL_DEBUG is that word; nothing: NCCL knows none such.
std::optional<LogLevel> nccl_log_level(const std::string& word);
/// kInvalidArgument, with those there are, for a word of NCCL_DEBUG that is none. NCCL ignores it.
Status check_nccl_debug(const Settings& settings);

/// Whether lines go to NCCL_DEBUG_FILE: NCCL_DEBUG asks for some.
bool logs_to_file(const Settings& settings);
/// NCCL_DEBUG_FILE with this host's name for %h and this process's number for %p.
std::string debug_path(const std::string& pattern);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_SETTINGS_NCCL_VARIABLES_H_
