// What can be said of an NCCL library, and of this one, without a GPU: where it is, its version,
// which plugin tables it looks up or shows.
#ifndef NCCL_PLUGIN_COMMAND_LIBRARIES_H_
#define NCCL_PLUGIN_COMMAND_LIBRARIES_H_

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "nccl_plugin/command/child.h"

namespace ringpress::nccl_plugin::command {

/// The kinds of tables, in NCCL's names without the version: "ncclNetPlugin", ...
enum class TableKind { kNet, kCollNet, kTuner, kProfiler, kEnv };
constexpr TableKind kTableKinds[] = {TableKind::kNet, TableKind::kCollNet, TableKind::kTuner,
                                     TableKind::kProfiler, TableKind::kEnv};
const char* table_symbol(TableKind kind);
/// For a person: "net", "CollNet", ...
const char* table_name(TableKind kind);

/// Versions of each kind.
using Tables = std::map<TableKind, std::vector<int>>;

/// The newest version in both; 0 if there is none.
int newest_common(const Tables& ours, const Tables& theirs, TableKind kind);

/// An NCCL library, looked at in a child process: it is not this program's to load.
struct NcclLibrary {
  std::string path;      // Of the file, where that is known.
  int version = 0;       // As ncclGetVersion has it, e.g. 22809; 0: it has no such function.
  bool is_ours = false;  // libringpress.so under NCCL's name.
  bool is_shim = false;  // The library of door A, which passes calls on to NCCL's.
  Tables tables;         // That it looks up.
  std::string problem;   // A sentence: why it cannot be used; else empty.
  std::string found;     // For a person: "of PyTorch in /a", "found by the loader".
  // The program that is known loads this one: the verdict is of it alone.
  bool is_of_program = false;

  /// True if it is NVIDIA's, or another's, and can be loaded.
  bool is_real() const { return problem.empty() && !is_ours && !is_shim; }
};

/// `name`: a path, or what the loader finds under it. Not found: an empty path and the loader's
/// words.
NcclLibrary look_at_nccl(const std::string& name);

/// Names the plugin whose network this library's passes calls on to.
constexpr const char* kNextPlugin = "RINGPRESS_NEXT_NET_PLUGIN";

/// Names the NCCL behind door A.
constexpr const char* kRealNccl = "RINGPRESS_REAL_NCCL";

/// This library's plugin, or another one, looked at in a child process.
struct PluginLibrary {
  std::string path;      // Of the file; empty: there is none.
  std::string found_as;  // The name that NCCL would try.
  std::string network;   // The name of the network that it shows; empty: none.
  Tables tables;         // That it shows; empty: nobody could look.
  std::string problem;   // A sentence: why it cannot be used; else empty.

  bool can_be_loaded() const { return !path.empty() && problem.empty(); }
};

/// Under the names that NCCL tries for NCCL_NET_PLUGIN=`plugin`, or with another `kind` than "net"
/// for NCCL_TUNER_PLUGIN and the like.
PluginLibrary look_at_plugin(const std::string& plugin, const std::string& kind = "net",
                             std::chrono::milliseconds patience = kChildPatience);

/// A library of door A.
struct DoorLibrary {
  std::string path;     // Of the file; empty: there is none.
  std::string problem;  // A sentence: why it cannot be used; else empty.
};

/// What is preloaded, under one of its two names: `path`.
DoorLibrary look_at_shim(const std::string& path);

/// What does the work behind it, as a shim in `folder` would find it.
DoorLibrary look_at_engine(const std::string& folder);

/// The kernels, as the library of door A in `folder` would find them: beside it, else where the
/// loader looks.
DoorLibrary look_at_kernels(const std::string& folder);

/// Whether the loader finds a GPU driver.
bool has_gpu_driver();

/// "2.28.9".
std::string version_text(int code);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_LIBRARIES_H_
