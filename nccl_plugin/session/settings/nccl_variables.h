// NCCL's own variables in settings. What ringpress has a setting for comes first.
#ifndef NCCL_PLUGIN_SESSION_SETTINGS_NCCL_VARIABLES_H_
#define NCCL_PLUGIN_SESSION_SETTINGS_NCCL_VARIABLES_H_

#include <string>
#include <utility>
#include <vector>

#include "ringpress/settings.h"

namespace ringpress::nccl_plugin {

/// Fills Settings::nccl and Settings::address, after the settings of ringpress are read. NCCL ignores
/// values that it does not know: so does this, with a line in `warnings` (may be null).
void take_nccl_variables(const std::vector<std::pair<std::string, std::string>>& environment,
                         Settings* settings, std::vector<std::string>* warnings);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_SETTINGS_NCCL_VARIABLES_H_
