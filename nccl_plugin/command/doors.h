// The doors that `ringpress run` opens for a program: which files of this library each needs, and
// which one works.
#ifndef NCCL_PLUGIN_COMMAND_DOORS_H_
#define NCCL_PLUGIN_COMMAND_DOORS_H_

#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/command/advice.h"
#include "nccl_plugin/command/doctor.h"
#include "nccl_plugin/command/program_nccl.h"

namespace ringpress::nccl_plugin::command {

/// "A" or "a"; nothing for a text that names no door.
std::optional<Door> parse_door(const std::string& text);
const char* door_name(Door door);

/// Where this library's files are; empty: they are not there.
struct DoorFiles {
  std::string preload;          // libringpress-preload.so, for programs linked with NCCL.
  std::string preload_as_nccl;  // The same as libnccl.so.2, which reaches those too that open it.
  std::string plugin_folder;    // Of libnccl-net-ringpress.so.
  std::string host_folder;      // Of the libnccl.so.2 for host memory.
};

/// `library_folder`: the user's, which may be any of a tree's folders of libraries; empty: what
/// lies beside this program, in a build tree or where it is installed.
DoorFiles find_door_files(const std::string& library_folder);

/// What `door` needs is there.
bool has_files(const DoorFiles& files, Door door);
/// For people: what is missing.
const char* needed_file(Door door);

/// What is preloaded for the program that comes first: the library under NCCL's name, unless the
/// program is seen to be linked with NCCL. It is there: has_files().
const std::string& library_to_preload(const DoorFiles& files,
                                      const std::vector<ProgramNccl>& programs);

struct DoorChoice {
  std::optional<Door> door;
  std::vector<std::string> reasons;  // Why that one; where there is none, why not each.
};

/// What the doctor finds to work. `as_run`: with the variables that door B would set. Door A goes
/// before door B, whose codecs work on host memory. Without a driver of a GPU it is door C, if that
/// is there.
DoorChoice choose_door(const Surroundings& as_run, const DoorFiles& files);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_DOORS_H_
