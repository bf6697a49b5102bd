#include "nccl_plugin/command/libraries.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/open_library.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::command {
namespace {

using nlohmann::json;

constexpr std::string_view kShimMark = "ringpress shim 1";  // As in nccl_plugin/preload.
constexpr int kNewestVersion = 99;                          // Two digits at most are read.
constexpr const char* kEngineEntry = "ringpressOpenEngine";

/// The number that a text begins with, of so many digits as are read; 0: it begins with none.
int leading_number(std::string_view text) {
  int number = 0;
  for (const char letter : text) {
    if (std::isdigit(static_cast<unsigned char>(letter)) == 0 || number > kNewestVersion / 10)
      break;
    number = number * 10 + (letter - '0');
  }
  return number;
}

/// Where `wanted` comes next in `bytes`, whose end it is else. An NCCL has hundreds of megabytes.
std::string_view find_in(std::string_view bytes, std::string_view wanted) {
  const void* const place = memmem(bytes.data(), bytes.size(), wanted.data(), wanted.size());
  if (place == nullptr) return bytes.substr(bytes.size());
  return bytes.substr(static_cast<std::size_t>(static_cast<const char*>(place) - bytes.data()));
}

/// The names of tables in a file, "ncclNetPlugin_v11".
Tables tables_named_in(std::string_view bytes) {
  constexpr std::string_view kPrefix = "nccl";
  Tables tables;
  for (bytes = find_in(bytes, kPrefix); !bytes.empty();
       bytes = find_in(bytes.substr(kPrefix.size()), kPrefix)) {
    for (const TableKind kind : kTableKinds) {
      const std::string symbol = table_symbol(kind) + std::string("_v");
      if (!bytes.starts_with(symbol)) continue;
      const int version = leading_number(bytes.substr(symbol.size()));
      if (version > 0) tables[kind].push_back(version);
    }
  }
  for (auto& [kind, versions] : tables) {
    std::sort(versions.begin(), versions.end());
    versions.erase(std::unique(versions.begin(), versions.end()), versions.end());
  }
  return tables;
}

bool is_shim_file(std::string_view bytes) {
  return !find_in(bytes, kShimMark).empty();
}

/// What one looks for in a library that is open, in the child; an empty text: nothing is wrong.
using Describe = std::function<std::string(const OpenedLibrary& library, json* record)>;

json describe_in_child(const std::string& name, const Describe& describe) {
  json record = json::object();
  const OpenedLibrary library = open_library(name);
  record["path"] = library.path;
  record["problem"] = library.problem;
  if (library.problem.empty()) {
    const std::string problem = describe(library, &record);
    if (!problem.empty()) record["problem"] = library.path + problem;
  }
  return record;
}

/// Always has a path, which may be empty, and a problem, which is empty where all is well.
json look_at(const std::string& name, const Describe& describe,
             std::chrono::milliseconds patience = kChildPatience) {
  const ChildAnswer answer = answer_of_child(
      [&] {
        return describe_in_child(name, describe)
            .dump(-1, ' ', false, json::error_handler_t::replace);
      },
      patience);
  json record = json::parse(answer.text, nullptr, false);
  if (answer.problem.empty() && record.is_object()) return record;
  const std::vector<std::string> files = files_of_library(name);
  const std::string path = files.empty() ? name : files[0];
  return {{"path", path},
          {"problem", fmt::format("{} cannot be loaded: the process that tried {}", path,
                                  answer.problem.empty() ? "gave no answer" : answer.problem)}};
}

json to_json(const Tables& tables) {
  json record = json::object();
  for (const auto& [kind, versions] : tables) record[table_symbol(kind)] = versions;
  return record;
}

Tables tables_in(const json& record) {
  Tables tables;
  const json all = record.value("tables", json::object());
  for (const TableKind kind : kTableKinds) {
    const std::vector<int> versions = all.value(table_symbol(kind), std::vector<int>());
    if (!versions.empty()) tables[kind] = versions;
  }
  return tables;
}

std::string describe_nccl(const OpenedLibrary& library, json* record) {
  int version = 0;
  using GetVersion = int (*)(int*);
  const auto get = reinterpret_cast<GetVersion>(dlsym(library.handle, "ncclGetVersion"));
  if (get != nullptr && get(&version) != 0) version = 0;
  const MappedFile file(library.path);
  (*record)["version"] = version;
  (*record)["is_ours"] = dlsym(library.handle, "ringpressVersion") != nullptr;
  (*record)["is_shim"] = is_shim_file(file.bytes());
  (*record)["tables"] = to_json(tables_named_in(file.bytes()));
  return "";
}

/// The name that the table of a network of any version begins with.
std::string network_name(void* library, int version) {
  const std::string symbol = fmt::format("{}_v{}", table_symbol(TableKind::kNet), version);
  const auto* const name = static_cast<const char* const*>(dlsym(library, symbol.c_str()));
  return name == nullptr || *name == nullptr ? "" : *name;
}

std::string describe_plugin(const OpenedLibrary& library, json* record) {
  Tables tables;
  for (const TableKind kind : kTableKinds) {
    for (int version = 1; version <= kNewestVersion; ++version) {
      const std::string symbol = fmt::format("{}_v{}", table_symbol(kind), version);
      if (dlsym(library.handle, symbol.c_str()) != nullptr) tables[kind].push_back(version);
    }
  }
  const auto networks = tables.find(TableKind::kNet);
  if (networks != tables.end()) {
    (*record)["network"] = network_name(library.handle, networks->second.back());
  }
  (*record)["tables"] = to_json(tables);
  return "";
}

std::string describe_shim(const OpenedLibrary& library, json*) {
  const MappedFile file(library.path);
  const bool is_shim =
      dlsym(library.handle, "ncclGetVersion") != nullptr && is_shim_file(file.bytes());
  return is_shim ? "" : " is no library for preloading: it does not stand in for NCCL's functions";
}

std::string describe_engine(const OpenedLibrary& library, json*) {
  const bool is_engine = dlsym(library.handle, kEngineEntry) != nullptr;
  return is_engine ? "" : fmt::format(" has no {}: it is of another version", kEngineEntry);
}

std::string describe_kernels(const OpenedLibrary& library, json*) {
  return compress_kernels::kernel_library_problem(library.handle);
}

bool is_there(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

DoorLibrary door_library(const json& record) {
  return {record.value("path", ""), record.value("problem", "")};
}

}  // namespace

const char* table_symbol(TableKind kind) {
  switch (kind) {
    case TableKind::kNet:
      return "ncclNetPlugin";
    case TableKind::kCollNet:
      return "ncclCollNetPlugin";
    case TableKind::kTuner:
      return "ncclTunerPlugin";
    case TableKind::kProfiler:
      return "ncclProfiler";
    case TableKind::kEnv:
      return "ncclEnvPlugin";
  }
  return "";
}

const char* table_name(TableKind kind) {
  switch (kind) {
    case TableKind::kNet:
      return "net";
    case TableKind::kCollNet:
      return "CollNet";
    case TableKind::kTuner:
      return "tuner";
    case TableKind::kProfiler:
      return "profiler";
    case TableKind::kEnv:
      return "env";
  }
  return "";
}

int newest_common(const Tables& ours, const Tables& theirs, TableKind kind) {
  const auto mine = ours.find(kind), other = theirs.find(kind);
  if (mine == ours.end() || other == theirs.end()) return 0;
  int newest = 0;
  for (const int version : mine->second) {
    const auto& accepted = other->second;
    if (std::find(accepted.begin(), accepted.end(), version) != accepted.end()) {
      newest = std::max(newest, version);
    }
  }
  return newest;
}

NcclLibrary look_at_nccl(const std::string& name) {
  const json record = look_at(name, describe_nccl);
  NcclLibrary found;
  found.path = record.value("path", "");
  found.problem = record.value("problem", "");
  found.version = record.value("version", 0);
  found.is_ours = record.value("is_ours", false);
  found.is_shim = record.value("is_shim", false);
  found.tables = tables_in(record);
  return found;
}

PluginLibrary look_at_plugin(const std::string& plugin, const std::string& kind,
                             std::chrono::milliseconds patience) {
  PluginLibrary found;
  for (const std::string& name : {plugin, "libnccl-" + kind + "-" + plugin + ".so"}) {
    const json record = look_at(name, describe_plugin, patience);
    const std::string path = record.value("path", "");
    const std::string problem = record.value("problem", "");
    // (Where this library is installed in /usr, its private folder has the plugin's name.)
    if (problem.find(std::strerror(EISDIR)) != std::string::npos) continue;
    const bool is_worth_more = found.path.empty() || (!path.empty() && problem.empty());
    if (is_worth_more) {
      found = {path, name, record.value("network", ""), tables_in(record), problem};
    }
    if (found.can_be_loaded() || plugin.find('/') != std::string::npos) break;
  }
  return found;
}

DoorLibrary look_at_shim(const std::string& path) {
  if (!is_there(path)) return {};
  return door_library(look_at(path, describe_shim));
}

DoorLibrary look_at_engine(const std::string& folder) {
  const std::string name = fmt::format("libringpress.so.{}", RINGPRESS_VERSION_MAJOR);
  const std::string beside = folder + "/" + name, above = folder + "/../" + name;
  const std::string& path = !is_there(beside) && is_there(above) ? above : beside;
  if (!is_there(path)) return {"", fmt::format("there is no {} in {}", name, folder)};
  return door_library(look_at(path, describe_engine));
}

bool has_gpu_driver() {
  return answer_of_child([]() -> std::string {
           return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) ? "yes" : "no";
         }).text == "yes";
}

DoorLibrary look_at_kernels(const std::string& folder) {
  const std::string path = folder + "/" + compress_kernels::kKernelLibrary;
  const DoorLibrary beside =
      is_there(path) ? door_library(look_at(path, describe_kernels)) : DoorLibrary();
  if (!beside.path.empty() && beside.problem.empty()) return beside;
  const DoorLibrary elsewhere =
      door_library(look_at(compress_kernels::kKernelLibrary, describe_kernels));
  return beside.path.empty() || elsewhere.problem.empty() ? elsewhere : beside;
}

std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace ringpress::nccl_plugin::command
