#include "perf/ringpress/doctor.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nccl_plugin/descriptors.h"
#include "nccl_plugin/plugin/door_variables.h"
#include "perf/ringpress/child.h"
#include "perf/ringpress/run.h"

namespace ringpress::perf {
namespace {

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

}  // namespace

Surroundings look_around() {
  Surroundings all;
  all.environment = JobEnvironment::of_this_process();
  all.nccl = find_nccl_libraries();
  all.has_gpu_driver = answer_of_child([]() -> std::string {
                         return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) ? "yes" : "no";
                       }) == "yes";
  all.plugin = look_at_plugin(plugin_name(all.environment));
  all.plugin_folder = plugin_folder();
  if (all.plugin.path.empty() && !all.plugin_folder.empty()) {  // What `ringpress run` would find.
    all.plugin.tables = look_at_plugin(all.plugin_folder + "/libnccl-net-ringpress.so").tables;
  }
  const std::filesystem::path libraries = std::filesystem::path(all.plugin_folder).parent_path();
  const std::filesystem::path preload = libraries / "libringpress-preload.so";
  std::error_code error;
  if (std::filesystem::exists(preload, error)) all.preload_library = preload.string();
  all.kernels = look_at_kernels(libraries.string());
  all.named_nccl = named_nccl(all.environment);
  const Variable* const next = all.environment.find(kNextPlugin);
  if (next != nullptr && !next->value.empty()) all.next_plugin = look_at_plugin(next->value);
  all.open_files = nccl_plugin::count_descriptors().limit;
  all.congestion = first_line("/proc/sys/net/ipv4/tcp_congestion_control");
  all.allowed_congestion = first_line("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  return all;
}

int run_doctor(bool json) {
  const Surroundings all = look_around();
  const std::vector<Finding> findings = judge(all);
  if (json) {
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

}  // namespace ringpress::perf
