// The file of RINGPRESS_RULES, as it was when this process first read it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "nccl_plugin/rules.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

Result<std::string> read_file(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return Status(Code::kInvalidArgument, std::strerror(errno));
  std::string text(kMostBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  const bool has_failed = std::ferror(file) != 0;
  const int problem = errno;
  static_cast<void>(std::fclose(file));
  if (has_failed) return Status(Code::kInvalidArgument, std::strerror(problem));
  if (text.size() > kMostBytes) {
    return Status(Code::kInvalidArgument, "it is larger than a megabyte");
  }
  return text;
}

/// A file as it was when it was first read.
struct LoadedRules {
  std::vector<Rule> rules;
  std::string digest;
  Status status;
};

LoadedRules load(const std::string& path) {
  LoadedRules loaded;
  const Result<std::string> text = read_file(path);
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
