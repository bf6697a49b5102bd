#include "nccl_plugin/command/open_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "nccl_plugin/command/elf_file.h"

namespace ringpress::nccl_plugin::command {
namespace {

/// What is wrong with a file, and whether the linker would look for another one of its name then.
struct FileFault {
  std::string text;
  bool is_passed_over = false;
};

FileFault find_fault(const std::string& path) {
  const MappedFile file(path);
  if (!file.problem().empty()) return {file.problem(), access(path.c_str(), R_OK) != 0};
  const ElfVerdict verdict = check_elf(file.bytes());
  const bool is_of_another_machine =
      verdict.fault == ElfFault::kOtherClass || verdict.fault == ElfFault::kOtherMachine;
  return {fault_text(verdict), is_of_another_machine};
}

std::string path_of(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map->l_name[0] == '\0') return "";
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(map->l_name, error);
  return error ? map->l_name : path.string();
}

OpenedLibrary refuse(const std::string& path, const std::string& fault) {
  return {nullptr, path, path + " " + fault};
}

/// The linker's words name what is missing, which may be another library than this one.
OpenedLibrary fail_to_open(const std::string& path, const std::string& name) {
  const std::string why = dlerror();
  const bool is_absent = why.starts_with(name + ": cannot open shared object file: No such file");
  if (path.empty() && is_absent) return {nullptr, "", why};
  std::string text = why;
  for (const std::string& named : {name + ": ", path + ": "}) {
    if (text.starts_with(named)) text = text.substr(named.size());
  }
  return refuse(path.empty() ? name : path, "cannot be loaded: " + text);
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    problem_ = fmt::format("cannot be read: {}", std::strerror(errno));
  } else if (S_ISDIR(status.st_mode)) {
    problem_ = "is a folder";
  } else if (!S_ISREG(status.st_mode)) {
    problem_ = "is no regular file";
  }
  if (!problem_.empty()) return;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &status) != 0) {
    problem_ = fmt::format("cannot be read: {}", std::strerror(errno));
  } else if (status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    memory_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory_ == MAP_FAILED) {
      memory_ = nullptr;
      problem_ = fmt::format("cannot be read: {}", std::strerror(errno));
    }
  }
  if (file >= 0) close(file);
}

MappedFile::~MappedFile() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

std::string_view MappedFile::bytes() const {
  return memory_ == nullptr ? std::string_view()
                            : std::string_view(static_cast<const char*>(memory_), size_);
}

std::vector<std::string> files_of_library(const std::string& name) {
  if (name.empty()) return {};
  if (name.find('/') != std::string::npos) return {name};
  const char* const variable = std::getenv("LD_LIBRARY_PATH");
  if (variable == nullptr || *variable == '\0') return {};
  std::vector<std::string> files;
  const std::string folders = variable;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find_first_of(":;", begin), folders.size());
    const std::string folder = folders.substr(begin, end - begin);
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (access(path.c_str(), F_OK) == 0) files.push_back(path);
    begin = end + 1;
  }
  return files;
}

OpenedLibrary open_library(const std::string& name) {
  OpenedLibrary passed_over;
  std::string usable;
  for (const std::string& path : files_of_library(name)) {
    if (access(path.c_str(), F_OK) != 0) continue;
    const FileFault fault = find_fault(path);
    if (fault.text.empty()) usable = path;
    if (fault.text.empty()) break;
    if (!fault.is_passed_over || path == name) return refuse(path, fault.text);
    if (passed_over.path.empty()) passed_over = refuse(path, fault.text);
  }
  OpenedLibrary opened;
  opened.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened.handle == nullptr) {
    const bool is_only_passed_over = usable.empty() && !passed_over.path.empty();
    return is_only_passed_over ? passed_over : fail_to_open(usable, name);
  }
  opened.path = path_of(opened.handle);
  const FileFault fault = find_fault(opened.path);  // Where the linker alone knew the file.
  return fault.text.empty() ? opened : refuse(opened.path, fault.text);
}

}  // namespace ringpress::nccl_plugin::command
