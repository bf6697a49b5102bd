#include "nccl_plugin/plugin/door_variables.h"

#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "nccl_plugin/plugin/function_lists.h"
#include "ringpress/internal/setting_types.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

// NCCL ignores longer names in NCCL_NET_PLUGIN.
constexpr std::size_t kLongestPluginName = 253;
// One library under the names of the kinds of plugin.
constexpr std::string_view kFileNames[] = {"libnccl-net-ringpress.so", "libnccl-tuner-ringpress.so",
                                           "libnccl-profiler-ringpress.so",
                                           "libnccl-env-ringpress.so"};

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

void add_other_plugin(std::vector<Conflict>* found, const Lookup& process, const char* name,
                      const char* loses, const char* remedy) {
  const std::string_view value = view(process(name));
  if (value.empty() || is_this_library(value)) return;
  found->push_back({std::string(name) + "=" + process(name), loses, remedy, false});
}

void add_network(std::vector<Conflict>* found, const Lookup& process) {
  const char* const plugins = process("NCCL_NET_PLUGIN");
  if (plugins != nullptr && !names_this_library(plugins, "")) {
    found->push_back(
        {std::string("NCCL_NET_PLUGIN=") + plugins,
         "NCCL does not load this library's network first, or not at all, so nothing is compressed",
         "unset it; to keep that network below, set NCCL_NET_PLUGIN=ringpress and "
         "RINGPRESS_NEXT_NET_PLUGIN",
         true, true});
  }
  const char* const net = process("NCCL_NET");
  if (net != nullptr && strcasecmp(net, kPluginName) != 0) {
    found->push_back({std::string("NCCL_NET=") + net,
                      "NCCL passes over every network of another name, so nothing is compressed",
                      "unset it", true, true});
  }
}

std::string refusal(const AllReduceChoice& choice) {
  return "NCCL 2.24 and later refuse it, because of \"" + choice.refused +
         "\", and make no communicator; earlier ones pass over what they do not know";
}

// From this version on NCCL_ALGO and NCCL_SYM_KERNEL are lists for all functions together.
constexpr int kListsTogether = 23100;

AlgorithmVariables algorithm_variables(const Lookup& process) {
  return {process("NCCL_ALGO"), process("NCCL_PROTO"), process("NCCL_SYM_KERNEL")};
}

bool is_chain_left_from_2_31_on(const Lookup& process) {
  const std::vector<std::string> left = algorithms_of_all_reduces(algorithm_variables(process));
  return std::find(left.begin(), left.end(), "CollNetChain") != left.end();
}

void add_algorithms(std::vector<Conflict>* found, const Lookup& process) {
  const char* const value = process("NCCL_ALGO");
  const AllReduceChoice choice = parse_function_list(value, kAlgorithmNames);
  Conflict conflict{std::string("NCCL_ALGO=") + (value == nullptr ? "" : value), "",
                    "unset it, or leave CollNetChain among the algorithms of all-reduces", true};
  if (!choice.refused.empty()) {
    conflict.loses = refusal(choice);
    conflict.remedy = "correct or unset it";
  } else if (choice.has("CollNetChain")) {
    return;
  } else if (choice.has("CollNetDirect") || choice.has("NVLS")) {
    conflict.loses =
        "of the algorithms that use CollNet it leaves only those that need an NVSwitch, so on "
        "other "
        "machines nothing is compressed";
    conflict.fatal = false;
  } else {
    conflict.loses = "CollNet is not among the algorithms, so nothing is compressed";
  }
  found->push_back(std::move(conflict));
}

void add_protocols(std::vector<Conflict>* found, const Lookup& process) {
  const char* const value = process("NCCL_PROTO");
  const AllReduceChoice choice = parse_function_list(value, kProtocolNames);
  if (choice.has("Simple")) return;
  Conflict conflict{std::string("NCCL_PROTO=") + value,
                    "CollNet needs the protocol Simple, so nothing is compressed",
                    "unset it, or leave Simple among the protocols of all-reduces", true};
  if (!choice.refused.empty()) {
    conflict.loses = refusal(choice);
    conflict.remedy = "correct or unset it";
  }
  found->push_back(std::move(conflict));
}

/// What one list may hold, and the lists together do not. `is_certain`: NCCL reads them so.
void add_lists_together(std::vector<Conflict>* found, const Lookup& process, bool is_certain) {
  const auto [algorithms, protocols, kernels] = algorithm_variables(process);
  const AllReduceChoice choice = parse_function_list(algorithms, kAlgorithmNames);
  const bool is_said =
      !choice.has("CollNetChain") || !parse_function_list(protocols, kProtocolNames).has("Simple");
  if (is_said || is_chain_left_from_2_31_on(process)) return;
  if (algorithms == nullptr || names_some_for_all_reduces(kernels)) {
    found->push_back({std::string("NCCL_SYM_KERNEL=") + (kernels == nullptr ? "" : kernels),
                      "NCCL 2.31 and later leave all-reduces no algorithm besides that kernel, so "
                      "nothing is compressed",
                      "unset it, or name CollNetChain for all-reduces in NCCL_ALGO", is_certain});
    return;
  }
  found->push_back({std::string("NCCL_ALGO=") + algorithms,
                    "NCCL 2.31 and later leave all-reduces, which it does not name, no algorithm "
                    "where NCCL_PROTO is set for them: they fail",
                    "unset it, or name CollNetChain for all-reduces, too", is_certain});
}

