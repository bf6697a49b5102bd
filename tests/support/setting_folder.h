// A folder for what tests of settings write and read.
#ifndef TESTS_SUPPORT_SETTING_FOLDER_H_
#define TESTS_SUPPORT_SETTING_FOLDER_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

namespace ringpress::testing {

/// Of this process, and gone when it ends.
class SettingFolder {
 public:
  static const SettingFolder& get() {
    static const SettingFolder folder;
    return folder;
  }
  /// Where that process made it, and only there.
  ~SettingFolder() {
    if (getpid() == maker_) std::filesystem::remove_all(path_);
  }
  SettingFolder(const SettingFolder&) = delete;
  SettingFolder& operator=(const SettingFolder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path_ / name).rdbuf();
    return text.str();
  }
  void remove(const std::string& name) const { std::filesystem::remove_all(path_ / name); }

 private:
  SettingFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "ringpress-settings-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder " + name);
    path_ = name;
  }

  const pid_t maker_ = getpid();
  std::filesystem::path path_;
};

/// q2.csv and q8.csv: rules that give all all-reduces that codec.
inline void write_rules_of_codecs() {
  const std::string start = "allreduce,0,-1,-1,-1,-1,-1,-1,-1,-1,";
  for (const char* const codec : {"q2", "q8"}) {
    SettingFolder::get().write(std::string(codec) + ".csv", start + codec + "\n");
  }
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_SETTING_FOLDER_H_
