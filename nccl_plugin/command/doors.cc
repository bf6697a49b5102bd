#include "nccl_plugin/command/doors.h"

#include <fmt/core.h>

#include <filesystem>

#include "nccl_plugin/command/run.h"

namespace ringpress::nccl_plugin::command {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPluginFile = "libnccl-net-ringpress.so";
constexpr const char* kPreloadFile = "libringpress-preload.so";
constexpr const char* kNcclFile = "libnccl.so.2";

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// The first of the folders that holds the file; empty: none does.
std::string folder_of(const char* file, const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    if (is_file(folder / file)) return fs::absolute(folder).lexically_normal().string();
  }
  return "";
}

std::string path_in(const std::string& folder, const char* file) {
  return folder.empty() ? "" : (fs::path(folder) / file).string();
}

/// Folders of libraries of the tree that this program is in.
std::vector<fs::path> own_folders() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path prefix = program.parent_path().parent_path();
  std::vector<fs::path> folders;
  for (const char* place : {"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"}) {
    folders.push_back(prefix / place);
  }
  return folders;
}

/// The plugin's folder and the others may be one inside the other.
std::vector<fs::path> folders_around(const std::string& folder) {
  const fs::path given = fs::absolute(folder).lexically_normal();
  return {given, given.parent_path(), given.parent_path().parent_path()};
}

std::vector<fs::path> below(const std::vector<fs::path>& folders,
                            const std::vector<const char*>& names) {
  std::vector<fs::path> found;
  for (const fs::path& folder : folders) {
    for (const char* name : names) found.push_back(*name == '\0' ? folder : folder / name);
  }
  return found;
}

/// What stands against a door, problems alone or warnings too.
std::vector<std::string> faults_of(const std::vector<Finding>& findings, const char* about,
                                   bool are_warnings_faults) {
  std::vector<std::string> faults;
  for (const Finding& finding : findings) {
    const bool is_fault = finding.level == Level::kProblem ||
                          (are_warnings_faults && finding.level == Level::kWarning);
    if (finding.about == about && is_fault) {
      faults.push_back(fmt::format("{}: {}", about, finding.text));
    }
  }
  return faults;
}

/// Of the two for GPUs.
std::vector<std::string> faults_of_door(const std::vector<Finding>& findings,
                                        const DoorFiles& files, Door door) {
  const std::string about = fmt::format("door {}", door_name(door));
  // What it warns of door A is what keeps it from compressing.
  std::vector<std::string> faults = faults_of(findings, about.c_str(), door == Door::kPreloaded);
  if (!has_files(files, door)) faults.push_back(fmt::format("{}: no {}", about, needed_file(door)));
  return faults;
}

void append(const std::vector<std::string>& more, std::vector<std::string>* all) {
  all->insert(all->end(), more.begin(), more.end());
}

}  // namespace

std::optional<Door> parse_door(const std::string& text) {
  for (const Door door : {Door::kPreloaded, Door::kPlugin, Door::kHost}) {
    const char letter = door_name(door)[0];
    if (text.size() == 1 && (text[0] | 0x20) == (letter | 0x20)) return door;
  }
  return std::nullopt;
}

const char* door_name(Door door) {
  switch (door) {
    case Door::kPreloaded:
      return "A";
    case Door::kPlugin:
      return "B";
    case Door::kHost:
      return "C";
  }
  return "";
}

DoorFiles find_door_files(const std::string& library_folder) {
  const bool is_given = !library_folder.empty();
  const std::vector<fs::path> folders = is_given ? folders_around(library_folder) : own_folders();
  DoorFiles files;
  files.plugin_folder = is_given ? folder_of(kPluginFile, {library_folder}) : plugin_folder();
  files.preload = path_in(folder_of(kPreloadFile, folders), kPreloadFile);
  // Where they are installed, and in a build tree.
  const std::vector<fs::path> of_preload = below(folders, {"ringpress/preload", "preload"});
  files.preload_as_nccl = path_in(folder_of(kNcclFile, of_preload), kNcclFile);
  std::vector<fs::path> of_host = below(folders, {"ringpress/host", "host"});
  if (is_given) of_host.insert(of_host.begin(), library_folder);
  files.host_folder = folder_of(kNcclFile, of_host);
  return files;
}

bool has_files(const DoorFiles& files, Door door) {
  switch (door) {
    case Door::kPreloaded:
      return !files.preload.empty() && !files.preload_as_nccl.empty();
    case Door::kPlugin:
      return !files.plugin_folder.empty();
    case Door::kHost:
      return !files.host_folder.empty();
  }
  return false;
}

const char* needed_file(Door door) {
  switch (door) {
    case Door::kPreloaded:
      return "libringpress-preload.so with preload/libnccl.so.2";
    case Door::kPlugin:
      return kPluginFile;
    case Door::kHost:
      return "libnccl.so.2 for host memory";
  }
  return "";
}

const std::string& library_to_preload(const DoorFiles& files,
                                      const std::vector<ProgramNccl>& programs) {
  const bool is_linked = !programs.empty() && !programs[0].library.empty();
  return is_linked ? files.preload : files.preload_as_nccl;
}

DoorChoice choose_door(const Surroundings& as_run, const DoorFiles& files) {
  DoorChoice choice;
  if (!as_run.has_gpu_driver) {
    choice.reasons.emplace_back("there is no GPU driver (libcuda.so.1)");
    if (has_files(files, Door::kHost)) choice.door = Door::kHost;
    if (!choice.door)
      choice.reasons.push_back(fmt::format("door C: no {}", needed_file(Door::kHost)));
    return choice;
  }
  const std::vector<Finding> findings = judge(as_run);
  for (const Door door : {Door::kPreloaded, Door::kPlugin}) {
    const std::vector<std::string> faults = faults_of_door(findings, files, door);
    if (faults.empty()) {
      choice.door = door;
      choice.reasons.emplace_back("the doctor finds no problem with it");
      return choice;
    }
    append(faults, &choice.reasons);
  }
  return choice;
}

}  // namespace ringpress::nccl_plugin::command
