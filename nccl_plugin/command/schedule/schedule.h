// ringpress schedule: which jobs run on a cluster in each slot, with how many workers, and where.
#ifndef NCCL_PLUGIN_COMMAND_SCHEDULE_SCHEDULE_H_
#define NCCL_PLUGIN_COMMAND_SCHEDULE_SCHEDULE_H_

#include <cstddef>
#include <string>

namespace ringpress::nccl_plugin::command {

struct ScheduleOptions {
  std::string cluster_file;
  std::string jobs_file;
  std::string policy = "gadget";
  std::size_t slots = 200;    // At most.
  double lp_seconds = 60;     // That gadget-lp may take for a slot.
  std::string svg_file;       // Empty: no picture of the placements.
  std::string load_file;      // Empty: no picture of the utility against load.
  std::string launch_folder;  // Empty: no files to start the jobs with.
  std::size_t launch_slot = 0;
  bool summary = false;  // Without the placements of each slot.
  bool json = false;     // For programs.
};

/// Prints schedule and totals, writes files and pictures. Returns the exit status: 2 for a bad
/// file.
int print_schedule(const ScheduleOptions& options);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_SCHEDULE_SCHEDULE_H_
