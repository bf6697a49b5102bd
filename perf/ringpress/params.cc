#include "perf/ringpress/params.h"

#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "compress_kernels/factory.h"
#include "ringpress/settings.h"

namespace ringpress::perf {
namespace {

std::string shown(const std::string& name, const std::string& value) {
  return name == "RINGPRESS_SECRET" && !value.empty() ? "(not shown)" : value;
}

/// Why the library refuses the value; empty if it does not.
std::string mistake_of(const std::string& name, const std::string& value) {
  const Settings alone = parse_settings({{name, value}}, nullptr);
  const Status valid = check_settings(alone);
  if (!valid.is_ok()) return valid.message();
  if (name != "RINGPRESS_CODEC" || value == "auto") return "";
  const Status known = compress_kernels::normalize_specification(value).status();
  return known.is_ok() ? "" : name + ": " + known.message();
}

Param describe(const SettingDescription& setting, const JobEnvironment& environment) {
  Param param;
  param.name = setting.name;
  param.default_value = setting.default_text;
  param.value = param.default_value;
  param.origin = "default";
  param.must_agree = setting.must_agree;
  param.meaning = setting.meaning;
  const Variable* const given = environment.find(setting.name);
  if (given == nullptr || given->value.empty()) return param;  // Empty: as if it were not there.
  param.origin = given->origin;
  param.mistake = mistake_of(param.name, given->value);
  if (param.mistake.empty()) param.value = shown(param.name, given->value);
  return param;
}

nlohmann::json to_json(const Param& param) {
  nlohmann::json record = {
      {"name", param.name},     {"value", param.value},           {"default", param.default_value},
      {"origin", param.origin}, {"must_agree", param.must_agree}, {"meaning", param.meaning}};
  if (!param.mistake.empty()) record["mistake"] = param.mistake;
  return record;
}

}  // namespace

std::vector<Param> params(const JobEnvironment& environment) {
  std::vector<Param> all;
  for (const SettingDescription& setting : setting_descriptions()) {
    all.push_back(describe(setting, environment));
  }
  return all;
}

int print_params(bool json) {
  const std::vector<Param> all = params(JobEnvironment::of_this_process());
  if (json) {
    nlohmann::json records = nlohmann::json::array();
    for (const Param& param : all) records.push_back(to_json(param));
    fmt::print("{}\n", records.dump(2));
    return EXIT_SUCCESS;
  }
  for (const Param& param : all) {
    fmt::print("{}={}  ({}; default \"{}\"{})\n", param.name, param.value, param.origin,
               param.default_value, param.must_agree ? "; equal on all ranks" : "");
    fmt::print("    {}\n", param.meaning);
    if (!param.mistake.empty()) fmt::print("    mistake: {}\n", param.mistake);
  }
  return EXIT_SUCCESS;
}

}  // namespace ringpress::perf
