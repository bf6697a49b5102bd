// Settings that name files, and what is written to these.
#include <algorithm>
#include <csignal>
#include <cstdlib>
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

/// A job that writes lines while it runs, until there is an old file or it has made its calls.
std::string lines_of_job(const std::vector<Variable>& tested, const std::string& name) {
  for (const std::string& file : {name, name + ".1"}) SettingFolder::get().remove(file);
  SettingJob job = with_settings(job_with("q4", 200), tested);
  job.environment.emplace_back("RINGPRESS_LIVE", SettingFolder::get().path(name));
  const auto run = [&job](int) { return run_setting_job(job).failure; };
  EXPECT_EQ(run_peers(PeerKind::kProcesses, 1, run)[0].text, "");
  return SettingFolder::get().read(name);
}

std::string observe_number_of_lines(const Variable& tested) {
  const std::string lines = lines_of_job({tested}, "live");
  const auto number = std::count(lines.begin(), lines.end(), '\n');
  return number > job_with("q4").ranks ? "lines of intervals" : "last lines";
}

std::string observe_old_file(const Variable& tested) {
  lines_of_job({tested, {"RINGPRESS_LIVE_SECONDS", "0.001"}}, "capped");
  const bool is_there = fs::exists(SettingFolder::get().path("capped.1"));
  return is_there ? "there is an old file" : "there is none";
}

std::string observe_signal(const Variable& tested) {
  const SettingJob job = with_settings(job_with("q4"), {tested});
  const auto run = [&job](int) {
    if (const std::string failure = run_setting_job(job).failure; !failure.empty()) return failure;
    struct sigaction found {};
    sigaction(SIGUSR2, nullptr, &found);
    return std::string(found.sa_handler == SIG_DFL ? "not taken" : "taken");
  };
  return run_peers(PeerKind::kProcesses, 1, run)[0].text;
}

#ifdef NVTX_RECORDER
/// What a tool is told of a job's calls.
std::string observe_ranges(const Variable& tested) {
  SettingFolder::get().remove("ranges");
  const SettingJob job = with_settings(job_with("q4"), {tested});
  const auto run = [&job](int) {
    setenv("NVTX_INJECTION64_PATH", NVTX_RECORDER, 1);
    setenv("NVTX_RECORD", SettingFolder::get().path("ranges").c_str(), 1);
    return run_setting_job(job).failure;
  };
  EXPECT_EQ(run_peers(PeerKind::kProcesses, 1, run)[0].text, "");
  const bool has_ranges = SettingFolder::get().read("ranges").find(" push ") != std::string::npos;
  return has_ranges ? "there are ranges" : "there are none";
}
#endif

}  // namespace

std::vector<SettingRow> rows_of_files() {
  const std::string first = SettingFolder::get().path("files/first");
  const std::string second = SettingFolder::get().path("files/second");
  return {
      {"RINGPRESS_STATS", first, second, observe_files_of_codec},
      {"RINGPRESS_LIVE", first, second, observe_files_of_codec},
      {"RINGPRESS_TIMELINE", first, second, observe_files_of_codec},
      {"RINGPRESS_PROMETHEUS", first, second, observe_files_of_codec},
      {"RINGPRESS_LIVE_SECONDS", "0.001", "1000", observe_number_of_lines},
      {"RINGPRESS_LIVE_MAX_BYTES", "4K", "1G", observe_old_file},
      {"RINGPRESS_DUMP_SIGNAL", "0", "1", observe_signal},
#ifdef NVTX_RECORDER
      {"RINGPRESS_NVTX", "0", "1", observe_ranges},
#endif
      {"RINGPRESS_TRACE", first, second, observe_files_of_codec},
      {"RINGPRESS_CACHE", first, second, observe_files_of_automatic_mode},
      {"RINGPRESS_TUNING_LOG", first, second, observe_files_of_automatic_mode},
  };
}

}  // namespace ringpress::testing
