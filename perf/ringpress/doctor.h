// ringpress doctor: which of this library's doors work in this environment, and why not.
#ifndef PERF_RINGPRESS_DOCTOR_H_
#define PERF_RINGPRESS_DOCTOR_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "perf/ringpress/environment.h"
#include "perf/ringpress/libraries.h"

namespace ringpress::perf {

enum class Level { kOk, kWarning, kProblem };

struct Finding {
  Level level = Level::kOk;
  std::string about;  // "door A", "door B", "door C" or "settings".
  std::string text;
  std::string remedy;  // What to do; empty where nothing is to be done.
};

/// What there is to judge.
struct Surroundings {
  JobEnvironment environment;
  PluginLibrary plugin;
  std::string plugin_folder;    // Where `ringpress run` would take it from; may be empty.
  std::string preload_library;  // Of door A; empty: not there.
  KernelLibrary kernels;        // Of door A.
  PluginLibrary next_plugin;    // RINGPRESS_NEXT_NET_PLUGIN's, where that is set.
  std::vector<NcclLibrary> nccl;
  std::optional<NcclLibrary> named_nccl;  // RINGPRESS_REAL_NCCL's, where that is set.
  bool has_gpu_driver = false;
  std::size_t open_files = 0;  // That a process may have; 0: no limit is known.
  // By which TCP paces what is sent, unless RINGPRESS_TCP_CONGESTION says otherwise; may be empty.
  std::string congestion;
  std::string allowed_congestion;  // "reno cubic": what that may be.
};
Surroundings look_around();

std::vector<Finding> judge(const Surroundings& surroundings);

/// What judge() finds of door A.
std::vector<Finding> judge_preloading(const Surroundings& surroundings);

/// 0: no problem; 1: a problem.
int run_doctor(bool json);

}  // namespace ringpress::perf

#endif  // PERF_RINGPRESS_DOCTOR_H_
