#include "nccl_plugin/session/settings/nccl_variables.h"

#include <strings.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace ringpress::nccl_plugin {
namespace {

constexpr NcclVariable kNcclVariables[] = {
    {"NCCL_SOCKET_IFNAME",
     "network interfaces that may be used, unless RINGPRESS_SOCKET_IFNAME says"},
    {"NCCL_SOCKET_FAMILY", "AF_INET | AF_INET6: addresses of this family only"},
    {"NCCL_HOSTID", "in place of the name of the host, for which ranks share one"},
    {"NCCL_COMM_ID", "on host memory: ADDRESS:PORT where ranks meet"},
    {"NCCL_DEBUG", "on host memory: VERSION | WARN | INFO | TRACE, unless RINGPRESS_DEBUG says"},
    {"NCCL_DEBUG_FILE", "on host memory: file for the lines of NCCL_DEBUG"},
    {"NCCL_CONF_FILE", "file of NAME=VALUE lines, for variables that the environment has not"}};

struct NcclLevel {
  const char* word;
  LogLevel level;  // Ours for as much.
};
constexpr NcclLevel kNcclLevels[] = {{"VERSION", LogLevel::kError},
                                     {"WARN", LogLevel::kWarn},
                                     {"INFO", LogLevel::kInfo},
                                     {"ABORT", LogLevel::kWarn},
                                     {"TRACE", LogLevel::kTrace}};

std::string log_host_name() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return std::string(name.data(), strcspn(name.data(), "."));
}

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
      {"NCCL_SOCKET_IFNAME", &interfaces},      {"NCCL_SOCKET_FAMILY", &family},
      {"NCCL_HOSTID", &settings->nccl.host_id}, {"NCCL_COMM_ID", &settings->nccl.comm_id},
      {"NCCL_DEBUG", &settings->nccl.debug},    {"NCCL_DEBUG_FILE", &settings->nccl.debug_file},
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

std::span<const NcclVariable> known_nccl_variables() {
  return kNcclVariables;
}

/// NCCL takes its words in any case.
std::optional<LogLevel> nccl_log_level(const std::string& word) {
  for (const NcclLevel& known : kNcclLevels) {
    if (strcasecmp(known.word, word.c_str()) == 0) return known.level;
  }
  return std::nullopt;
}

Status check_nccl_debug(const Settings& settings) {
  const std::string& word = settings.nccl.debug;
  if (word.empty() || nccl_log_level(word)) return Status::ok();
  return Status(Code::kInvalidArgument, "NCCL_DEBUG=" + word +
                                            " is ignored: expected VERSION, WARN, INFO, ABORT or "
                                            "TRACE");
}

bool logs_to_file(const Settings& settings) {
  return !settings.nccl.debug_file.empty() && nccl_log_level(settings.nccl.debug).has_value();
}

std::string debug_path(const std::string& pattern) {
  std::string path;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    const char next = pattern[at] == '%' && at + 1 < pattern.size() ? pattern[at + 1] : '\0';
    if (next == 'h') path += log_host_name();
    if (next == 'p') path += std::to_string(getpid());
    if (next == '%') path += '%';
    if (next == 'h' || next == 'p' || next == '%') {
      ++at;
    } else {
      path += pattern[at];
    }
  }
  return path;
}

}  // namespace ringpress::nccl_plugin
