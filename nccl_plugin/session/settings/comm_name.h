// What the name says that a program gives a communicator (ncclConfig_t::commName).
#ifndef NCCL_PLUGIN_SESSION_SETTINGS_COMM_NAME_H_
#define NCCL_PLUGIN_SESSION_SETTINGS_COMM_NAME_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

/// What a communicator's name says of its calls.
enum class NamedFor : std::uint8_t { kNothing, kGradients, kOthers };

/// By the words in it: "mesh_dp", "DATA_PARALLEL_GROUP", "tp_0". Capitals are of no matter.
NamedFor named_for(std::string_view name);

/// What all ranks have to know alike of a name, as decisions go by it; empty: none does.
std::string name_to_agree_on(const CallSettings& settings, std::string_view name);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_SETTINGS_COMM_NAME_H_
