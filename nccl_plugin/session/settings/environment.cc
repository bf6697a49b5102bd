#include "nccl_plugin/session/settings/environment.h"

#include <unistd.h>  // environ

#include <fstream>

#include "ringpress/internal/names.h"

namespace ringpress::nccl_plugin {

Environment Environment::of_this_process() {
  Environment all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    all.add(text.substr(0, equals), {text.substr(equals + 1), "environment"});
  }
  const char* const file = all.value("NCCL_CONF_FILE");
  const char* const home = all.value("HOME");
  if (file != nullptr && *file != '\0') {
    all.add_file(file);
  } else if (home != nullptr) {
    all.add_file(std::string(home) + "/.nccl.conf");
  }
  all.add_file("/etc/nccl.conf");
  return all;
}

void Environment::add(const std::string& name, Variable variable) {
  variables_.emplace(name, std::move(variable));
}

void Environment::add_file(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const std::size_t equals = line.find('=');
    if (line.empty() || line[0] == '#' || equals == std::string::npos) continue;
    add(line.substr(0, equals), {line.substr(equals + 1), path});
  }
}

const Variable* Environment::find(const std::string& name) const {
  const auto entry = variables_.find(name);
  return entry == variables_.end() ? nullptr : &entry->second;
}

const char* Environment::value(const char* name) const {
  const Variable* const variable = find(name);
  return variable == nullptr ? nullptr : variable->value.c_str();
}

std::vector<std::pair<std::string, std::string>> Environment::with_prefix(
    const std::string& prefix) const {
  std::vector<std::pair<std::string, std::string>> found;
  for (auto entry = variables_.lower_bound(prefix);
       entry != variables_.end() && entry->first.starts_with(prefix); ++entry) {
    found.emplace_back(entry->first, entry->second.value);
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> variables_of_settings(const Environment& all) {
  std::vector<std::pair<std::string, std::string>> found = all.with_prefix("RINGPRESS");
  for (const auto& variable : all.with_prefix("NCCL_")) found.push_back(variable);
  for (const auto& variable : all.with_prefix("")) {
    if (is_misspelt_prefix(variable.first)) found.push_back(variable);
  }
  return found;
}

bool is_misspelt_prefix(std::string_view name) {
  constexpr std::string_view kPrefix = "ringpress";
  constexpr std::size_t kMostEdits = 2;
  const std::string first = lower_case(name.substr(0, name.find('_')));
  if (name.starts_with("RINGPRESS") || first.size() > kPrefix.size() + kMostEdits) return false;
  return first.starts_with('r') && edit_distance(first, kPrefix) <= kMostEdits;
}

}  // namespace ringpress::nccl_plugin
