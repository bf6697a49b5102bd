#include "perf/ringpress/libraries.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string_view>

#include "compress_kernels/cuda/module.h"
#include "perf/ringpress/child.h"

namespace ringpress::perf {
namespace {

namespace fs = std::filesystem;
using compress_kernels::cuda::kModule;
using compress_kernels::cuda::kModuleEntry;
using compress_kernels::cuda::kModuleLayout;
using compress_kernels::cuda::ModuleLayout;

constexpr std::string_view kShimMark = "ringpress shim 1";  // As in nccl_plugin/preload.
constexpr int kNewestVersion = 99;                          // Two digits at most are read.

/// The numbers that follow `symbol` and "_v" in a file.
std::vector<int> versions_in(std::string_view bytes, const std::string& symbol) {
  std::set<int> versions;
  const std::string wanted = symbol + "_v";
  for (std::size_t at = bytes.find(wanted); at != std::string_view::npos;
       at = bytes.find(wanted, at + 1)) {
    int version = 0;
    for (std::size_t digit = at + wanted.size();
         digit < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[digit])) != 0 &&
         version < kNewestVersion / 10 + 1;
         ++digit) {
      version = version * 10 + (bytes[digit] - '0');
    }
    if (version > 0) versions.insert(version);
  }
  return {versions.begin(), versions.end()};
}

/// A file's bytes in memory for as long as this lives.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat status = {};
    if (fstat(file, &status) == 0 && status.st_size > 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      memory_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    }
    close(file);
  }
  ~MappedFile() {
    if (memory_ != MAP_FAILED) munmap(memory_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const {
    return memory_ == MAP_FAILED ? std::string_view()
                                 : std::string_view(static_cast<const char*>(memory_), size_);
  }

 private:
  void* memory_ = MAP_FAILED;
  std::size_t size_ = 0;
};

std::string path_of(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map->l_name[0] == '\0') return "";
  std::error_code error;
  const fs::path path = fs::canonical(map->l_name, error);
  return error ? map->l_name : path.string();
}

/// In the child: "VERSION OURS PATH", or what went wrong after "-1 0 ".
std::string describe_nccl(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fmt::format("-1 0 {}", dlerror());
  int version = 0;
  using GetVersion = int (*)(int*);
  const auto get = reinterpret_cast<GetVersion>(dlsym(library, "ncclGetVersion"));
  if (get != nullptr && get(&version) != 0) version = 0;
  const bool ours = dlsym(library, "ringpressVersion") != nullptr;
  return fmt::format("{} {} {}", version, ours ? 1 : 0, path_of(library));
}

/// In the child: the path of the kernels, or what went wrong after a minus.
std::string describe_kernels(const std::string& folder) {
  const std::string beside = folder + "/" + kModule;
  void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string why = library == nullptr ? dlerror() : "";
  if (library == nullptr) library = dlopen(kModule, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const bool is_there = access(beside.c_str(), F_OK) == 0;
    return "-" + (is_there ? why : dlerror());
  }
  if (dlsym(library, kModuleEntry) == nullptr) {
    return fmt::format("-{} has no {}", path_of(library), kModuleEntry);
  }
  const auto layout = reinterpret_cast<ModuleLayout>(dlsym(library, kModuleLayout));
  if (layout == nullptr || layout() != compress_kernels::cuda::kLayout) {
    return fmt::format("-{}{}", path_of(library), compress_kernels::cuda::kOfAnotherBuild);
  }
  return path_of(library);
}

/// The name that the table of a network of any version begins with.
std::string network_name(void* library, int version) {
  const std::string symbol = fmt::format("{}_v{}", table_symbol(TableKind::kNet), version);
  const auto* const name = static_cast<const char* const*>(dlsym(library, symbol.c_str()));
  return name == nullptr || *name == nullptr ? "" : *name;
}

/// The folders that `python3` imports from.
std::vector<std::string> python_folders() {
  const std::string text = output_of({"python3", "-c", "import sys; print('\\n'.join(sys.path))"});
  std::vector<std::string> folders;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) folders.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
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
  NcclLibrary found;
  const std::string text = answer_of_child([&name] { return describe_nccl(name); });
  const std::size_t first = text.find(' ');
  if (first == std::string::npos || text.size() < first + 3) {
    found.problem = "the process that loaded it died";
    return found;
  }
  const std::string rest = text.substr(first + 3);
  found.version = std::atoi(text.c_str());
  if (found.version < 0) {
    found.version = 0;
    found.problem = rest;
    return found;
  }
  found.is_ours = text[first + 1] == '1';
  found.path = rest;
  const MappedFile file(found.path);
  found.is_shim = file.bytes().find(kShimMark) != std::string_view::npos;
  for (const TableKind kind : kTableKinds) {
    found.tables[kind] = versions_in(file.bytes(), table_symbol(kind));
  }
  return found;
}

std::vector<NcclLibrary> find_nccl_libraries() {
  std::vector<NcclLibrary> all;
  const auto add = [&all](const std::string& name) {
    NcclLibrary library = look_at_nccl(name);
    for (const NcclLibrary& known : all) {
      if (!library.path.empty() && known.path == library.path) return;
    }
    const bool absent = library.problem.find("No such file") != std::string::npos;
    if (!absent) all.push_back(std::move(library));
  };
  add("libnccl.so.2");
  for (const std::string& folder : python_folders()) {
    const std::string path = folder + "/nvidia/nccl/lib/libnccl.so.2";
    std::error_code error;
    if (fs::exists(path, error)) add(path);
  }
  return all;
}

PluginLibrary look_at_plugin(const std::string& plugin) {
  PluginLibrary found;
  void* library = nullptr;
  for (const std::string& name : {plugin, "libnccl-net-" + plugin + ".so"}) {
    found.found_as = name;
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    found.problem = dlerror();
    if (plugin.find('/') != std::string::npos) break;
  }
  if (library == nullptr) return found;
  found.problem.clear();
  found.path = path_of(library);
  for (const TableKind kind : kTableKinds) {
    for (int version = 1; version <= kNewestVersion; ++version) {
      const std::string symbol = fmt::format("{}_v{}", table_symbol(kind), version);
      if (dlsym(library, symbol.c_str()) != nullptr) found.tables[kind].push_back(version);
    }
  }
  const auto& networks = found.tables[TableKind::kNet];
  if (!networks.empty()) found.network = network_name(library, networks.back());
  return found;
}

KernelLibrary look_at_kernels(const std::string& folder) {
  KernelLibrary found;
  const std::string text = answer_of_child([&folder] { return describe_kernels(folder); });
  if (text.empty()) {
    found.problem = fmt::format("the process that loaded {} died", kModule);
  } else if (text[0] == '-') {
    found.problem = text.substr(1);
  } else {
    found.path = text;
  }
  return found;
}

std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace ringpress::perf
