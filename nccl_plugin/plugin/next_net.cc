#include "nccl_plugin/plugin/next_net.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string>
#include <type_traits>

#include "nccl_plugin/plugin/net_tables.h"
#include "nccl_plugin/plugin/next_net_devices.h"
#include "nccl_plugin/plugin/next_net_steps.h"
#include "nccl_plugin/plugin/report.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

struct State {
  std::mutex mutex;
  bool in_use = false;
  Status status;
  std::string name;
};

State& state() {
  static State* const kept = new State;
  return *kept;
}

std::atomic<bool> in_use{false};

// --- init: the next plugin's, and NCCL's log for us ---

/// `table`: which of next_tables.
template <auto table, int version, typename... Arguments>
ncclResult_t forward_init(abi::Logger logger, Arguments... arguments) {
  set_logger(logger);
  const auto& next = next_tables.*table;
  const ncclResult_t result = next.init(arguments...);
  if (result == ncclSuccess && next_version.exchange(version) == 0) {
    log(abi::LogLevel::kInfo, abi::kLogInit | abi::kLogNet,
        "the network is that of %s (%s), its version %d; ringpress adds CollNet", next.name,
        state().name.c_str(), version);
  }
  return result;
}

template <auto table, int version>
ncclResult_t init_next_v7(abi::Logger logger) {
  return forward_init<table, version>(logger, logger);
}

ncclResult_t init_next_v10(abi::Logger logger, abi::ProfilerCallback profiler) {
  return forward_init<&NextTables::v10, 10>(logger, logger, profiler);
}

template <auto table, int version, typename Config>
ncclResult_t init_next_v11(void** ctx, std::uint64_t comm_id, Config* config, abi::Logger logger,
                           abi::ProfilerCallback profiler) {
  return forward_init<table, version>(logger, ctx, comm_id, config, logger, profiler);
}

ncclResult_t refuse() {
  return report(
      "ncclNet init",
      Status(Code::kUnsupported, state().name + " has only newer tables than this NCCL knows; NCCL "
                                                "takes its own networks, as without ringpress"));
}

ncclResult_t refuse_init_v7(abi::Logger logger) {
  set_logger(logger);
  return refuse();
}

ncclResult_t refuse_init_v10(abi::Logger logger, abi::ProfilerCallback) {
  return refuse_init_v7(logger);
}

template <typename Config>
ncclResult_t refuse_init_v11(void** ctx, std::uint64_t, Config*, abi::Logger logger,
                             abi::ProfilerCallback) {
  if (ctx != nullptr) *ctx = nullptr;
  return refuse_init_v7(logger);
}

// --- taking the tables over ---

