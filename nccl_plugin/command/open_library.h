// Opens a library as NCCL or a program would, after a look at its file. For child processes: the
// library's own code runs, and may do as it likes.
#ifndef NCCL_PLUGIN_COMMAND_OPEN_LIBRARY_H_
#define NCCL_PLUGIN_COMMAND_OPEN_LIBRARY_H_

#include <string>
#include <string_view>
#include <vector>

namespace ringpress::nccl_plugin::command {

/// A file's bytes in memory for as long as this lives.
class MappedFile {
 public:
  /// Waits for nothing: what is no regular file is not opened.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const;
  /// Why there are no bytes, to follow the file's name; empty: there are, or the file is empty.
  const std::string& problem() const { return problem_; }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
  std::string problem_;
};

/// Where the dynamic linker looks first for a library of this name: the name itself if it has a
/// slash, else what there is of that name in the folders of LD_LIBRARY_PATH, in their order.
std::vector<std::string> files_of_library(const std::string& name);

struct OpenedLibrary {
  void* handle = nullptr;
  std::string path;     // Of the file, also where that is the reason why it was not opened.
  std::string problem;  // A sentence; empty: it is open.
};

/// All symbols are resolved at once, and none is shown to other libraries.
OpenedLibrary open_library(const std::string& name);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_OPEN_LIBRARY_H_
