#include "nccl_plugin/command/doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nccl_plugin/command/run.h"
#include "nccl_plugin/errors/descriptors.h"
#include "nccl_plugin/plugin/door_variables.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr int kNoProgram = 2;

const char* level_name(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kWarning:
      return "warning";
    case Level::kProblem:
      return "problem";
  }
  return "";
}

/// What NCCL_NET_PLUGIN calls this library, where it does.
std::string plugin_name(const JobEnvironment& environment) {
  const char* const given = environment.value("NCCL_NET_PLUGIN");
  if (given == nullptr || !nccl_plugin::plugin::names_this_library(given, "")) {
    return nccl_plugin::plugin::kPluginName;
  }
  return std::string(nccl_plugin::plugin::first_net_plugin(given));
}

/// What RINGPRESS_REAL_NCCL names, where that is set.
std::optional<NcclLibrary> named_nccl(const JobEnvironment& environment) {
  const Variable* const given = environment.find(kRealNccl);
  if (given == nullptr || given->value.empty()) return std::nullopt;
  NcclLibrary named;
  if (given->value[0] == '/') {
    named = look_at_nccl(given->value);
  } else {
    named.problem = "it must be an absolute path";
  }
  if (named.problem.empty() && (named.version == 0 || named.is_shim)) {
    named.problem = "it is not an NCCL library";
  }
  return named;
}

nlohmann::json to_json(const NcclLibrary& nccl, const PluginLibrary& plugin) {
  nlohmann::json record = {{"path", nccl.path},
                           {"version", version_text(nccl.version)},
                           {"found", nccl.found},
                           {"of_program", nccl.is_of_program},
                           {"ringpress", nccl.is_ours || nccl.is_shim}};
  if (!nccl.problem.empty()) record["problem"] = nccl.problem;
  for (const TableKind kind : kTableKinds) {
    record["takes"][table_symbol(kind)] = newest_common(plugin.tables, nccl.tables, kind);
  }
  return record;
}

/// Empty: there is no such file.
std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void print_json(const Surroundings& all, const std::vector<Finding>& findings) {
  nlohmann::json record = {{"plugin", all.plugin.path},
                           {"nccl", nlohmann::json::array()},
                           {"findings", nlohmann::json::array()}};
  for (const NcclLibrary& nccl : all.nccl) record["nccl"].push_back(to_json(nccl, all.plugin));
  for (const Finding& finding : findings) {
    record["findings"].push_back({{"level", level_name(finding.level)},
                                  {"about", finding.about},
                                  {"text", finding.text},
                                  {"remedy", finding.remedy}});
  }
  fmt::print("{}\n", record.dump(2));
}

/// Every libnccl.so.2 that a program started from here may load.
std::vector<NcclLibrary> find_nccl_libraries(const ProgramSearch& search) {
  std::vector<NcclLibrary> all;
  const auto add = [&all](const std::string& name, const std::string& found) -> NcclLibrary* {
    const auto has_path = [](const std::string& path) {
      return [&path](const NcclLibrary& known) { return !path.empty() && known.path == path; };
    };
    auto known = std::find_if(all.begin(), all.end(), has_path(name));
    if (known != all.end()) return &*known;  // Loading it takes a while.
    NcclLibrary library = look_at_nccl(name);
    if (library.path.empty()) return nullptr;  // The loader knows none.
    known = std::find_if(all.begin(), all.end(), has_path(library.path));
    if (known != all.end()) return &*known;
    library.found = found;
    all.push_back(std::move(library));
    return &all.back();
  };
  add("libnccl.so.2", "found by the loader");
  for (const std::string& path : search.packages) add(path, "in Python's packages");
  bool is_first = true;
  for (const ProgramNccl& program : search.programs) {
    NcclLibrary* const library =
        program.library.empty() ? nullptr : add(program.library, "of " + program.program);
    if (library != nullptr && is_first) {
      library->is_of_program = true;
      library->found = "of " + program.program;
    }
    is_first = is_first && library == nullptr && !program.cannot_start;
  }
  return all;
}

