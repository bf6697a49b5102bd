// ncclConfig_t as programs of any NCCL version pass it: checked, and reduced to what is used.
#ifndef NCCL_PLUGIN_HOST_CONFIGURATION_H_
#define NCCL_PLUGIN_HOST_CONFIGURATION_H_

#include <limits>
#include <string>

#include "ringpress/internal/call_options.h"
#include "ringpress/internal/one_sided.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/status.h"
#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::host {

/// What the host backend uses of an ncclConfig_t.
struct Configuration {
  bool blocking = true;
  std::string name = {};  // Of the communicator; empty: it has none.
  OneSidedLimits one_sided = {};
  int most_channels = std::numeric_limits<int>::max();  // For calls that ask for more.
};

/// Checks `config`, which may be shorter (older programs) or longer (newer ones) than ours. What it
/// leaves unset, and everything if it is null, comes from `inherited`.
Result<Configuration> parse_configuration(const ncclConfig_t* config,
                                          const Configuration& inherited);

/// What `config`, which may be null, asks for one call of a communicator with such a configuration.
/// As with parse_configuration(), it may be shorter or longer than ours.
Result<CallOptions> parse_call_options(const ncclCollConfig_t* config,
                                       const Configuration& configuration);

/// The settings of a communicator that is about to be made. Wrong ones are refused when the ranks
/// have met.
Settings settings_for_init(const std::string& comm_name = {});

}  // namespace ringpress::nccl_plugin::host

#endif  // NCCL_PLUGIN_HOST_CONFIGURATION_H_
