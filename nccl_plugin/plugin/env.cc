#include "nccl_plugin/plugin/env.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "nccl_plugin/abi/env_v1.h"
#include "nccl_plugin/plugin/door_variables.h"
#include "nccl_plugin/plugin/report.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

std::atomic<bool> default_net_is_ours{false};

/// Every value that was ever returned. Never freed: NCCL's threads may hold one to the very end.
class Values {
 public:
  const char* keep(const char* value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return values_.emplace(value).first->c_str();
  }

 private:
  std::mutex mutex_;
  std::set<std::string, std::less<>> values_;
};

Values& values() {
  static Values* const all = new Values;
  return *all;
}

/// Whether the library that NCCL loads without NCCL_NET_PLUGIN, and is about to, is this one, be it
/// by a link or a copy.
bool look_at_default_net() {
  void* const library = dlopen("libnccl-net.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto* table = static_cast<const abi::EnvV1*>(dlsym(library, "ncclEnvPlugin_v1"));
  const bool ours = table != nullptr && std::strcmp(table->name, kPluginName) == 0;
  dlclose(library);
  return ours;
}

}  // namespace

void start_environment() noexcept {
  answer("ncclEnv init", []() -> Status {
    const bool named = std::getenv("NCCL_NET_PLUGIN") != nullptr;
    const char* const env_plugin = std::getenv("NCCL_ENV_PLUGIN");
    const bool by_default = env_plugin == nullptr || *env_plugin == '\0';
    if (!named && by_default) default_net_is_ours = look_at_default_net();
    return Status::ok();
  });
}

const char* environment_value(const char* name) noexcept {
  if (name == nullptr) return nullptr;
  const char* value = std::getenv(name);
  const Status done = catch_all([&]() -> Status {
    const Lookup process = [](const char* other) { return std::getenv(other); };
    if (value == nullptr) value = door_default(name, process, default_net_is_ours);
    if (value != nullptr) value = values().keep(value);
    return Status::ok();
  });
  report("ncclEnv getEnv", done);
  return value;
}

}  // namespace ringpress::nccl_plugin::plugin
