// Which NCCL a program loads, without starting it or importing anything: PyTorch's, that of a
// program that is linked with it.
#ifndef NCCL_PLUGIN_COMMAND_PROGRAM_NCCL_H_
#define NCCL_PLUGIN_COMMAND_PROGRAM_NCCL_H_

#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/command/environment.h"

namespace ringpress::nccl_plugin::command {

struct ProgramNccl {
  std::string program;        // "PyTorch in /a/site-packages/torch", or a path.
  std::string library;        // Of NCCL, that the dynamic linker takes for it; may be empty.
  std::string without;        // `library` is empty: why, to follow the program's name.
  bool cannot_start = false;  // It is linked with an NCCL that is not there.
};

struct ProgramSearch {
  std::vector<ProgramNccl> programs;  // The one that the job starts comes first.
  std::vector<std::string> packages;  // Paths of NCCLs in packages that a Python sees.
};

enum class Linked { kNo, kFound, kMissing };

struct LinkedNccl {
  Linked state = Linked::kNo;
  std::string path;
};

/// From what the dynamic linker lists: "NAME => PATH (ADDRESS)", "NAME => not found", or
/// "PATH (ADDRESS)", one a line.
LinkedNccl read_linked_nccl(const std::string& list);

/// Where a program of this name or path is; nothing if there is none that can be started.
std::optional<std::string> find_program(const std::string& name);

/// `path`: the program that the job starts, or a script for a Python. Empty, or another script: the
/// Pythons of the environment are looked at, which are that in PATH and those of VIRTUAL_ENV and
/// CONDA_PREFIX.
ProgramSearch search_programs(const JobEnvironment& environment, const std::string& path);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_PROGRAM_NCCL_H_
