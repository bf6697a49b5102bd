// Variables that the library on host memory reads, as programs load it: each rank is a process.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ringpress/nccl.h"
#include "tests/nccl_plugin/session/settings/setting_rows.h"
#include "tests/support/peer_group.h"
#include "tests/support/setting_folder.h"
#include "tests/support/unused_port.h"

namespace ringpress::testing {
namespace {

/// Of the library that this process loads, as it then is.
struct LibraryFunctions {
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRank) init_rank;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclGetLastError) last_error;

  LibraryFunctions() {
    void* const library = dlopen(RINGPRESS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    find(library, "ncclGetUniqueId", &get_unique_id);
    find(library, "ncclCommInitRank", &init_rank);
    find(library, "ncclAllReduce", &all_reduce);
    find(library, "ncclCommDestroy", &destroy);
    find(library, "ncclGetLastError", &last_error);
  }

 private:
  template <typename Function>
  static void find(void* library, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
    if (*function == nullptr) throw std::runtime_error(name);
  }
};

struct LibraryJob {
  /// Of a rank, beside the variable that is tested.
  std::function<std::vector<Variable>(int rank)> environment;
  bool has_own_ids = false;  // Ranks do not tell each other.
};

std::string reduce_by_library(const LibraryFunctions& nccl, const ncclUniqueId& id, int rank) {
  ncclComm_t comm = nullptr;
  const ncclResult_t made = nccl.init_rank(&comm, 2, id, rank);
  if (made != ncclSuccess) return "not made: " + std::to_string(made);
  std::vector<float> values(40000, static_cast<float>(rank));
  for (int i = 0; i < 4; ++i) {
    const ncclResult_t result = nccl.all_reduce(values.data(), values.data(), values.size(),
                                                ncclFloat, ncclSum, comm, nullptr);
    if (result != ncclSuccess) return "not reduced: " + std::to_string(result);
  }
  return "destroyed: " + std::to_string(nccl.destroy(comm));
}

/// By rank, what became of two processes.
std::vector<PeerReport> run_library_job(const LibraryJob& job) {
  IdExchange exchange(2);
  return run_peers(PeerKind::kProcesses, 2, [&](int rank) {
    for (const char* const level : {"RINGPRESS_DEBUG", "NCCL_DEBUG"}) unsetenv(level);
    setenv("RINGPRESS_TIMEOUT_MS", "60000", 1);
    setenv("RINGPRESS_SOCKET_IFNAME", "lo", 1);
    for (const auto& [name, value] : job.environment(rank)) setenv(name.c_str(), value.c_str(), 1);
    const LibraryFunctions nccl;
    ncclResult_t result = ncclSuccess;
    const auto make = [&] {
      UniqueIdBytes bytes{};
      ncclUniqueId id{};
      result = nccl.get_unique_id(&id);
      std::memcpy(bytes.data(), &id, sizeof id);
      return bytes;
    };
    const UniqueIdBytes bytes = job.has_own_ids ? make() : exchange.share(rank, make);
    if (result != ncclSuccess) return std::string("no id: ") + nccl.last_error(nullptr);
    ncclUniqueId id{};
    std::memcpy(&id, bytes.data(), sizeof id);
    return reduce_by_library(nccl, id, rank);
  });
}

std::string expect_destroyed(const LibraryJob& job) {
  for (const PeerReport& report : run_library_job(job)) EXPECT_EQ(report.text, "destroyed: 0");
  return "";
}

constexpr const char* kLibraryLog = "library.log";

/// What rank 0 logs, or how much: the words for levels in it.
std::string observe_log(const std::vector<Variable>& variables) {
  SettingFolder::get().remove(kLibraryLog);
  expect_destroyed({[&](int rank) { return rank == 0 ? variables : std::vector<Variable>(); }});
  const std::string text = SettingFolder::get().read(kLibraryLog);
  std::string levels = "logged:";
  for (const char* const level : {" VERSION ", " WARN ", " INFO ", " TRACE "}) {
    if (text.find(level) != std::string::npos) levels += level;
  }
  return levels;
}

std::string observe_level(const Variable& tested) {
  return observe_log({{"NCCL_DEBUG_FILE", SettingFolder::get().path(kLibraryLog)},
                      {"NCCL_DEBUG", "VERSION"},
                      tested});
}

std::string observe_debug_file(const Variable& tested) {
  return observe_log({{"NCCL_DEBUG", "INFO"}, tested});
}

/// A job's last codec, by the statistics of rank 0.
std::string codec_in_statistics(const LibraryJob& job) {
  constexpr const char* kStatistics = "library.json";
  SettingFolder::get().remove(kStatistics);
  LibraryJob with_statistics = job;
  with_statistics.environment = [&](int rank) {
    std::vector<Variable> all = job.environment(rank);
    if (rank == 0) all.emplace_back("RINGPRESS_STATS", SettingFolder::get().path(kStatistics));
    return all;
  };
  expect_destroyed(with_statistics);
  const std::string text = SettingFolder::get().read(kStatistics);
  const std::size_t at = text.find("\"last_codec\"");
  return at == std::string::npos ? text : text.substr(at);
}

std::string observe_configuration(const Variable& tested) {
  SettingFolder::get().write("q4.conf", "RINGPRESS_CODEC=q4\n");
  SettingFolder::get().write("q8.conf", "RINGPRESS_CODEC=q8\n");
  return codec_in_statistics({[&](int) { return std::vector<Variable>{tested}; }});
}

/// Of ranks of one host automatic mode compresses nothing.
std::string observe_host_id(const Variable& tested) {
  return codec_in_statistics({[&](int rank) {
    return std::vector<Variable>{{"NCCL_HOSTID", "first"},
                                 {"RINGPRESS_DETERMINISTIC", "1"},
                                 {"NCCL_HOSTID", rank == 0 ? "first" : tested.second}};
  }});
}

std::string unused_place() {
  return "127.0.0.1:" + std::to_string(unused_port());
}

/// Rank 0 waits at the one place; rank 1 comes to that which is tested. To another one nobody
/// comes.
std::string observe_place(const Variable& tested, const std::string& place) {
  const std::string patience = tested.second == place ? "60000" : "700";
  const auto reports = run_library_job({[&](int rank) {
                                          return std::vector<Variable>{
                                              {"RINGPRESS_TIMEOUT_MS", patience},
                                              {"NCCL_COMM_ID", rank == 0 ? place : tested.second}};
                                        },
                                        true});
  return reports[0].text + ", " + reports[1].text;
}

}  // namespace

std::vector<SettingRow> rows_of_library() {
  const SettingFolder& folder = SettingFolder::get();
  const std::string place = unused_place();
  return {
      {"RINGPRESS_DEBUG", "error", "info", observe_level},
      {"NCCL_DEBUG", "VERSION", "INFO", observe_level},
      {"NCCL_DEBUG_FILE", folder.path(kLibraryLog), folder.path("other.log"), observe_debug_file},
      {"NCCL_CONF_FILE", folder.path("q4.conf"), folder.path("q8.conf"), observe_configuration},
      {"NCCL_HOSTID", "first", "second", observe_host_id},
      {"NCCL_COMM_ID", place, unused_place(),
       [place](const Variable& tested) { return observe_place(tested, place); }},
  };
}

}  // namespace ringpress::testing