void* open_library(const std::string& name, std::string* why) {
  const bool is_path = name.find('/') != std::string::npos;
  const bool is_file = name.starts_with("lib") && name.ends_with(".so");
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* error = dlerror();
  *why = error != nullptr ? error : "unknown error";
  if (is_path || is_file) return nullptr;
  library = dlopen(("libnccl-net-" + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  error = dlerror();
  *why += std::string("; ") + (error != nullptr ? error : "unknown error");
  return nullptr;
}

/// Finds a table of the next plugin. kInvalidArgument if it is ours: the plugin is this library.
template <typename Table>
Status find(void* library, const char* symbol, const Table& ours, Table* found) {
  const auto* const table = static_cast<const Table*>(dlsym(library, symbol));
  if (table == nullptr) return Status::ok();
  if (table == &ours) return Status(Code::kInvalidArgument, "it is ringpress itself");
  if (table->name == nullptr || table->init == nullptr) {
    return Status(Code::kInvalidArgument, std::string(symbol) + " has no name or no init");
  }
  *found = *table;
  return Status::ok();
}

Status find_tables(void* library, NextTables* found) {
  RINGPRESS_RETURN_IF_ERROR(find(library, "ncclNetPlugin_v7", ncclNetPlugin_v7, &found->v7));
  RINGPRESS_RETURN_IF_ERROR(find(library, "ncclNetPlugin_v8", ncclNetPlugin_v8, &found->v8));
  RINGPRESS_RETURN_IF_ERROR(find(library, "ncclNetPlugin_v9", ncclNetPlugin_v9, &found->v9));
  RINGPRESS_RETURN_IF_ERROR(find(library, "ncclNetPlugin_v10", ncclNetPlugin_v10, &found->v10));
  RINGPRESS_RETURN_IF_ERROR(find(library, "ncclNetPlugin_v11", ncclNetPlugin_v11, &found->v11));
  RINGPRESS_RETURN_IF_ERROR(find(library, "ncclNetPlugin_v12", ncclNetPlugin_v12, &found->v12));
  const bool any = found->v7.name != nullptr || found->v8.name != nullptr ||
                   found->v9.name != nullptr || found->v10.name != nullptr ||
                   found->v11.name != nullptr || found->v12.name != nullptr;
  if (any) return Status::ok();
  return Status(Code::kUnsupported, "it has no network table of version 7 to 12");
}

/// Puts one version in place of ours. `init` is the one that goes through us.
template <typename Older, typename Newer, typename Init>
void take_over(const Newer& table, Init init, Init refusal, Older& older, Newer& ours,
               bool* has_older) {
  if (table.name != nullptr) {
    ours = table;
    ours.init = init;
    *has_older = true;
  } else if (*has_older) {
    if constexpr (!std::is_same_v<Older, Newer>) dress(older, ours);
  } else {
    ours.init = refusal;
  }
}

void take_tables_over() {
  bool has = false;
  take_over(next_tables.v7, init_next_v7<&NextTables::v7, 7>, refuse_init_v7, ncclNetPlugin_v7,
            ncclNetPlugin_v7, &has);
  take_over(next_tables.v8, init_next_v7<&NextTables::v8, 8>, refuse_init_v7, ncclNetPlugin_v7,
            ncclNetPlugin_v8, &has);
  take_over(next_tables.v9, init_next_v7<&NextTables::v9, 9>, refuse_init_v7, ncclNetPlugin_v8,
            ncclNetPlugin_v9, &has);
  take_over(next_tables.v10, init_next_v10, refuse_init_v10, ncclNetPlugin_v9, ncclNetPlugin_v10,
            &has);
  take_over(next_tables.v11, init_next_v11<&NextTables::v11, 11, abi::NetCommConfigV11>,
            refuse_init_v11<abi::NetCommConfigV11>, ncclNetPlugin_v10, ncclNetPlugin_v11, &has);
  take_over(next_tables.v12, init_next_v11<&NextTables::v12, 12, abi::NetCommConfigV12>,
            refuse_init_v11<abi::NetCommConfigV12>, ncclNetPlugin_v11, ncclNetPlugin_v12, &has);
}

Status load(const std::string& name) {
  std::string why;
  void* const library = open_library(name, &why);
  NextTables found;
  const Status status =
      library == nullptr ? Status(Code::kSystem, why) : find_tables(library, &found);
  if (!status.is_ok()) {
    if (library != nullptr) dlclose(library);
    return Status(status.code(),
                  "RINGPRESS_NEXT_NET_PLUGIN=" + name + " is not in use: " + status.message());
  }
  next_tables = found;
  take_tables_over();
  return Status::ok();
}

__attribute__((constructor)) void when_loaded() {
  adopt_next_net();
}

}  // namespace

void adopt_next_net() noexcept {
  try {
    const std::lock_guard<std::mutex> lock(state().mutex);
    if (state().in_use) return;
    state().name = settings_from_environment().next_net_plugin;
    state().status = state().name.empty() ? Status::ok() : load(state().name);
    state().in_use = !state().name.empty() && state().status.is_ok();
    if (state().in_use) take_part_in_merging();
    in_use = state().in_use;
  } catch (...) {
    // Out of memory while the library is loaded: our own network serves, as if nothing was asked.
  }
}

bool has_next_net() {
  return in_use;
}

Status next_net_status() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().status;
}

}  // namespace ringpress::nccl_plugin::plugin
