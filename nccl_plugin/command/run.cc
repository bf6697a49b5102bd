#include "nccl_plugin/command/run.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "nccl_plugin/command/libraries.h"
#include "nccl_plugin/plugin/door_variables.h"

namespace ringpress::nccl_plugin::command {
namespace {

namespace fs = std::filesystem;
namespace plugin = nccl_plugin::plugin;

constexpr int kNoLibrary = 125;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;
constexpr const char* kLibrary = "libnccl-net-ringpress.so";

bool holds_plugin(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kLibrary, error) && !fs::exists(folder / "libnccl.so.2", error);
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
  plan.sets.emplace_back("LD_LIBRARY_PATH",
                         with_folder(environment.value("LD_LIBRARY_PATH"), library_folder));
  for (const plugin::Conflict& conflict : plugin::conflicts(environment.lookup())) {
    plan.warnings.push_back(
        {conflict.fatal, conflict.variable + ": " + conflict.loses, conflict.remedy});
  }
  for (Advice& advice : advise_on_settings(environment)) {
    plan.warnings.push_back(std::move(advice));
  }
  return plan;
}

int run_command(const RunOptions& options) {
  std::string folder = options.library_folder.empty() ? plugin_folder() : options.library_folder;
  std::error_code error;
  if (folder.empty() || !fs::exists(fs::path(folder) / kLibrary, error)) {
    fmt::print(stderr, "ringpress run: no {} {}; --library FOLDER says where it is\n", kLibrary,
               folder.empty() ? "beside this program" : "in " + folder);
    return kNoLibrary;
  }
  folder = fs::absolute(folder).lexically_normal().string();
  RunPlan plan = plan_run(JobEnvironment::of_this_process(), folder);
  if (!holds_plugin(folder)) {
    plan.warnings.push_back({false,
                             folder +
                                 " holds a libnccl.so.2 too: programs that load NCCL by that name "
                                 "get that one",
                             "give --library a folder without it"});
  }
  add_library_warning(folder, &plan);
  add_next_plugin_warning(JobEnvironment::of_this_process(), folder, &plan);
  print_plan(plan);
  if (options.dry_run) return EXIT_SUCCESS;
  for (const auto& [name, value] : plan.sets) setenv(name.c_str(), value.c_str(), 1);
  return start(options.command);
}

}  // namespace ringpress::nccl_plugin::command
