#include "nccl_plugin/command/run.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "nccl_plugin/command/doors.h"
#include "nccl_plugin/command/libraries.h"
#include "nccl_plugin/command/run_report.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/plugin/door_variables.h"

namespace ringpress::nccl_plugin::command {
namespace {

namespace fs = std::filesystem;
namespace plugin = nccl_plugin::plugin;

constexpr int kNoLibrary = 125;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;
constexpr const char* kLibrary = "libnccl-net-ringpress.so";
constexpr const char* kPreload = "LD_PRELOAD";
constexpr const char* kLibraryPath = "LD_LIBRARY_PATH";
constexpr const char* kAutomaticDoor = "auto";

bool holds_plugin(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kLibrary, error) && !fs::exists(folder / "libnccl.so.2", error);
}

/// A list that the dynamic linker reads, with `entry` in front of it.
std::string with_first(const char* list, const std::string& entry) {
  const std::string old = list == nullptr ? "" : list;
  if (old == entry || old.starts_with(entry + ":")) return old;
  return old.empty() ? entry : entry + ":" + old;
}

/// The search path with `folder` in front of it, once.
std::string with_folder(const char* path, const std::string& folder) {
  const std::string old = path == nullptr ? "" : path;
  if ((":" + old + ":").find(":" + folder + ":") != std::string::npos) return old;
  return old.empty() ? folder : folder + ":" + old;
}

void add_next_plugin_warning(const JobEnvironment& environment, const std::string& folder,
                             RunPlan* plan) {
  const Variable* const next = environment.find(kNextPlugin);
  if (next == nullptr || next->value.empty()) return;
  const Tables ours = look_at_plugin(folder + "/" + kLibrary).tables;
  if (auto advice = advise_on_next_plugin(look_at_plugin(next->value), ours)) {
    plan->warnings.push_back(std::move(*advice));
  }
}

/// NCCL goes on without a plugin that it cannot load, and says so in its log alone.
void add_library_warning(const std::string& folder, RunPlan* plan) {
  const PluginLibrary library = look_at_plugin(folder + "/" + kLibrary);
  if (library.can_be_loaded()) return;
  plan->warnings.push_back({true, "NCCL will run without this library: " + library.problem,
                            "install or build it again"});
}

void print_plan(const RunPlan& plan) {
  for (const auto& [name, value] : plan.sets) {
    fmt::print(stderr, "ringpress run: sets {}={}\n", name, value);
  }
  for (const std::string& own : plan.keeps) {
    fmt::print(stderr, "ringpress run: keeps {}\n", own);
  }
  for (const Advice& warning : plan.warnings) {
    fmt::print(stderr, "ringpress run: warning: {}; {}\n", warning.text, warning.remedy);
  }
}

int start(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  fmt::print(stderr, "ringpress run: {}: {}\n", command[0], std::strerror(error));
  return error == ENOENT ? kNotFound : kNotExecutable;
}

/// Why a door was taken, or none.
void print_reasons(const char* said, const std::vector<std::string>& reasons) {
  for (const std::string& reason : reasons) {
    fmt::print(stderr, "ringpress run: {}: {}\n", said, reason);
  }
}

/// Of what is to be started, with the libraries of the folder that the user names.
Surroundings look_around_for(const RunOptions& options, const DoorFiles& files) {
  const std::vector<std::string>& command = options.command;
  Surroundings all = look_around(command.empty() ? "" : find_program(command[0]).value_or(""));
  if (options.library_folder.empty() || files.preload.empty()) return all;
  const std::string folder = fs::path(files.preload).parent_path().string();
  all.preload = look_at_shim(files.preload);
  all.preload_as_nccl = look_at_shim(files.preload_as_nccl);
  all.engine = look_at_engine(folder);
  all.kernels = look_at_kernels(folder);
  return all;
}

/// As the doctor would see it in a job that goes through door B.
Surroundings with_plugin(Surroundings all, const DoorFiles& files) {
  if (files.plugin_folder.empty()) return all;
  for (const auto& [name, value] : plan_run(all.environment, files.plugin_folder).sets) {
    all.environment.add(name, {value, "environment"});
  }
  all.plugin = look_at_plugin(files.plugin_folder + "/" + kLibrary);
  return all;
}

/// Nothing: none works, which was said.
std::optional<Door> door_of(const RunOptions& options, const DoorFiles& files) {
  if (options.door != kAutomaticDoor) {
    const std::optional<Door> door = parse_door(options.door);
    if (!door) throw terminal::Error("--door " + options.door + ": there are A, B, C and auto");
    return door;
  }
  const DoorChoice choice = choose_door(with_plugin(look_around_for(options, files), files), files);
  if (choice.door) {
    print_reasons(fmt::format("takes door {}", door_name(*choice.door)).c_str(), choice.reasons);
  } else {
    print_reasons("no door works here", choice.reasons);
  }
  return choice.door;
}

int tell_missing(const RunOptions& options, Door door) {
  fmt::print(
      stderr, "ringpress run: no {} {}; --library FOLDER says where it is\n", needed_file(door),
      options.library_folder.empty() ? "beside this program" : "in " + options.library_folder);
  return kNoLibrary;
}

void check_encryption(const RunOptions& options, Door door) {
  if (!options.settings.is_encrypted || door != Door::kPreloaded) return;
  throw terminal::Error(
      "--encrypt: at door A it is NCCL that sends, and nothing is encrypted; take --door B or C");
}

RunPlan plan_plugin(const DoorFiles& files) {
  const auto environment = JobEnvironment::of_this_process();
  const std::string folder = fs::absolute(files.plugin_folder).lexically_normal().string();
  RunPlan plan = plan_run(environment, folder);
  if (!holds_plugin(folder)) {
    plan.warnings.push_back({false,
                             folder +
                                 " holds a libnccl.so.2 too: programs that load NCCL by that name "
                                 "get that one",
                             "give --library a folder without it"});
  }
  add_library_warning(folder, &plan);
  add_next_plugin_warning(environment, folder, &plan);
  return plan;
}

/// What the doctor finds of door A is what the person should know.
RunPlan plan_preload(const DoorFiles& files, const RunOptions& options) {
  const Surroundings all = look_around_for(options, files);
  RunPlan plan = plan_preloading(all.environment, library_to_preload(files, all.programs));
  for (const Finding& finding : judge_preloading(all)) {
    if (finding.level == Level::kOk) continue;
    plan.warnings.push_back({finding.level == Level::kProblem, finding.text, finding.remedy});
  }
  return plan;
}

RunPlan plan_of(Door door, const DoorFiles& files, const RunOptions& options) {
  RunPlan plan = door == Door::kPlugin ? plan_plugin(files)
                 : door == Door::kPreloaded
                     ? plan_preload(files, options)
                     : plan_on_host(JobEnvironment::of_this_process(), files.host_folder);
  if (options.settings.is_off) {  // Then that is what is wanted.
    std::erase_if(plan.warnings, [](const Advice& advice) {
      return !advice.fatal && advice.text.starts_with("RINGPRESS=off,");
    });
  }
  return plan;
}

}  // namespace

