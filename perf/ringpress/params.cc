#include "perf/ringpress/params.h"

#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/calls/budget.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "ringpress/settings.h"

namespace ringpress::perf {
namespace {

/// What becomes of a job with a mistake.
constexpr const char* kInstead =
    "no communicator is made with it: on host memory that is an error; NCCL, by the plugin or "
    "preloaded, goes on without compression";

std::string shown(const std::string& name, const std::string& value) {
  return name == "RINGPRESS_SECRET" && !value.empty() ? "(not shown)" : value;
}

/// Why the library refuses the value; empty if it does not.
std::string mistake_of(const std::string& name, const std::string& value) {
  const Settings alone = parse_settings({{name, value}}, nullptr);
  const Status valid = check_settings(alone);
  if (!valid.is_ok()) return valid.message();
  if (name == "RINGPRESS_RULES") {
    const Status known = nccl_plugin::check_rules(alone);
    return known.is_ok() ? "" : known.message();
  }
  if (name == "RINGPRESS_BUDGET") {
    const Status known = nccl_plugin::check_budget(alone);
    return known.is_ok() ? "" : known.message();
  }
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
  (param.mistake.empty() ? param.value : param.given) = shown(param.name, given->value);
  return param;
}

nlohmann::json to_json(const Param& param) {
  nlohmann::json record = {
      {"name", param.name},     {"value", param.value},           {"default", param.default_value},
      {"origin", param.origin}, {"must_agree", param.must_agree}, {"meaning", param.meaning}};
  if (!param.mistake.empty()) {
    record["given"] = param.given;
    record["mistake"] = param.mistake;
    record["instead"] = kInstead;
  }
  return record;
}

void print_param(const Param& param) {
  const bool is_refused = !param.mistake.empty();
  fmt::print("{}={}  ({}{}; default \"{}\"{})\n", param.name,
             is_refused ? param.given : param.value, is_refused ? "refused, from " : "",
             param.origin, param.default_value, param.must_agree ? "; equal on all ranks" : "");
  fmt::print("    {}\n", param.meaning);
  if (!is_refused) return;
  fmt::print("    mistake: {}\n", param.mistake);
  fmt::print("    instead: {}\n", kInstead);
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
  std::string refused;
  nlohmann::json records = nlohmann::json::array();
  for (const Param& param : all) {
    if (json) {
      records.push_back(to_json(param));
    } else {
      print_param(param);
    }
    if (!param.mistake.empty()) refused += (refused.empty() ? "" : ", ") + param.name;
  }
  if (json) fmt::print("{}\n", records.dump(2));
  if (refused.empty()) return EXIT_SUCCESS;
  fmt::print(stderr, "ringpress params: refused: {}\n", refused);
  return EXIT_FAILURE;
}

}  // namespace ringpress::perf
