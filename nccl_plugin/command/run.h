// ringpress run: starts a program with the variables that make its NCCL use this library.
#ifndef NCCL_PLUGIN_COMMAND_RUN_H_
#define NCCL_PLUGIN_COMMAND_RUN_H_

#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/command/advice.h"
#include "nccl_plugin/command/environment.h"
#include "nccl_plugin/command/run_settings.h"

namespace ringpress::nccl_plugin::command {

struct RunOptions {
  bool dry_run = false;
  std::string library_folder;  // Empty: beside this program.
  std::string door = "B";      // A, B or C; auto: what the doctor finds to work.
  SettingOptions settings;
  std::string report_folder;  // Empty: no report.
  std::vector<std::string> command;
};

/// What will be set, and what the person should know.
struct RunPlan {
  std::vector<std::pair<std::string, std::string>> sets;
  std::vector<std::string> keeps;  // NAME=value, the user's own.
  std::vector<Advice> warnings;
};
/// Of door B.
RunPlan plan_run(const JobEnvironment& environment, const std::string& library_folder);
/// Of door A: `library` is preloaded, unless the user has preloaded one of this library's.
RunPlan plan_preloading(const JobEnvironment& environment, const std::string& library);
/// Of door C: programs find the libnccl.so.2 of `folder` first.
RunPlan plan_on_host(const JobEnvironment& environment, const std::string& folder);

/// The folder that holds this library under NCCL's names and no libnccl.so.2, which would take the
/// place of NCCL itself; empty if there is none.
std::string plugin_folder();

/// Returns only when the command was not started: 127, not found; 126, not executable; 125, no
/// library, or no door that works; or 0 after a dry run. With a report: the command's status, when
/// it has ended. Throws terminal::Error for options that cannot be.
int run_command(const RunOptions& options);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_RUN_H_
