// Settings that name files, and what is written to these.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/nccl_plugin/session/settings/setting_rows.h"
#include "tests/support/peer_group.h"
#include "tests/support/setting_folder.h"
#include "tests/support/setting_job.h"
#include "tests/support/setting_observers.h"

namespace ringpress::testing {
namespace {

namespace fs = std::filesystem;

/// What a job leaves in a folder: names, and how each file begins. In a process of its own, which
/// writes one trace.
std::string observe_files(const Variable& tested, const std::string& codec) {
  const fs::path folder = SettingFolder::get().path("files");
  fs::remove_all(folder);
  fs::create_directory(folder);
  SettingJob job = with_settings(job_with(codec, 40), {tested});
  job.counts = {20000, 30000, 17000};
  job.environment.emplace_back("RINGPRESS_GRADIENTS", "all");
  const auto run = [&job](int) { return run_setting_job(job).failure; };
  EXPECT_EQ(run_peers(PeerKind::kProcesses, 1, run)[0].text, "");
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = fs::relative(entry.path(), folder).string();
    found.insert(name + ": " + SettingFolder::get().read("files/" + name).substr(0, 6));
  }
  std::string text;
  for (const std::string& one : found) text += one + "\n";
  return text;
}

std::string observe_files_of_codec(const Variable& tested) {
  return observe_files(tested, "q4");
}
std::string observe_files_of_automatic_mode(const Variable& tested) {
  return observe_files(tested, "auto");
}

}  // namespace

std::vector<SettingRow> rows_of_files() {
  const std::string first = SettingFolder::get().path("files/first");
  const std::string second = SettingFolder::get().path("files/second");
  return {
      {"RINGPRESS_STATS", first, second, observe_files_of_codec},
      {"RINGPRESS_TRACE", first, second, observe_files_of_codec},
      {"RINGPRESS_CACHE", first, second, observe_files_of_automatic_mode},
      {"RINGPRESS_TUNING_LOG", first, second, observe_files_of_automatic_mode},
  };
}

}  // namespace ringpress::testing
