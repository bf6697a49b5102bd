#include "nccl_plugin/session/live/live_names.h"

#include <unistd.h>

#include "nccl_plugin/session/live/live_line.h"

namespace ringpress::nccl_plugin {
namespace {

/// What stands for `letter` behind a %; empty: nothing does.
std::string value_of(char letter, int rank) {
  switch (letter) {
    case 'h':
      return live_host();
    case 'p':
      return std::to_string(getpid());
    case 'r':
      return std::to_string(rank);
    case '%':
      return "%";
    default:
      return "";
  }
}

bool tells_processes_apart(std::string_view name) {
  return name.find("%p") != std::string_view::npos || name.find("%r") != std::string_view::npos;
}

std::string file_of_process(const std::string& name, int rank) {
  return rank == 0 || tells_processes_apart(name) ? live_file_name(name, rank) : std::string();
}

}  // namespace

std::string live_file_name(std::string_view name, int rank) {
  std::string path;
  for (std::size_t at = 0; at < name.size(); ++at) {
    const std::string value =
        name[at] == '%' && at + 1 < name.size() ? value_of(name[at + 1], rank) : "";
    if (value.empty()) {
      path += name[at];
    } else {
      path += value;
      ++at;
    }
  }
  return path;
}

LiveFiles live_files(const LiveFiles& names, int rank) {
  return {live_file_name(names.live, rank), file_of_process(names.prometheus, rank),
          file_of_process(names.timeline, rank)};
}

}  // namespace ringpress::nccl_plugin
