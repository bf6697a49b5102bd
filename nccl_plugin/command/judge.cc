// What the doctor thinks of what there is.
#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "nccl_plugin/command/advice.h"
#include "nccl_plugin/command/doctor.h"
#include "nccl_plugin/plugin/collnet_descriptors.h"
#include "nccl_plugin/plugin/door_variables.h"

namespace ringpress::nccl_plugin::command {
namespace {

namespace plugin = nccl_plugin::plugin;

// NCCL takes tuner and profiler from the net library by itself from these versions on.
constexpr int kTunerFromNet = 22100;
constexpr int kProfilerFromNet = 22803;
// NCCL_NET_PLUGIN may be a list from this version on.
constexpr int kNetPluginLists = 22700;

// Systems give at least so many; fewer is somebody's choice.
constexpr std::size_t kUsualOpenFiles = 1024;

constexpr const char* kInstallAgain =
    "build or install it again, or take its folder out of LD_LIBRARY_PATH if it is not meant";

using Findings = std::vector<Finding>;

void add(Findings* findings, Level level, const char* about, std::string text,
         std::string remedy = "") {
  findings->push_back({level, about, std::move(text), std::move(remedy)});
}

bool names(const JobEnvironment& environment, const char* variable) {
  const Variable* const given = environment.find(variable);
  return given != nullptr && plugin::is_this_library(given->value);
}

std::string list_of_newest(const Tables& ours, const Tables& theirs) {
  std::string text;
  for (const TableKind kind : kTableKinds) {
    const int version = newest_common(ours, theirs, kind);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", table_name(kind),
                        version == 0 ? "none" : fmt::format("v{}", version));
  }
  return text;
}

/// NCCL finds none: what `ringpress run` would show to it is looked at instead.
void judge_absent_plugin(const Surroundings& all, Findings* findings) {
  const bool is_broken = !all.run_plugin.problem.empty();
  const bool is_built = !all.plugin_folder.empty() && !is_broken;
  add(findings, Level::kProblem, "door B",
      fmt::format("NCCL would not find this library: {}", all.plugin.problem),
      is_built ? "start the job with `ringpress run -- CMD`, or put " + all.plugin_folder +
                     " into LD_LIBRARY_PATH"
               : "build or install libnccl-net-ringpress.so");
  if (is_broken) {
    add(findings, Level::kProblem, "door B",
        fmt::format("`ringpress run` would not help: {}", all.run_plugin.problem), kInstallAgain);
  }
}

/// Why a library that can be loaded is not this one; empty: it is.
std::string why_not_ours(const PluginLibrary& library) {
  if (library.tables.empty()) {
    return fmt::format("{} shows none of the tables that NCCL looks up: it is no plugin",
                       library.path);
  }
  if (!library.network.empty() && library.network != plugin::kPluginName) {
    return fmt::format("{} is the network plugin \"{}\", not this library", library.path,
                       library.network);
  }
  return "";
}

void judge_plugin(const Surroundings& all, Findings* findings) {
  const PluginLibrary& library = all.plugin;
  if (library.path.empty()) {
    judge_absent_plugin(all, findings);
    return;
  }
  const std::string problem = library.problem.empty() ? why_not_ours(library) : library.problem;
  if (!problem.empty()) {
    add(findings, Level::kProblem, "door B",
        fmt::format("NCCL cannot use {}: {}", library.found_as, problem), kInstallAgain);
    return;
  }
  add(findings, Level::kOk, "door B", fmt::format("{} is {}", library.found_as, library.path));
  for (const TableKind kind : kTableKinds) {
    const auto versions = library.tables.find(kind);
    if (versions != library.tables.end() && !versions->second.empty()) continue;
    const bool needed = kind == TableKind::kNet || kind == TableKind::kCollNet;
    add(findings, needed ? Level::kProblem : Level::kWarning, "door B",
        fmt::format("it shows no {} table", table_name(kind)),
        "take a complete build of this library");
  }
}

/// Where the network is not found either, that is what is said.
void judge_named_plugins(const Surroundings& all, Findings* findings) {
  for (const NamedPlugin& named : all.named_plugins) {
    const PluginLibrary& library = named.library;
    if (library.path.empty() && all.plugin.path.empty()) continue;
    const auto shown = library.tables.find(named.kind);
    std::string problem = library.problem;
    if (problem.empty() && shown == library.tables.end()) {
      problem = fmt::format("{} shows no {} table", library.path, table_name(named.kind));
    }
    if (problem.empty()) continue;
    add(findings, library.path.empty() ? Level::kWarning : Level::kProblem, "door B",
        fmt::format("{}={}: {}", named.variable, all.environment.value(named.variable.c_str()),
                    problem),
        kInstallAgain);
  }
}

void judge_next_plugin(const Surroundings& all, Findings* findings) {
  const PluginLibrary& next = all.next_plugin;
  if (next.found_as.empty()) return;  // Not asked for.
  if (const auto advice = advise_on_next_plugin(next, all.plugin.tables)) {
    add(findings, Level::kProblem, "door B", advice->text, advice->remedy);
    return;
  }
  const int net = newest_common(all.plugin.tables, next.tables, TableKind::kNet);
  add(findings, Level::kOk, "door B",
      fmt::format("what is not compressed goes through {} (net v{} at most)", next.path, net));
}

/// Of an NCCL that does not show this library which tensors it sends.
void add_unknown_tensors(const Surroundings& all, const std::string& why, const std::string& remedy,
                         Findings* findings) {
  const std::string codec = codec_for_known_tensors_only(all.environment);
  if (needs_known_gradients(all.environment)) {
    add(findings, Level::kProblem, "door B",
        why +
            ": gradients cannot be told from other sums, and RINGPRESS_CODEC=auto compresses "
            "nothing else, so nothing is compressed",
        remedy + ", or RINGPRESS_GRADIENTS=all, or name a codec, such as RINGPRESS_CODEC=q4");
  } else if (codec.empty()) {
    add(findings, Level::kWarning, "door B", why + ": no error feedback, unbiased rounding instead",
        remedy);
  } else {
    add(findings, Level::kProblem, "door B",
        fmt::format("{}: no error feedback, and {} has no unbiased form, so nothing is compressed",
                    why, codec),
        remedy + ", or choose another codec, such as q4");
  }
}

void judge_error_feedback(const Surroundings& all, const NcclLibrary& nccl, Findings* findings) {
  const int profiler = newest_common(all.plugin.tables, nccl.tables, TableKind::kProfiler);
  const std::string version = version_text(nccl.version);
  if (profiler == 0) {
    add_unknown_tensors(
        all,
        fmt::format("NCCL {} has no place for this library's profiler, or it has none", version),
        "use NCCL 2.27 or later", findings);
  } else if (nccl.version < kProfilerFromNet && !names(all.environment, "NCCL_PROFILER_PLUGIN")) {
    add_unknown_tensors(
        all, fmt::format("NCCL {} does not take the profiler from the network's library", version),
        "set NCCL_PROFILER_PLUGIN=ringpress", findings);
  }
}

void judge_list(const Surroundings& all, const NcclLibrary& nccl, Findings* findings) {
  const char* const plugins = all.environment.value("NCCL_NET_PLUGIN");
  if (plugins == nullptr || nccl.version >= kNetPluginLists) return;
  if (!plugin::names_this_library(plugins, "") || plugin::is_this_library(plugins)) return;
  add(findings, Level::kProblem, "door B",
      fmt::format("NCCL_NET_PLUGIN={}: NCCL {} takes the list for one name, and finds no library",
                  plugins, version_text(nccl.version)),
      "set NCCL_NET_PLUGIN=ringpress");
}

void judge_tables(const Surroundings& all, const NcclLibrary& nccl, Findings* findings) {
  const std::string version = version_text(nccl.version);
  add(findings, Level::kOk, "door B",
      fmt::format("NCCL {} ({}): {}", version, nccl.found, nccl.path));
  if (all.plugin.tables.empty()) return;
  const int net = newest_common(all.plugin.tables, nccl.tables, TableKind::kNet);
  const int collnet = newest_common(all.plugin.tables, nccl.tables, TableKind::kCollNet);
  const std::string taken = list_of_newest(all.plugin.tables, nccl.tables);
  if (net == 0 || collnet == 0) {
    add(findings, Level::kProblem, "door B",
        fmt::format("NCCL {} takes from this library: {}", version, taken),
        "use a version of NCCL from 2.19 on that this library knows");
    return;
  }
  add(findings, Level::kOk, "door B",
      fmt::format("NCCL {} takes from this library: {}", version, taken));
  if (newest_common(all.plugin.tables, nccl.tables, TableKind::kTuner) == 0 ||
      nccl.version < kTunerFromNet) {
    add(findings, Level::kWarning, "door B",
        fmt::format("NCCL {} does not ask this library's tuner: it chooses itself when to use "
                    "CollNet, which is seldom",
                    version),
        "use NCCL 2.21 or later");
  }
  judge_error_feedback(all, nccl, findings);
  judge_list(all, nccl, findings);
}

bool sets_variables_inside(const Surroundings& all, const NcclLibrary& nccl) {
  return names(all.environment, "NCCL_ENV_PLUGIN") &&
         newest_common(all.plugin.tables, nccl.tables, TableKind::kEnv) > 0;
}

bool is_program_known(const Surroundings& all) {
  return std::any_of(all.nccl.begin(), all.nccl.end(),
                     [](const NcclLibrary& nccl) { return nccl.is_of_program; });
}

/// Where it is not known which NCCL the program loads, each may be it.
bool may_be_loaded(const Surroundings& all, const NcclLibrary& nccl) {
  return nccl.is_of_program || !is_program_known(all);
}

/// By every NCCL that may be loaded, if any is seen.
bool are_set_inside(const Surroundings& all) {
  const auto counts = [&](const NcclLibrary& nccl) {
    return nccl.is_real() && may_be_loaded(all, nccl);
  };
  return std::any_of(all.nccl.begin(), all.nccl.end(), counts) &&
         std::all_of(all.nccl.begin(), all.nccl.end(), [&](const NcclLibrary& nccl) {
           return !counts(nccl) || sets_variables_inside(all, nccl);
         });
}

/// What the user's variables take away, in the sense of each NCCL that may be loaded.
std::vector<plugin::Conflict> conflicts_of(const Surroundings& all) {
  std::vector<int> versions;
  for (const NcclLibrary& nccl : all.nccl) {
    if (nccl.is_real() && may_be_loaded(all, nccl)) versions.push_back(nccl.version);
  }
  if (versions.empty()) versions.push_back(0);
  std::vector<plugin::Conflict> found;
  for (const int version : versions) {
    for (plugin::Conflict& conflict : plugin::conflicts(all.environment.lookup(), version)) {
      const auto is_it = [&](const plugin::Conflict& known) {
        return known.variable == conflict.variable && known.loses == conflict.loses;
      };
      if (std::none_of(found.begin(), found.end(), is_it)) found.push_back(std::move(conflict));
    }
  }
  return found;
}

void judge_variables(const Surroundings& all, Findings* findings) {
  const bool inside = are_set_inside(all);
  const std::vector<plugin::Conflict> conflicts = conflicts_of(all);
  const auto is_in_conflict = [&](const std::string& name) {
    return std::any_of(conflicts.begin(), conflicts.end(), [&](const plugin::Conflict& conflict) {
      return conflict.variable.starts_with(name + "=");
    });
  };
  const auto need = [&](const char* name, const char* value, const char* why, Level level) {
    if (is_in_conflict(name)) return;  // Said below.
    if (const Variable* given = all.environment.find(name)) {
      add(findings, Level::kOk, "door B",
          fmt::format("{}={} ({})", name, given->value, given->origin));
    } else if (inside) {
      add(findings, Level::kOk, "door B", fmt::format("{} is set inside NCCL", name));
    } else {
      add(findings, level, "door B", fmt::format("{} is not set: {}", name, why),
          fmt::format("start the job with `ringpress run -- CMD`, or set {}={}", name, value));
    }
  };
  need("NCCL_NET_PLUGIN", plugin::kPluginName, "NCCL does not load this library", Level::kProblem);
  for (const plugin::DoorVariable& variable : plugin::kDoorVariables) {
    const bool decisive = std::string(variable.name) == "NCCL_COLLNET_ENABLE";
    need(variable.name, variable.value, variable.why, decisive ? Level::kProblem : Level::kWarning);
  }
  const bool by_ctas =
      all.environment.find("NCCL_MIN_CTAS") && all.environment.find("NCCL_MAX_CTAS");
  if (!all.environment.find("NCCL_MIN_NCHANNELS") && !by_ctas) {
    add(findings, Level::kOk, "door B",
        "NCCL_MIN_NCHANNELS is not set: the size of CollNet's calls is NCCL's choice",
        "8 makes them larger, and takes more of the GPU for every collective");
  }
  for (const plugin::Conflict& conflict : conflicts) {
    add(findings, conflict.fatal ? Level::kProblem : Level::kWarning, "door B",
        conflict.variable + ": " + conflict.loses, conflict.remedy);
  }
}

void judge_programs(const Surroundings& all, Findings* findings) {
  for (const ProgramNccl& program : all.programs) {
    if (!program.library.empty()) continue;
    add(findings, program.cannot_start ? Level::kProblem : Level::kWarning, "door B",
        program.program + " " + program.without,
        program.cannot_start ? "install its NCCL, or put its folder into LD_LIBRARY_PATH"
                             : "name the program that the job starts: ringpress doctor PROGRAM");
  }
}

void judge_nccl(const Surroundings& all, Findings* findings) {
  bool real = false;
  for (const NcclLibrary& nccl : all.nccl) {
    const bool counts = may_be_loaded(all, nccl);
    if (!nccl.problem.empty()) {
      add(findings, counts ? Level::kProblem : Level::kWarning, "door B",
          fmt::format("an NCCL that cannot be loaded ({}): {}", nccl.found, nccl.problem),
          "replace it, or take its folder out of LD_LIBRARY_PATH");
    } else if (nccl.is_ours) {
      add(findings, Level::kWarning, "door B",
          fmt::format("libnccl.so.2 is {}, this library for host memory: programs that load NCCL "
                      "by that name do not use the GPU",
                      nccl.path),
          "take its folder out of LD_LIBRARY_PATH where NCCL is meant");
    } else if (nccl.is_shim) {
      add(findings, Level::kOk, "door A",
          fmt::format("libnccl.so.2 is {}: programs reach NCCL through it", nccl.path));
    } else if (counts) {
      real = true;
      judge_tables(all, nccl, findings);
    } else {
      add(findings, Level::kOk, "door B",
          fmt::format("another NCCL, {} ({}), which is not judged: {}", version_text(nccl.version),
                      nccl.found, nccl.path));
    }
  }
  if (real && !is_program_known(all)) {
    add(findings, Level::kOk, "door B",
        "no PyTorch with NCCL is seen: every NCCL that a program may load is judged",
        "name the program that the job starts: ringpress doctor PROGRAM");
  }
  if (!real) {
    add(findings, Level::kWarning, "door B",
        "no NCCL is seen, neither by the loader nor in Python's packages",
        "one that is linked into a program cannot be seen from here");
  }
  if (!all.has_gpu_driver) {
    add(findings, Level::kWarning, "door B", "there is no GPU driver (libcuda.so.1)",
        "NCCL works on GPUs only; door C works without");
  }
}

void judge_open_files(const Surroundings& all, Findings* findings) {
  if (all.open_files == 0 || all.open_files >= kUsualOpenFiles) return;
  constexpr std::size_t kUsualSockets = 2;
  const std::size_t first = plugin::collnet_descriptors(2, kUsualSockets);
  const std::size_t further = plugin::collnet_descriptors(3, kUsualSockets) - first;
  add(findings, Level::kWarning, "door B",
      fmt::format(
          "a process may have {} open files: each communicator needs {} with 2 nodes and "
          "{} more with each further one, besides those of the program and of NCCL; more with "
          "more than 2 RINGPRESS_SOCKETS",
          all.open_files, first, further),
      fmt::format("raise the limit: ulimit -n {}", kUsualOpenFiles));
}

/// bbr paces by timers, at what it has measured: on links that are quicker than the processors that
/// feed them, at what these managed while they were busy.
void judge_pacing(const Surroundings& all, Findings* findings) {
  const Variable* const given = all.environment.find("RINGPRESS_TCP_CONGESTION");
  if (!all.congestion.starts_with("bbr") || (given != nullptr && !given->value.empty())) return;
  add(findings, Level::kOk, "settings",
      fmt::format("what is sent over TCP is paced by {}, the system's default, which is slow where "
                  "the network is quicker than the processors that feed it",
                  all.congestion),
      fmt::format("try RINGPRESS_TCP_CONGESTION, one of: {}", all.allowed_congestion));
}

void judge_host_memory(const Surroundings& all, Findings* findings) {
  const auto ours = std::find_if(all.nccl.begin(), all.nccl.end(),
                                 [](const NcclLibrary& nccl) { return nccl.is_ours; });
  if (ours != all.nccl.end()) {
    add(findings, Level::kOk, "door C", "libnccl.so.2 is " + ours->path);
  } else {
    add(findings, Level::kWarning, "door C",
        "libnccl.so.2 is not this library: programs on host memory do not find it by that name",
        all.host_folder.empty()
            ? "build or install it, and put the folder of its libnccl.so.2 first into "
              "LD_LIBRARY_PATH"
            : "put " + all.host_folder + " first into LD_LIBRARY_PATH, for programs without a GPU");
  }
}

void judge_settings(const Surroundings& all, Findings* findings) {
  const std::vector<Advice> advice = advise_on_settings(all.environment);
  for (const Advice& one : advice) {
    add(findings, one.fatal ? Level::kProblem : Level::kWarning, "settings", one.text, one.remedy);
  }
  if (advice.empty()) add(findings, Level::kOk, "settings", "every setting can be used");
}

/// A part of the judgement that needs codecs. They are those of libringpress.so, which may be
/// broken or another's: the other parts are judged all the same.
template <typename Part>
void judge_by_codecs(Part part, const Surroundings& all, Findings* findings) {
  try {
    part(all, findings);
  } catch (const std::runtime_error& error) {
    add(findings, Level::kProblem, "settings", error.what(), "build or install all of it again");
  }
}

}  // namespace

std::vector<Finding> judge(const Surroundings& surroundings) {
  Findings findings;
  judge_plugin(surroundings, &findings);
  judge_named_plugins(surroundings, &findings);
  judge_next_plugin(surroundings, &findings);
  judge_by_codecs(judge_programs, surroundings, &findings);
  judge_by_codecs(judge_nccl, surroundings, &findings);
  judge_by_codecs(judge_variables, surroundings, &findings);
  judge_open_files(surroundings, &findings);
  const Findings preloading = judge_preloading(surroundings);
  findings.insert(findings.end(), preloading.begin(), preloading.end());
  judge_host_memory(surroundings, &findings);
  judge_by_codecs(judge_settings, surroundings, &findings);
  judge_pacing(surroundings, &findings);
  return findings;
}

}  // namespace ringpress::nccl_plugin::command
