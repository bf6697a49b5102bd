// The variables that hold for a job: those of the process, and below them those of NCCL's own
// configuration files. The process's environment is not changed.
#ifndef NCCL_PLUGIN_SESSION_SETTINGS_ENVIRONMENT_H_
#define NCCL_PLUGIN_SESSION_SETTINGS_ENVIRONMENT_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringpress::nccl_plugin {

struct Variable {
  std::string value;
  std::string origin;  // "environment", or the path of a file.
};

class Environment {
 public:
  /// Of this process. NCCL_CONF_FILE, else ~/.nccl.conf; then /etc/nccl.conf.
  static Environment of_this_process();

  /// What is there already stays.
  void add(const std::string& name, Variable variable);
  /// NAME=VALUE lines; `#` begins a comment line. A file that cannot be read has none.
  void add_file(const std::string& path);

  /// Null if there is none. Valid until the next add.
  const Variable* find(const std::string& name) const;
  /// find()'s value or null.
  const char* value(const char* name) const;
  /// Names that begin so, with values.
  std::vector<std::pair<std::string, std::string>> with_prefix(const std::string& prefix) const;

 private:
  std::map<std::string, Variable> variables_;
};

/// What parse_settings() reads of them.
std::vector<std::pair<std::string, std::string>> variables_of_settings(const Environment& all);

/// Whether a variable's first word is nearly RINGPRESS: "RINGPRES_CODEC", "ringpress_codec".
bool is_misspelt_prefix(std::string_view name);

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_SETTINGS_ENVIRONMENT_H_
