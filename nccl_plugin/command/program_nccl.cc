#include "nccl_plugin/command/program_nccl.h"

#include <fmt/core.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "nccl_plugin/command/child.h"

namespace ringpress::nccl_plugin::command {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNccl = "libnccl.so.2";

// Nothing is imported. A folder in the way that is called torch is no PyTorch: it has no origin.
// What else is printed at the start of a Python bears no mark.
constexpr const char* kAskPython = R"(
import importlib.util, sys
sys.path = [folder for folder in sys.path if folder]
def say(kind, text): print("ringpress", kind, text)
say("python", sys.executable)
for folder in sys.path: say("folder", folder)
try: spec = importlib.util.find_spec("torch")
except Exception: spec = None
if spec and spec.origin and spec.submodule_search_locations:
    say("torch", spec.submodule_search_locations[0])
)";

struct Python {
  std::string program;
  std::string torch;                 // PyTorch's folder; empty: it has none.
  std::vector<std::string> folders;  // That it imports from.
};

Python ask_python(const std::string& command) {
  Python python;
  std::istringstream lines(output_of({command, "-c", kAskPython}));
  for (std::string line; std::getline(lines, line);) {
    const auto follows = [&](std::string_view mark) { return line.starts_with(mark); };
    constexpr std::string_view kProgram = "ringpress python ", kFolder = "ringpress folder ",
                               kTorch = "ringpress torch ";
    if (follows(kProgram)) python.program = line.substr(kProgram.size());
    if (follows(kFolder)) python.folders.push_back(line.substr(kFolder.size()));
    if (follows(kTorch)) python.torch = line.substr(kTorch.size());
  }
  return python;
}

bool has_file(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? path : real;
}

/// That of this program, which loads what it is asked to and does not start it.
std::string dynamic_linker() {
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info* program, std::size_t, void* found) {
        for (int i = 0; i < program->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = program->dlpi_phdr[i];
          if (segment.p_type != PT_INTERP) continue;
          const auto* const text =
              reinterpret_cast<const char*>(program->dlpi_addr + segment.p_vaddr);
          *static_cast<std::string*>(found) = text;
        }
        return 1;  // The program itself comes first.
      },
      &path);
  return path;
}

/// The linker's own answer, with its search paths in their order, for `program` and what it opens
/// in the course of time. Preloaded libraries of this environment are left out: door A's would
/// hide NCCL.
LinkedNccl ask_linker(const std::string& program, const std::vector<std::string>& opened) {
  std::string preloaded;
  for (const std::string& library : opened) preloaded += (preloaded.empty() ? "" : ":") + library;
  const std::string linker = dynamic_linker();
  if (linker.empty()) return {};
  return read_linked_nccl(output_of({linker, real_path(program)},
                                    {{"LD_TRACE_LOADED_OBJECTS", "1"}, {"LD_PRELOAD", preloaded}}));
}

std::vector<std::string> packaged_nccls(const std::vector<std::string>& folders) {
  std::vector<std::string> found;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (const auto& package : fs::directory_iterator(fs::path(folder) / "nvidia", error)) {
      const fs::path library = package.path() / "lib" / kNccl;
      if (has_file(library)) found.push_back(real_path(library));
    }
  }
  return found;
}

/// As `import torch` would.
ProgramNccl nccl_of_torch(const Python& python) {
  ProgramNccl found;
  found.program = "PyTorch in " + python.torch;
  const fs::path libraries = fs::path(python.torch) / "lib";
  const fs::path cuda = libraries / "libtorch_cuda.so";
  if (!has_file(cuda)) {
    found.without = "is built without CUDA and uses no NCCL";
    return found;
  }
  std::vector<std::string> opened;
  const fs::path first = libraries / "libtorch_global_deps.so";  // It opens that before all others.
  if (has_file(first)) opened.push_back(first);
  opened.push_back(cuda);
  const bool can_be_preloaded = python.torch.find_first_of(" :") == std::string::npos;
  const LinkedNccl linked =
      can_be_preloaded ? ask_linker(python.program, opened) : ask_linker(cuda, {});
  const std::vector<std::string> packages = packaged_nccls(python.folders);
  found.library = linked.path;
  if (linked.state == Linked::kMissing && !packages.empty()) {
    found.library = packages[0];  // It looks there by itself.
  } else if (linked.state == Linked::kMissing) {
    found.without = fmt::format("does not find its {}", kNccl);
    found.cannot_start = true;
  } else if (linked.state == Linked::kNo) {
    found.without = fmt::format("loads no {}: its NCCL, if it has one, is linked into it", kNccl);
  }
  return found;
}

