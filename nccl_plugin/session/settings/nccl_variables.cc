#include "nccl_plugin/session/settings/nccl_variables.h"

namespace ringpress::nccl_plugin {
namespace {

/// Of "AF_INET" and "AF_INET6"; kAny, with a warning, for anything else.
AddressFamily family_of(const std::string& value, std::vector<std::string>* warnings) {
  if (value.empty()) return AddressFamily::kAny;
  if (value == "AF_INET") return AddressFamily::kIpv4;
  if (value == "AF_INET6") return AddressFamily::kIpv6;
  if (warnings != nullptr) {
    warnings->push_back("NCCL_SOCKET_FAMILY=" + value +
                        " is ignored: expected AF_INET or AF_INET6");
  }
  return AddressFamily::kAny;
}

}  // namespace

void take_nccl_variables(const std::vector<std::pair<std::string, std::string>>& environment,
                         Settings* settings, std::vector<std::string>* warnings) {
  std::string interfaces, family;
  const std::pair<const char*, std::string*> taken[] = {
      {"NCCL_SOCKET_IFNAME", &interfaces},         {"NCCL_SOCKET_FAMILY", &family},
      {"NCCL_HOSTID", &settings->nccl.host_id},    {"NCCL_COMM_ID", &settings->nccl.comm_id},
      {"NCCL_DEBUG", &settings->nccl.debug},       {"NCCL_DEBUG_FILE", &settings->nccl.debug_file},
  };
  for (const auto& [name, text] : environment) {
    for (const auto& [known, value] : taken) {
      if (name == known) *value = text;
    }
  }
  settings->address.family = family_of(family, warnings);
  settings->address.interfaces = settings->interface;
  if (!settings->interface.empty() || interfaces.empty()) return;
  settings->address.interfaces = interfaces;
  settings->address.variable = "NCCL_SOCKET_IFNAME";
}

}  // namespace ringpress::nccl_plugin
