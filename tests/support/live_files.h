// What RINGPRESS_LIVE and the like write, for tests that read it.
#ifndef TESTS_SUPPORT_LIVE_FILES_H_
#define TESTS_SUPPORT_LIVE_FILES_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace ringpress::testing {

/// A folder that is removed with all that is in it.
class LiveFolder {
 public:
  LiveFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "live-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~LiveFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  LiveFolder(const LiveFolder&) = delete;
  LiveFolder& operator=(const LiveFolder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::size_t size(const std::string& name) const { return read(name).size(); }
  bool has(const std::string& name) const { return std::filesystem::exists(path(name)); }
  std::size_t file_count() const {
    const std::filesystem::directory_iterator files(path_);
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }

 private:
  std::filesystem::path path_;
};

/// Each line, which is JSON. One that is none fails the test.
inline std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
    EXPECT_FALSE(value.is_discarded()) << line;
    lines.push_back(std::move(value));
  }
  return lines;
}

/// The events of a timeline, whose end may be missing.
inline nlohmann::json trace_events(const std::string& text) {
  nlohmann::json events = nlohmann::json::parse(text + "\n]", nullptr, false);
  EXPECT_FALSE(events.is_discarded()) << text.substr(0, 2000);
  return events;
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_LIVE_FILES_H_