/// NCCL opens these files by themselves, which need not be links to that of the network.
std::vector<NamedPlugin> look_at_named_plugins(const JobEnvironment& environment) {
  std::vector<NamedPlugin> found;
  for (const auto& [variable, kind] : {std::pair("NCCL_TUNER_PLUGIN", TableKind::kTuner),
                                       {"NCCL_PROFILER_PLUGIN", TableKind::kProfiler},
                                       {"NCCL_ENV_PLUGIN", TableKind::kEnv}}) {
    const char* const given = environment.value(variable);
    if (given == nullptr || !nccl_plugin::plugin::is_this_library(given)) continue;
    found.push_back({variable, kind, look_at_plugin(given, table_name(kind))});
  }
  return found;
}

/// What is called libnccl.so.2 in a folder of its own: beside the libraries where they were built,
/// and below ringpress/ where they are installed.
std::filesystem::path private_library(const std::filesystem::path& libraries, const char* folder) {
  std::error_code error;
  for (const std::filesystem::path& place : {libraries / "ringpress", libraries}) {
    std::filesystem::path path = place / folder / "libnccl.so.2";
    if (std::filesystem::exists(path, error)) return path;
  }
  return {};
}

void look_at_own_libraries(Surroundings* all) {
  const std::filesystem::path folder = std::filesystem::path(all->plugin_folder).parent_path();
  all->preload = look_at_shim(folder / "libringpress-preload.so");
  all->preload_as_nccl = look_at_shim(private_library(folder, "preload"));
  all->host_folder = private_library(folder, "host").parent_path();
  all->engine = look_at_engine(folder);
  all->kernels = look_at_kernels(folder);
}

}  // namespace

Surroundings look_around(const std::string& program) {
  Surroundings all;
  all.environment = JobEnvironment::of_this_process();
  ProgramSearch search = search_programs(all.environment, program);
  all.nccl = find_nccl_libraries(search);
  all.programs = std::move(search.programs);
  all.has_gpu_driver = has_gpu_driver();
  all.plugin = look_at_plugin(plugin_name(all.environment));
  all.plugin_folder = plugin_folder();
  if (all.plugin.path.empty() && !all.plugin_folder.empty()) {
    all.run_plugin = look_at_plugin(all.plugin_folder + "/libnccl-net-ringpress.so");
    all.plugin.tables = all.run_plugin.tables;
  }
  all.named_plugins = look_at_named_plugins(all.environment);
  look_at_own_libraries(&all);
  all.named_nccl = named_nccl(all.environment);
  const Variable* const next = all.environment.find(kNextPlugin);
  if (next != nullptr && !next->value.empty()) all.next_plugin = look_at_plugin(next->value);
  all.open_files = nccl_plugin::count_descriptors().limit;
  all.congestion = first_line("/proc/sys/net/ipv4/tcp_congestion_control");
  all.allowed_congestion = first_line("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  return all;
}

int run_doctor(const DoctorOptions& options) {
  const std::string& name = options.program;
  const std::optional<std::string> program = name.empty() ? name : find_program(name);
  if (!program) {
    fmt::print(stderr, "ringpress: doctor: there is no program {} that can be started\n", name);
    return kNoProgram;
  }
  const Surroundings all = look_around(*program);
  const std::vector<Finding> findings = judge(all);
  if (options.json) {
    print_json(all, findings);
  } else {
    for (const Finding& finding : findings) {
      fmt::print("{:<8} {}: {}\n", level_name(finding.level), finding.about, finding.text);
      if (!finding.remedy.empty()) fmt::print("{:<8} -> {}\n", "", finding.remedy);
    }
  }
  const bool problem = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.level == Level::kProblem;
  });
  return problem ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace ringpress::nccl_plugin::command
