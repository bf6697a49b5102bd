// The page of --plot, which the command `ringpress report` draws.
#ifndef PERF_ALL_REDUCE_PAGE_H_
#define PERF_ALL_REDUCE_PAGE_H_

#include <string>

namespace ringpress::perf {

/// The command `ringpress` beside this program, or "ringpress", which is then looked for in PATH.
std::string report_command();

/// Writes the page `page_path` of the results that `json_path` has. Throws terminal::Error with
/// what went wrong.
void write_page(const std::string& json_path, const std::string& page_path);

/// A file that is removed with the object. Throws terminal::Error if there can be none.
class TemporaryFile {
 public:
  TemporaryFile();
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_PAGE_H_