/// Each list, and from 2.31 on all of them together.
void add_lists(std::vector<Conflict>* found, const Lookup& process, int nccl_version) {
  const bool are_together = nccl_version >= kListsTogether;
  const AlgorithmVariables lists = algorithm_variables(process);
  const bool are_refused =
      !parse_function_list(lists.algorithms, kAlgorithmNames).refused.empty() ||
      !parse_function_list(lists.protocols, kProtocolNames).refused.empty();
  if (are_together && !are_refused && is_chain_left_from_2_31_on(process)) return;
  add_algorithms(found, process);
  add_protocols(found, process);
  if (are_together || nccl_version == 0) add_lists_together(found, process, are_together);
}

void add_switch(std::vector<Conflict>* found, const Lookup& process) {
  const char* const collnet = process("NCCL_COLLNET_ENABLE");
  if (collnet != nullptr && std::strtol(collnet, nullptr, 0) == 0) {
    found->push_back({std::string("NCCL_COLLNET_ENABLE=") + collnet,
                      "NCCL does not use CollNet, so nothing is compressed",
                      "unset it or set it to 1", true});
  }
}

/// NCCL's own threshold is two nodes.
void add_threshold(std::vector<Conflict>* found, const Lookup& process) {
  const char* const nodes = process("NCCL_COLLNET_NODE_THRESHOLD");
  if (nodes == nullptr || std::strtol(nodes, nullptr, 0) <= 2) return;
  found->push_back({std::string("NCCL_COLLNET_NODE_THRESHOLD=") + nodes,
                    "NCCL uses CollNet among so many nodes and more, so among fewer nothing is "
                    "compressed",
                    "unset it, or accept that", false});
}

}  // namespace

bool is_this_library(std::string_view plugin) {
  if (plugin == kPluginName) return true;
  const std::size_t slash = plugin.rfind('/');
  const std::string_view file = slash == std::string_view::npos ? plugin : plugin.substr(slash + 1);
  return std::find(std::begin(kFileNames), std::end(kFileNames), file) != std::end(kFileNames);
}

std::string_view first_net_plugin(std::string_view net_plugins) {
  const std::size_t begin = net_plugins.find_first_not_of(',');
  if (begin == std::string_view::npos) return "";
  net_plugins.remove_prefix(begin);
  return net_plugins.substr(0, net_plugins.find(','));
}

bool names_this_library(std::string_view net_plugins, std::string_view own_path) {
  const std::string_view first = first_net_plugin(net_plugins);
  return !first.empty() && (first == own_path || is_this_library(first));
}

const char* door_default(std::string_view name, const Lookup& process, bool default_net_is_ours) {
  const bool net_plugin = name == "NCCL_NET_PLUGIN";
  const char* value = nullptr;
  for (const DoorVariable& variable : kDoorVariables) {
    if (name == variable.name) value = variable.value;
  }
  if (value == nullptr && !net_plugin) return nullptr;
  if (find_word<Mode>(view(process("RINGPRESS"))) == Mode::kOff) return nullptr;
  if (!net_is_ours(process, default_net_is_ours)) return nullptr;
  if (!net_plugin) return value;
  // The user named this library as environment plugin; under the same name it is a net plugin.
  return fits_net_plugin_list(env_plugin(process)) ? process("NCCL_ENV_PLUGIN") : nullptr;
}

std::vector<Conflict> conflicts(const Lookup& process, int nccl_version) {
  std::vector<Conflict> found;
  add_network(&found, process);
  add_lists(&found, process, nccl_version);
  add_switch(&found, process);
  add_threshold(&found, process);
  add_other_plugin(&found, process, "NCCL_TUNER_PLUGIN",
                   "this library's tuner is not asked: NCCL itself chooses when to use CollNet, "
                   "which is seldom",
                   "unset it, or accept that");
  add_other_plugin(&found, process, "NCCL_PROFILER_PLUGIN",
                   "NCCL has one place for a profiler: without it tensors are not told apart, so "
                   "there is no error feedback, and automatic mode compresses nothing",
                   "unset it, or accept that");
  add_other_plugin(&found, process, "NCCL_ENV_PLUGIN",
                   "this library cannot set NCCL's variables from inside; `ringpress run` does so "
                   "before the start, but a plugin may answer otherwise",
                   "unset it, or have that plugin answer what `ringpress run` sets");
  return found;
}

}  // namespace ringpress::nccl_plugin::plugin
