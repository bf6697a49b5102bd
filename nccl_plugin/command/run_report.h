// ringpress run --report: what a job writes about itself is put into a folder, and said when it
// has ended.
#ifndef NCCL_PLUGIN_COMMAND_RUN_REPORT_H_
#define NCCL_PLUGIN_COMMAND_RUN_REPORT_H_

#include <functional>
#include <string>
#include <vector>

#include "nccl_plugin/command/child.h"
#include "nccl_plugin/command/environment.h"

namespace ringpress::nccl_plugin::command {

/// Sets RINGPRESS_STATS, RINGPRESS_TUNING_LOG and, where this library has that setting,
/// RINGPRESS_LIVE to files in `folder`, whose names have this host's name, as a folder may be one
/// that hosts share. Throws terminal::Error where the environment names others.
Variables variables_of_report(const std::string& folder, const JobEnvironment& environment);

/// Makes the folder, with those above it. Throws terminal::Error where that fails, or the folder
/// cannot be written.
void make_report_folder(const std::string& folder);

/// Says on standard error which files of the folder there are, and how a page is made of them.
void tell_report(const std::string& folder);

/// Runs `work`, which starts a program and returns a status where it could not, in a child process,
/// and waits for its end. Signals that ask a process to end go on to it. The status is that of the
/// child; where a signal has ended it, `signal` is that one, else 0.
struct ChildEnd {
  int status = 0;
  int signal = 0;
};
ChildEnd run_in_child(const std::function<int()>& work);

/// Ends this process as that one was: the status, or the same signal.
int end_as(const ChildEnd& child);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_RUN_REPORT_H_
