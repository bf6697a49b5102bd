// What both versions of the environment plugin do: the process's own environment, and where that
// has nothing, the few values without which NCCL would not use this library's CollNet.
//
// NCCL puts its configuration files into the process's environment, where a variable is not there
// yet, before it loads this plugin: so they win over what is answered here, and the environment
// over them. What a program asks for one communicator (ncclConfig_t: collnetEnable, splitShare)
// loses to any value of the environment, and so to these.
#ifndef NCCL_PLUGIN_PLUGIN_ENV_H_
#define NCCL_PLUGIN_PLUGIN_ENV_H_

#include "nccl_plugin/abi/types.h"

namespace ringpress::nccl_plugin::plugin {

/// NCCL asks for nothing before this. Never fails: NCCL would fail with it.
void start_environment() noexcept;

/// The value of a variable or null. What is returned stays as it is for the life of the process,
/// whatever the program does to its environment. Any thread, as far as getenv() is safe.
const char* environment_value(const char* name) noexcept;

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_ENV_H_