std::string plugin_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return "";
  const fs::path prefix = program.parent_path().parent_path();
  for (const char* place : {"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"}) {
    for (const fs::path& folder : {prefix / place / "ringpress", prefix / place}) {
      if (holds_plugin(folder)) return folder.string();
    }
  }
  return "";
}

RunPlan plan_run(const JobEnvironment& environment, const std::string& library_folder) {
  RunPlan plan;
  const auto set_default = [&](const char* name, const char* value) {
    if (const Variable* own = environment.find(name)) {
      plan.keeps.push_back(fmt::format("{}={} ({})", name, own->value, own->origin));
    } else {
      plan.sets.emplace_back(name, value);
    }
  };
  set_default("NCCL_NET_PLUGIN", plugin::kPluginName);
  for (const plugin::DoorVariable& variable : plugin::kDoorVariables) {
    set_default(variable.name, variable.value);
  }
  plan.sets.emplace_back(kLibraryPath,
                         with_folder(environment.value(kLibraryPath), library_folder));
  for (const plugin::Conflict& conflict : plugin::conflicts(environment.lookup())) {
    plan.warnings.push_back(
        {conflict.fatal, conflict.variable + ": " + conflict.loses, conflict.remedy});
  }
  for (Advice& advice : advise_on_settings(environment)) {
    plan.warnings.push_back(std::move(advice));
  }
  return plan;
}

RunPlan plan_preloading(const JobEnvironment& environment, const std::string& library) {
  RunPlan plan;
  const char* const own = environment.value(kPreload);
  const bool has_ours = own != nullptr && (std::strstr(own, "libringpress-preload.so") != nullptr ||
                                           std::strstr(own, "preload/libnccl.so.2") != nullptr);
  if (has_ours) {
    plan.keeps.push_back(fmt::format("{}={}", kPreload, own));
  } else {
    plan.sets.emplace_back(kPreload, with_first(own, library));
  }
  plan.warnings = advise_on_settings(environment, Door::kPreloaded);
  return plan;
}

RunPlan plan_on_host(const JobEnvironment& environment, const std::string& folder) {
  RunPlan plan;
  plan.sets.emplace_back(kLibraryPath, with_first(environment.value(kLibraryPath), folder));
  plan.warnings = advise_on_settings(environment, Door::kHost);
  return plan;
}

int run_command(const RunOptions& options) {
  const auto given = JobEnvironment::of_this_process();
  Variables own = variables_of_options(options.settings, given);
  for (const std::string& text : passed_over_by(options.settings, given)) {
    fmt::print(stderr, "ringpress run: {}\n", text);
  }
  for (const auto& [name, value] : own) setenv(name.c_str(), value.c_str(), 1);
  // The settings are looked at without these: the folder that they name is made later.
  if (!options.report_folder.empty()) {
    for (auto& variable : variables_of_report(options.report_folder, given)) {
      own.push_back(std::move(variable));
    }
  }
  const DoorFiles files = find_door_files(options.library_folder);
  const std::optional<Door> door = door_of(options, files);
  if (!door) return kNoLibrary;
  if (!has_files(files, *door)) return tell_missing(options, *door);
  check_encryption(options, *door);
  RunPlan plan = plan_of(*door, files, options);
  plan.sets.insert(plan.sets.begin(), own.begin(), own.end());
  print_plan(plan);
  if (options.dry_run) return EXIT_SUCCESS;
  for (const auto& [name, value] : plan.sets) setenv(name.c_str(), value.c_str(), 1);
  if (options.report_folder.empty()) return start(options.command);
  make_report_folder(options.report_folder);
  const ChildEnd end = run_in_child([&options] { return start(options.command); });
  tell_report(options.report_folder);
  return end_as(end);
}

}  // namespace ringpress::nccl_plugin::command
