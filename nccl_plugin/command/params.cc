#include "nccl_plugin/command/params.h"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "nccl_plugin/command/libraries.h"
#include "nccl_plugin/command/run.h"
#include "nccl_plugin/session/settings/nccl_variables.h"
#include "nccl_plugin/session/settings/setting_file.h"
#include "nccl_plugin/session/usable_settings.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::command {
namespace {

/// What becomes of a job with a mistake.
constexpr const char* kInstead =
    "no communicator is made with it: on host memory that is an error; NCCL, by the plugin or "
    "preloaded, goes on without compression";
constexpr const char* kInsteadAnywhere = "no communicator is made with it, by NCCL neither";

/// What one variable is looked at with: without them it would be another one.
constexpr const char* kContext[] = {"NCCL_SOCKET_FAMILY", "NCCL_DEBUG", "NCCL_HOSTID"};

std::string shown(const std::string& name, const std::string& value) {
  return name == "RINGPRESS_SECRET" && !value.empty() ? "(not shown)" : value;
}

const char* instead_of(const Param& param) {
  const bool is_of_nccl_too =
      param.name.starts_with("NCCL_") || param.name == "RINGPRESS_SOCKET_IFNAME";
  return is_of_nccl_too ? kInsteadAnywhere : kInstead;
}

/// Of door A alone, where there are kernels and a GPU for them.
bool is_taken_before_nccl(const Settings& settings) {
  if (settings.backend != Backend::kCuda) return false;
  const std::filesystem::path folder = std::filesystem::path(plugin_folder()).parent_path();
  return look_at_kernels(folder).problem.empty() && has_gpu_driver();
}

std::string refusal_of(const Settings& settings) {
  const Status usable = nccl_plugin::check_host_rank(settings);
  return usable.is_ok() || is_taken_before_nccl(settings) ? "" : usable.message();
}

/// Of a variable alone, what the library would warn of.
std::string warning_of(const std::string& name, const Settings& alone,
                       const std::vector<std::string>& ignored) {
  std::vector<std::string> all = ignored;
  for (const Status& one : nccl_plugin::find_shortcomings(alone)) all.push_back(one.message());
  for (std::string& text : all) {
    if (text.starts_with(name + "=")) return std::move(text);
  }
  if (!is_taken_before_nccl(alone)) return "";
  return nccl_plugin::check_host_rank(alone).message();
}

void ask_library(const JobEnvironment& environment, const std::string& value, Param* param) {
  std::vector<std::pair<std::string, std::string>> variables = {{param->name, value}};
  for (const char* name : kContext) {
    const char* const other = environment.value(name);
    if (other != nullptr && param->name != name) variables.emplace_back(name, other);
  }
  std::vector<std::string> ignored;
  const Settings alone = parse_settings(variables, &ignored);
  param->mistake = refusal_of(alone);
  param->warning = warning_of(param->name, alone, ignored);
}

bool is_set(const JobEnvironment& environment, const char* name) {
  const char* const value = environment.value(name);
  return value != nullptr && *value != '\0';
}

/// What a communicator is not asked.
void look_further(const JobEnvironment& environment, const std::string& value, Param* param) {
  const bool is_second =
      param->name == "NCCL_SOCKET_IFNAME" && is_set(environment, "RINGPRESS_SOCKET_IFNAME");
  if (is_second && !param->mistake.empty()) {
    param->warning = param->mistake +
                     " (RINGPRESS_SOCKET_IFNAME goes before it, but NCCL itself will refuse it)";
    param->mistake.clear();
  }
  if (param->name != "NCCL_CONF_FILE") return;
  const Status read = nccl_plugin::read_setting_file(value).status();
  if (!read.is_ok()) param->warning = "NCCL_CONF_FILE=" + value + ": " + read.message();
}

void look_at_value(const JobEnvironment& environment, Param* param) {
  const Variable* const given = environment.find(param->name);
  if (given == nullptr || given->value.empty()) return;  // Empty: as if it were not there.
  param->origin = given->origin;
  ask_library(environment, given->value, param);
  look_further(environment, given->value, param);
  (param->mistake.empty() ? param->value : param->given) = shown(param->name, given->value);
}

Param describe(const SettingDescription& setting, const JobEnvironment& environment) {
  Param param;
  param.name = setting.name;
  param.default_value = setting.default_text;
  param.value = param.default_value;
  param.origin = "default";
  param.must_agree = setting.must_agree;
  param.meaning = setting.meaning;
  look_at_value(environment, &param);
  return param;
}

/// What looks like a setting and is none: the library ignores it, with a warning.
void add_unknown(const JobEnvironment& environment, std::vector<Param>* all) {
  for (const auto& [name, value] : environment.with_prefix("RINGPRESS")) {
    std::vector<std::string> warnings;
    parse_settings({{name, value}}, &warnings);
    if (warnings.empty() || value.empty()) continue;
    Param param;
    param.name = name;
    param.value = "(ignored)";
    param.origin = environment.find(name)->origin;
    param.warning = warnings[0];
    param.meaning = "no setting of ringpress";
    all->push_back(std::move(param));
  }
}

/// What is to be said of several variables together, beside the one that it begins with.
void add_what_is_said_together(const JobEnvironment& environment, std::vector<Param>* all) {
  const Settings settings =
      parse_settings(nccl_plugin::variables_of_settings(environment), nullptr);
  for (const Status& problem : nccl_plugin::find_shortcomings(settings)) {
    for (Param& param : *all) {
      const bool is_its = problem.message().starts_with(param.name + "=");
      if (is_its && param.mistake.empty() && param.warning.empty()) {
        param.warning = problem.message();
      }
    }
  }
  for (const std::string& note : nccl_plugin::find_notes(settings)) {
    for (Param& param : *all) {
      if (note.starts_with(param.name + "=") && param.mistake.empty()) param.note = note;
    }
  }
}

nlohmann::json to_json(const Param& param) {
  nlohmann::json record = {
      {"name", param.name},     {"value", param.value},           {"default", param.default_value},
      {"origin", param.origin}, {"must_agree", param.must_agree}, {"meaning", param.meaning}};
  if (!param.mistake.empty()) {
    record["given"] = param.given;
    record["mistake"] = param.mistake;
    record["instead"] = instead_of(param);
  }
  if (!param.warning.empty()) record["warning"] = param.warning;
  if (!param.note.empty()) record["note"] = param.note;
  return record;
}

void print_param(const Param& param) {
  const bool is_refused = !param.mistake.empty();
  fmt::print("{}={}  ({}{}; default \"{}\"{})\n", param.name,
             is_refused ? param.given : param.value, is_refused ? "refused, from " : "",
             param.origin, param.default_value, param.must_agree ? "; equal on all ranks" : "");
  fmt::print("    {}\n", param.meaning);
  if (!param.warning.empty()) fmt::print("    warning: {}\n", param.warning);
  if (!param.note.empty()) fmt::print("    note: {}\n", param.note);
  if (!is_refused) return;
  fmt::print("    mistake: {}\n", param.mistake);
  fmt::print("    instead: {}\n", instead_of(param));
}

/// Name, value and reason, for those who read standard error alone; empty: it is not refused.
std::string refusal_line(const Param& param) {
  const std::string given = param.name + "=" + param.given;
  if (param.mistake.empty() || param.mistake.starts_with(given)) return param.mistake;
  return given + ": " + param.mistake;
}

}  // namespace

