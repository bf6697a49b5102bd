#include "nccl_plugin/session/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/live/live_names.h"
#include "nccl_plugin/session/settings/nccl_variables.h"

namespace ringpress::nccl_plugin {
namespace {

enum class Kind { kFile, kFileOrLink, kFolder };

struct Output {
  const char* variable;
  std::string path;
  Kind kind = Kind::kFile;
  bool is_of_rank_0 = true;
};

/// Why no file can be made in a folder, or 0. One is made, and removed: there are file systems that
/// refuse what their permissions allow.
int error_of_new_file(const std::string& folder) {
  std::string path = folder + "/.ringpress-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return errno;
  close(file);
  unlink(path.c_str());
  return 0;
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Not opened where it is no regular file: closing a pipe would end its reader.
int error_of_file(const std::string& path, bool may_be_link) {
  struct stat found {};
  const int looked = may_be_link ? stat(path.c_str(), &found) : lstat(path.c_str(), &found);
  if (looked != 0) return errno == ENOENT ? error_of_new_file(folder_of(path)) : errno;
  if (S_ISDIR(found.st_mode)) return EISDIR;
  if (S_ISLNK(found.st_mode)) return ELOOP;
  if (!S_ISREG(found.st_mode)) {
    return faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0 ? errno : 0;
  }
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return errno;
  close(file);
  return 0;
}

/// It is made where it is not there, with those above it.
int error_of_folder(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0) {
    return S_ISDIR(found.st_mode) ? error_of_new_file(path) : ENOTDIR;
  }
  const int error = errno;
  const std::string above = folder_of(path);
  return error != ENOENT || above == path ? error : error_of_folder(above);
}

int error_of(const Output& output) {
  switch (output.kind) {
    case Kind::kFile:
      return error_of_file(output.path, false);
    case Kind::kFileOrLink:
      return error_of_file(output.path, true);
    case Kind::kFolder:
      return error_of_folder(output.path);
  }
  return 0;
}

Status problem_of(const Output& output) {
  if (output.path.empty()) return Status::ok();
  const int error = error_of(output);
  if (error == 0) return Status::ok();
  return Status(Code::kSystem,
                std::string(output.variable) + "=" + output.path + ": " + std::strerror(error));
}

/// What communicators write of themselves.
std::vector<Output> reports_of(const Settings& settings, int rank) {
  const LiveFiles live = live_files(live_names(settings), rank);
  return {{"RINGPRESS_STATS", settings.statistics, Kind::kFile, false},
          {"RINGPRESS_LIVE", live.live, Kind::kFile, false},
          {"RINGPRESS_PROMETHEUS", live.prometheus, Kind::kFile, false},
          {"RINGPRESS_TIMELINE", live.timeline, Kind::kFile, false},
          {"RINGPRESS_TUNING_LOG", settings.tuning_log},
          {"RINGPRESS_TRACE", settings.trace}};
}

}  // namespace

std::vector<Status> find_output_problems(const Settings& settings) {
  std::vector<Output> all = reports_of(settings, 0);
  if (!settings.cache.folder.empty()) {
    all.push_back({"RINGPRESS_CACHE", settings.cache.folder, Kind::kFolder});
  }
  if (logs_to_file(settings)) {
    all.push_back({"NCCL_DEBUG_FILE", debug_path(settings.nccl.debug_file), Kind::kFileOrLink});
  }
  std::vector<Status> problems;
  for (const Output& output : all) {
    Status problem = problem_of(output);
    if (!problem.is_ok()) problems.push_back(std::move(problem));
  }
  return problems;
}

void warn_of_outputs(const Settings& settings, int rank) {
  for (const Output& output : reports_of(settings, rank)) {
    if (output.is_of_rank_0 && rank != 0) continue;
    const Status problem = problem_of(output);
    if (!problem.is_ok()) warn_once(problem.message());
  }
}

}  // namespace ringpress::nccl_plugin