ProgramNccl nccl_of_program(const std::string& path) {
  const LinkedNccl linked = ask_linker(path, {});
  ProgramNccl found{path, linked.path, "", linked.state == Linked::kMissing};
  if (linked.state == Linked::kMissing) found.without = fmt::format("does not find its {}", kNccl);
  if (linked.state == Linked::kNo) {
    found.without = fmt::format("is not linked with {}: it may open one later, or hold one", kNccl);
  }
  return found;
}

/// "python3", "python3.11", ...
bool is_python(const std::string& path) {
  const std::string name = fs::path(path).filename();
  constexpr std::string_view kPython = "python";
  return name.starts_with(kPython) &&
         std::all_of(name.begin() + kPython.size(), name.end(),
                     [](unsigned char letter) { return std::isdigit(letter) || letter == '.'; });
}

/// What the first line of a script names, "/a/python3" or "/usr/bin/env python3"; empty: it is
/// none.
std::string interpreter_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char begin[256] = {};
  file.read(begin, sizeof begin - 1);
  std::istringstream line(std::string(begin).substr(0, std::string(begin).find('\n')));
  std::string word;
  if (!(line >> word) || !word.starts_with("#!")) return "";
  if (word == "#!") line >> word;
  const std::string interpreter = word.starts_with("#!") ? word.substr(2) : word;
  if (fs::path(interpreter).filename() != "env") return interpreter;
  while (line >> word) {
    if (word[0] != '-' && word.find('=') == std::string::npos) return word;
  }
  return interpreter;
}

void add_python(const Python& python, ProgramSearch* search) {
  for (std::string& path : packaged_nccls(python.folders)) {
    search->packages.push_back(std::move(path));
  }
  if (!python.torch.empty()) search->programs.push_back(nccl_of_torch(python));
}

void add_pythons_of(const JobEnvironment& environment, ProgramSearch* search) {
  std::vector<std::string> commands = {"python3"};
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* const folder = environment.value(variable);
    if (folder != nullptr && *folder != '\0')
      commands.push_back(folder + std::string("/bin/python3"));
  }
  std::vector<std::string> known;
  for (const std::string& command : commands) {
    if (std::find(known.begin(), known.end(), command) != known.end()) continue;
    const Python python = ask_python(command);
    if (std::find(known.begin(), known.end(), python.program) != known.end()) continue;
    known.push_back(command);
    known.push_back(python.program);
    add_python(python, search);
  }
}

}  // namespace

LinkedNccl read_linked_nccl(const std::string& list) {
  constexpr std::string_view kArrow = " => ";
  std::istringstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(" \t");
    const std::size_t arrow = line.find(kArrow);
    if (begin == std::string::npos || arrow == std::string::npos) continue;
    if (std::string_view(line).substr(begin, arrow - begin) != kNccl) continue;
    const std::string path = line.substr(arrow + kArrow.size());
    if (path.empty() || path[0] != '/') return {Linked::kMissing, ""};
    return {Linked::kFound, real_path(path.substr(0, path.rfind(" (")))};
  }
  return {};
}

std::optional<std::string> find_program(const std::string& name) {
  const auto can_be_started = [](const std::string& path) {
    std::error_code error;
    return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    return can_be_started(name) ? std::optional(name) : std::nullopt;
  }
  const char* const variable = std::getenv("PATH");
  std::istringstream folders(variable == nullptr ? "" : variable);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (can_be_started(path)) return path;
  }
  return std::nullopt;
}

ProgramSearch search_programs(const JobEnvironment& environment, const std::string& path) {
  ProgramSearch search;
  if (path.empty()) {
    add_pythons_of(environment, &search);
    return search;
  }
  const std::string interpreter = is_python(path) ? path : interpreter_of(path);
  if (interpreter.empty()) {
    search.programs.push_back(nccl_of_program(path));
  } else if (is_python(interpreter)) {
    const Python python = ask_python(interpreter);
    add_python(python, &search);
    if (python.torch.empty()) search.programs.push_back({path, "", "has no PyTorch", false});
  } else {
    search.programs.push_back(
        {path, "", fmt::format("is a script for {}: what it starts is not seen", interpreter),
         false});
    add_pythons_of(environment, &search);
  }
  return search;
}

}  // namespace ringpress::nccl_plugin::command
