#include "perf/all_reduce/setting.h"

#include <cstdlib>

namespace ringpress::perf {
namespace {

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

}  // namespace

Setting control_setting(const std::vector<Setting>& settings) {
  if (settings.size() == 1) return settings.front();
  return {"control", "none", ""};
}

std::string named_codec(const Setting& setting) {
  if (!setting.codec.empty()) return setting.codec;
  if (variable("RINGPRESS") == "off") return "none";
  if (const std::string codec = variable("RINGPRESS_CODEC"); !codec.empty()) return codec;
  const std::string loaded = variable("LD_PRELOAD") + variable("NCCL_NET_PLUGIN");
  return loaded.find("ringpress") != std::string::npos ? "auto" : "none";
}

}  // namespace ringpress::perf
