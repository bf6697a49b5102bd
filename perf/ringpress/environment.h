// The environment that NCCL will see: that of the process, and below it NCCL's own configuration
// files, which NCCL puts into the process's environment where a variable is not there yet.
#ifndef PERF_RINGPRESS_ENVIRONMENT_H_
#define PERF_RINGPRESS_ENVIRONMENT_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/plugin/door_variables.h"

namespace ringpress::perf {

struct Variable {
  std::string value;
  std::string origin;  // "environment", or the path of a file.
};

class JobEnvironment {
 public:
  /// Of this process. NCCL_CONF_FILE, else ~/.nccl.conf; then /etc/nccl.conf.
  static JobEnvironment of_this_process();

  /// What is there already stays.
  void add(const std::string& name, Variable variable);
  /// NAME=VALUE lines; `#` begins a comment line. A file that cannot be read has none.
  void add_file(const std::string& path);

  /// Null if there is none. Valid until the next add.
  const Variable* find(const std::string& name) const;
  /// find()'s value or null.
  const char* value(const char* name) const;
  /// Outlived by this object.
  nccl_plugin::plugin::Lookup lookup() const;
  /// Names that begin so, with values.
  std::vector<std::pair<std::string, std::string>> with_prefix(const std::string& prefix) const;

 private:
  std::map<std::string, Variable> variables_;
};

}  // namespace ringpress::perf

#endif  // PERF_RINGPRESS_ENVIRONMENT_H_
