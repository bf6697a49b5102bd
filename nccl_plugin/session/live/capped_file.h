// A file that is written to again and again, and kept to a size.
#ifndef NCCL_PLUGIN_SESSION_LIVE_CAPPED_FILE_H_
#define NCCL_PLUGIN_SESSION_LIVE_CAPPED_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ringpress::nccl_plugin {

/// One thread at a time. Several processes may append to one file.
class CappedFile {
 public:
  enum class Start {
    kAppend,  // To what is there.
    kAnew,    // With the first write of this object, what is there is dropped.
  };

  /// `name`: "RINGPRESS_LIVE=path", for warnings. A file that would get larger than `limit` is
  /// renamed to `path`.1 first; 0: none is. Each file begins with `head`.
  CappedFile(std::string name, std::string path, std::size_t limit, Start start, std::string head);

  /// Writes it as a whole, and opens the file for that: created with mode 0600, no symbolic link,
  /// and a pipe without a reader is an error, not a wait. A failure is one warning.
  void write(std::string_view text) noexcept;

 private:
  bool write_now(std::string_view text);
  bool append(int file, std::string_view text);
  int open_current(std::size_t more);
  bool rotate(int file, std::size_t more) const;
  bool is_current(int file) const;

  const std::string name_;
  const std::string path_;
  const std::size_t limit_;
  Start start_;
  const std::string head_;
  bool is_torn_ = false;  // What was written last was cut short.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LIVE_CAPPED_FILE_H_