std::vector<Param> params(const JobEnvironment& environment) {
  std::vector<Param> all;
  for (const SettingDescription& setting : setting_descriptions()) {
    all.push_back(describe(setting, environment));
  }
  for (const nccl_plugin::NcclVariable& variable : nccl_plugin::known_nccl_variables()) {
    all.push_back(describe({variable.name, "", variable.meaning, false}, environment));
  }
  add_unknown(environment, &all);
  add_what_is_said_together(environment, &all);
  return all;
}

std::string mistake_together(const JobEnvironment& environment, const std::vector<Param>& all) {
  for (const Param& param : all) {
    if (!param.mistake.empty()) return "";
  }
  return refusal_of(parse_settings(nccl_plugin::variables_of_settings(environment), nullptr));
}

int print_params(bool json) {
  const auto environment = JobEnvironment::of_this_process();
  const std::vector<Param> all = params(environment);
  std::vector<std::string> refused = {mistake_together(environment, all)};
  nlohmann::json records = nlohmann::json::array();
  for (const Param& param : all) {
    if (json) {
      records.push_back(to_json(param));
    } else {
      print_param(param);
    }
    refused.push_back(refusal_line(param));
  }
  if (json) fmt::print("{}\n", records.dump(2));
  std::erase(refused, "");
  for (const std::string& line : refused) {
    fmt::print(stderr, "ringpress params: refused: {}\n", line);
  }
  return refused.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace ringpress::nccl_plugin::command
