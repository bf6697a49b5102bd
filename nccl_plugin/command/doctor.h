// ringpress doctor: which of this library's doors work in this environment, and why not.
#ifndef NCCL_PLUGIN_COMMAND_DOCTOR_H_
#define NCCL_PLUGIN_COMMAND_DOCTOR_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/command/environment.h"
#include "nccl_plugin/command/libraries.h"
#include "nccl_plugin/command/program_nccl.h"

namespace ringpress::nccl_plugin::command {

enum class Level { kOk, kWarning, kProblem };

struct Finding {
  Level level = Level::kOk;
  std::string about;  // "door A", "door B", "door C" or "settings".
  std::string text;
  std::string remedy;  // What to do; empty where nothing is to be done.
};

/// Another variable than NCCL_NET_PLUGIN that names this library, and what NCCL finds for it.
struct NamedPlugin {
  std::string variable;  // NCCL_TUNER_PLUGIN, ...
  TableKind kind = TableKind::kTuner;
  PluginLibrary library;
};

/// What there is to judge.
struct Surroundings {
  JobEnvironment environment;
  PluginLibrary plugin;
  std::string plugin_folder;    // Where `ringpress run` would take it from; may be empty.
  PluginLibrary run_plugin;     // And what lies there, where NCCL finds no `plugin`.
  DoorLibrary preload;          // Of door A.
  DoorLibrary preload_as_nccl;  // The same under NCCL's name.
  DoorLibrary engine;           // Of door A.
  DoorLibrary kernels;          // Of door A.
  std::string host_folder;      // Of door C's libnccl.so.2; empty: there is none.
  std::vector<NamedPlugin> named_plugins;
  PluginLibrary next_plugin;  // RINGPRESS_NEXT_NET_PLUGIN's, where that is set.
  std::vector<ProgramNccl> programs;
  std::vector<NcclLibrary> nccl;
  std::optional<NcclLibrary> named_nccl;  // RINGPRESS_REAL_NCCL's, where that is set.
  bool has_gpu_driver = false;
  std::size_t open_files = 0;  // That a process may have; 0: no limit is known.
  // By which TCP paces what is sent, unless RINGPRESS_TCP_CONGESTION says otherwise; may be empty.
  std::string congestion;
  std::string allowed_congestion;  // "reno cubic": what that may be.
};

/// `program`: a path of what the job starts; empty: what the Pythons of the environment would load.
Surroundings look_around(const std::string& program);

std::vector<Finding> judge(const Surroundings& surroundings);

/// What judge() finds of door A.
std::vector<Finding> judge_preloading(const Surroundings& surroundings);

struct DoctorOptions {
  bool json = false;
  std::string program;  // Its name, as a shell takes it; empty: not known.
};

/// 0: no problem; 1: a problem; 2: there is no such program.
int run_doctor(const DoctorOptions& options);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_DOCTOR_H_
