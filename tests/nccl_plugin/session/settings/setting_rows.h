// The table of what each variable changes, by where it is seen.
#ifndef TESTS_NCCL_PLUGIN_SESSION_SETTINGS_SETTING_ROWS_H_
#define TESTS_NCCL_PLUGIN_SESSION_SETTINGS_SETTING_ROWS_H_

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace ringpress::testing {

using Variable = std::pair<std::string, std::string>;

struct SettingRow {
  std::string name;
  std::string value, other;
  /// What is seen of a job in which the variable has a value: text that depends on nothing else.
  std::function<std::string(const Variable& tested)> observe;
  std::string door =
      "";  // At which it is seen; empty: the library on host memory, or the only one.

  std::string test_name() const { return door.empty() ? name : name + "_" + door; }
};

/// For the names of tests.
inline void PrintTo(const SettingRow& row, std::ostream* out) {
  *out << row.test_name();
}

/// What calls of communicators on host memory give and send.
std::vector<SettingRow> rows_of_calls();
/// What RINGPRESS_CODEC=auto and RINGPRESS_ADJUST_STEPS make of calls.
std::vector<SettingRow> rows_of_choices();
/// Connections, threads and shared memory.
std::vector<SettingRow> rows_of_connections();
/// What is written.
std::vector<SettingRow> rows_of_files();
/// The preloaded library, with its tests' stand-ins for NCCL and CUDA, and the plugin.
std::vector<SettingRow> rows_of_nccl_doors();
/// Calls through the preloaded library, with such stand-ins.
std::vector<SettingRow> rows_of_streams();
/// CollNet of the plugin, driven by a stand-in for NCCL.
std::vector<SettingRow> rows_of_plugin();
/// The library that programs load instead of NCCL.
std::vector<SettingRow> rows_of_library();

}  // namespace ringpress::testing

#endif  // TESTS_NCCL_PLUGIN_SESSION_SETTINGS_SETTING_ROWS_H_
