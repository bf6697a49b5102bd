// The file of RINGPRESS_RULES, as it was when this process first read it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "nccl_plugin/session/rules/rules.h"
#include "nccl_plugin/session/settings/setting_file.h"

namespace ringpress::nccl_plugin {
namespace {

/// A file as it was when it was first read.
struct LoadedRules {
  std::vector<Rule> rules;
  std::string digest;
  Status status;
};

LoadedRules load(const std::string& path) {
  LoadedRules loaded;
  const Result<std::string> text = read_setting_file(path);
  if (!text.is_ok()) {
    loaded.status = text.status();
    return loaded;
  }
  char hash[17];
  std::snprintf(
      hash, sizeof hash, "%016llx",
      static_cast<unsigned long long>(XXH3_64bits(text.value().data(), text.value().size())));
  Result<std::vector<Rule>> rules = parse_rules(text.value());
  loaded.status = rules.status();
  if (rules.is_ok()) loaded.rules = std::move(rules).value();
  loaded.digest = std::to_string(loaded.rules.size()) + " rules, hash " + hash;
  return loaded;
}

const LoadedRules& loaded_rules(const std::string& path) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<std::string, LoadedRules>;
  const std::lock_guard lock(mutex);
  auto found = known.find(path);
  if (found == known.end()) found = known.emplace(path, load(path)).first;
  return found->second;
}

}  // namespace

void load_rules(Settings* settings) {
  if (settings->rules.empty()) return;
  const LoadedRules& loaded = loaded_rules(settings->rules);
  settings->rule_list = loaded.rules;
  settings->rules_digest = loaded.digest;
  if (loaded.status.is_ok() || !settings->mistake.empty()) return;
  settings->mistake = "RINGPRESS_RULES=" + settings->rules + ": " + loaded.status.message();
}

}  // namespace ringpress::nccl_plugin
