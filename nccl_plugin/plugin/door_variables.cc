#include "nccl_plugin/plugin/door_variables.h"

#include <strings.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace ringpress::nccl_plugin::plugin {
namespace {

// NCCL ignores longer names in NCCL_NET_PLUGIN.
constexpr std::size_t kLongestPluginName = 253;

std::string_view view(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

/// What NCCL_ENV_PLUGIN calls this library; empty if NCCL found it under its default name.
std::string_view env_plugin(const Lookup& process) {
  return view(process("NCCL_ENV_PLUGIN"));
}

bool fits_net_plugin_list(std::string_view name) {
  return !name.empty() && name.size() <= kLongestPluginName &&
         name.find(',') == std::string_view::npos;
}

bool net_is_ours(const Lookup& process, bool default_net_is_ours) {
  const char* const net = process("NCCL_NET");
  if (net != nullptr && strcasecmp(net, kPluginName) != 0) return false;
  if (const char* const plugins = process("NCCL_NET_PLUGIN")) {
    return names_this_library(plugins, env_plugin(process));
  }
  return fits_net_plugin_list(env_plugin(process)) || default_net_is_ours;
}

/// Whether NCCL's list ("Ring,Tree"; "^Ring": all but that) leaves out what begins with `word`.
bool leaves_out(std::string_view list, std::string_view word) {
  if (list.empty()) return false;
  std::string lower(list);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const bool excludes = lower[0] == '^';
  return (lower.find(word) != std::string::npos) == excludes;
}

void add(std::vector<Conflict>* found, const char* name, const char* value, const char* loses,
         bool fatal) {
  found->push_back({std::string(name) + "=" + value, loses, fatal});
}

void add_other_plugin(std::vector<Conflict>* found, const Lookup& process, const char* name,
                      const char* loses) {
  const std::string_view value = view(process(name));
  if (value.empty() || value.find(kPluginName) != std::string_view::npos) return;
  add(found, name, process(name), loses, false);
}

void add_network(std::vector<Conflict>* found, const Lookup& process) {
  const char* const plugins = process("NCCL_NET_PLUGIN");
  if (plugins != nullptr && !names_this_library(plugins, "")) {
    add(found, "NCCL_NET_PLUGIN", plugins,
        "NCCL does not load this library's network first, or not at all, so nothing is compressed; "
        "to keep that network below, set NCCL_NET_PLUGIN=ringpress and RINGPRESS_NEXT_NET_PLUGIN",
        true);
  }
  const char* const net = process("NCCL_NET");
  if (net != nullptr && strcasecmp(net, kPluginName) != 0) {
    add(found, "NCCL_NET", net,
        "NCCL passes over every network of another name, so nothing is compressed; unset it", true);
  }
}

void add_algorithms(std::vector<Conflict>* found, const Lookup& process) {
  const std::string_view algorithms = view(process("NCCL_ALGO"));
  if (leaves_out(algorithms, "collnet")) {
    add(found, "NCCL_ALGO", process("NCCL_ALGO"),
        "CollNet is not among the algorithms, so nothing is compressed; unset it or add "
        "CollnetChain",
        true);
  }
  const std::string_view protocols = view(process("NCCL_PROTO"));
  if (leaves_out(protocols, "simple")) {
    add(found, "NCCL_PROTO", process("NCCL_PROTO"),
        "CollNet needs the protocol Simple, so nothing is compressed; unset it or add Simple",
        true);
  }
  const char* const collnet = process("NCCL_COLLNET_ENABLE");
  if (collnet != nullptr && std::strtol(collnet, nullptr, 0) == 0) {
    add(found, "NCCL_COLLNET_ENABLE", collnet,
        "NCCL does not use CollNet, so nothing is compressed; unset it or set it to 1", true);
  }
}

}  // namespace

bool names_this_library(std::string_view net_plugins, std::string_view own_path) {
  const std::string_view first = net_plugins.substr(0, net_plugins.find(','));
  if (first.empty()) return false;
  return first == own_path || first.find(kPluginName) != std::string_view::npos;
}

const char* door_default(std::string_view name, const Lookup& process, bool default_net_is_ours) {
  const bool net_plugin = name == "NCCL_NET_PLUGIN";
  const char* value = nullptr;
  for (const DoorVariable& variable : kDoorVariables) {
    if (name == variable.name) value = variable.value;
  }
  if (value == nullptr && !net_plugin) return nullptr;
  if (view(process("RINGPRESS")) == "off") return nullptr;
  if (!net_is_ours(process, default_net_is_ours)) return nullptr;
  if (!net_plugin) return value;
  // The user named this library as environment plugin; under the same name it is a net plugin.
  return fits_net_plugin_list(env_plugin(process)) ? process("NCCL_ENV_PLUGIN") : nullptr;
}

std::vector<Conflict> conflicts(const Lookup& process) {
  std::vector<Conflict> found;
  add_network(&found, process);
  add_algorithms(&found, process);
  add_other_plugin(&found, process, "NCCL_TUNER_PLUGIN",
                   "this library's tuner is not asked: NCCL itself chooses when to use CollNet, "
                   "which is seldom");
  add_other_plugin(&found, process, "NCCL_PROFILER_PLUGIN",
                   "NCCL has one place for a profiler: without it tensors are not told apart, so "
                   "there is no error feedback");
  add_other_plugin(&found, process, "NCCL_ENV_PLUGIN",
                   "this library cannot set NCCL's variables from inside; `ringpress run` does so "
                   "before the start, but a plugin may answer otherwise");
  return found;
}

}  // namespace ringpress::nccl_plugin::plugin
