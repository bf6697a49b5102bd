// NCCL's variables that make it use this library's CollNet, for those who set them: the environment
// plugin inside a process, the command `ringpress run` before it.
#ifndef NCCL_PLUGIN_PLUGIN_DOOR_VARIABLES_H_
#define NCCL_PLUGIN_PLUGIN_DOOR_VARIABLES_H_

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ringpress::nccl_plugin::plugin {

/// The name of this library's net plugin, and what NCCL_NET_PLUGIN calls it.
constexpr const char* kPluginName = "ringpress";

struct DoorVariable {
  const char* name;
  const char* value;
  const char* why;
};

/// Apart from NCCL_NET_PLUGIN.
constexpr std::array<DoorVariable, 3> kDoorVariables = {{
    {"NCCL_COLLNET_ENABLE", "1", "NCCL does not use CollNet unless told to"},
    {"NCCL_NET_PLUGIN_REF_COUNT", "1",
     "NCCL 2.27 to 2.29 forgets its net plugin when the last communicator goes"},
    {"NCCL_COMM_SPLIT_SHARE_RESOURCES", "1",
     "split communicators lose CollNet unless they share with their parent"},
}};

/// The value of a variable or null.
using Lookup = std::function<const char*(const char* name)>;

/// Whether a plugin variable of NCCL's names this library: "ringpress", or the name of one of its
/// files, with a path before it or not.
bool is_this_library(std::string_view plugin);

/// NCCL_NET_PLUGIN's first entry: NCCL tries the entries in turn, so a later one may never be used.
/// (Before 2.27 it takes the whole value for one name.)
std::string_view first_net_plugin(std::string_view net_plugins);

/// Whether that is this library. `own_path` (may be empty): another name of it.
bool names_this_library(std::string_view net_plugins, std::string_view own_path);

/// What NCCL's environment plugin answers for a variable that the process does not have; null:
/// nothing. Only where NCCL is to use this library's network: another's CollNet is not switched on.
/// `default_net_is_ours`: libnccl-net.so, which NCCL loads without NCCL_NET_PLUGIN, is this
/// library. Points into what `process` gave or to static memory.
const char* door_default(std::string_view name, const Lookup& process, bool default_net_is_ours);

/// A variable of the user's that takes something away from this library.
struct Conflict {
  std::string variable;  // NAME=value
  std::string loses;
  std::string remedy;
  bool fatal = false;          // Nothing is compressed.
  bool is_of_network = false;  // NCCL then takes another network than this library's.
};
/// `nccl_version`: as ncclGetVersion has it: lists of algorithms have another meaning from 2.31 on.
/// 0: it is not known; what only later versions take away is then not fatal.
std::vector<Conflict> conflicts(const Lookup& process, int nccl_version = 0);

}  // namespace ringpress::nccl_plugin::plugin

#endif  // NCCL_PLUGIN_PLUGIN_DOOR_VARIABLES_H_
