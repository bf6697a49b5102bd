// A file of RINGPRESS_RULES or another setting that is gone at the end. Its name is new each time:
// a process reads a file once.
#ifndef TESTS_SUPPORT_RULES_FILE_H_
#define TESTS_SUPPORT_RULES_FILE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

namespace ringpress::test {

class RulesFile {
 public:
  explicit RulesFile(const std::string& text)
      : path_(::testing::TempDir() + "rules_" + std::to_string(getpid()) + "_" +
              std::to_string(++made_) + ".csv") {
    std::ofstream(path_) << text;
  }
  ~RulesFile() { unlink(path_.c_str()); }
  RulesFile(const RulesFile&) = delete;
  RulesFile& operator=(const RulesFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  static inline std::atomic<int> made_{0};
  const std::string path_;
};

}  // namespace ringpress::test

#endif  // TESTS_SUPPORT_RULES_FILE_H_
