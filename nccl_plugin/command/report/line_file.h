// A text file, line by line.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_LINE_FILE_H_
#define NCCL_PLUGIN_COMMAND_REPORT_LINE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

namespace ringpress::nccl_plugin::command::report {

class LineFile {
 public:
  /// Longer lines are cut there.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  /// Throws nothing: is_open() says whether it can be read, and errno why not.
  explicit LineFile(const std::string& path) : file_(path, std::ios::binary) {}

  bool is_open() const { return file_.is_open(); }

  /// Without its end of line. False: there is none left.
  bool next(std::string* line) {
    line->clear();
    has_end_ = false;
    is_cut_ = false;
    for (int c = file_.rdbuf()->sbumpc(); c != EOF; c = file_.rdbuf()->sbumpc()) {
      if (c == '\n') {
        has_end_ = true;
        break;
      }
      if (line->size() < kMostBytes) {
        line->push_back(static_cast<char>(c));
      } else {
        is_cut_ = true;
      }
    }
    if (!has_end_ && line->empty()) return false;
    if (!line->empty() && line->back() == '\r') line->pop_back();
    ++number_;
    return true;
  }

  /// Of the last line: the first is 1.
  std::uint64_t number() const { return number_; }
  /// The last line ends with the file, without a newline.
  bool ends_file() const { return !has_end_; }
  bool is_cut() const { return is_cut_; }

 private:
  std::ifstream file_;
  std::uint64_t number_ = 0;
  bool has_end_ = false;
  bool is_cut_ = false;
};

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_LINE_FILE_H_
