// The tables of the environment plugin. A function is named after the first version that has its
// signature.
#include "nccl_plugin/abi/env_v1.h"
#include "nccl_plugin/abi/env_v2.h"
#include "nccl_plugin/plugin/door_variables.h"
#include "nccl_plugin/plugin/env.h"
#include "nccl_plugin/plugin/report.h"
#include "ringpress/internal/export.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

ncclResult_t init_v1(std::uint8_t, std::uint8_t, std::uint8_t, const char*) {
  start_environment();
  return ncclSuccess;
}

ncclResult_t init_v2(std::uint8_t, std::uint8_t, std::uint8_t, const char*, abi::Logger logger) {
  set_logger(logger);
  start_environment();
  return ncclSuccess;
}

/// NCCL calls this when the process exits, with threads that may still use what they were given.
ncclResult_t finalize_v1() {
  return ncclSuccess;
}

const char* get_env_v1(const char* name) {
  return environment_value(name);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin

namespace plugin = ringpress::nccl_plugin::plugin;

extern "C" {

RINGPRESS_EXPORT extern const ringpress::abi::EnvV1 ncclEnvPlugin_v1 = {
    plugin::kPluginName, plugin::init_v1, plugin::finalize_v1, plugin::get_env_v1};

RINGPRESS_EXPORT extern const ringpress::abi::EnvV2 ncclEnvPlugin_v2 = {
    plugin::kPluginName, plugin::init_v2, plugin::finalize_v1, plugin::get_env_v1};

}  // extern "C"
