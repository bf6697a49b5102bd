// Settings of RINGPRESS_CODEC=auto and of RINGPRESS_ADJUST_STEPS.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "tests/nccl_plugin/session/settings/setting_rows.h"
#include "tests/support/setting_folder.h"
#include "tests/support/setting_job.h"
#include "tests/support/setting_observers.h"

namespace ringpress::testing {
namespace {

/// Steps of calls that differ in size and in how large their values are.
SettingJob leveled_job(const SettingEnvironment& more) {
  SettingJob job = job_with("q4", 16);
  job.counts = {6000, 10000, 3000, 5000};
  job.change = [](std::size_t call, std::size_t, std::span<float> values) {
    for (float& value : values) value *= std::pow(3.0F, -static_cast<float>(call));
  };
  job.environment.insert(job.environment.end(),
                         {{"RINGPRESS_MIN_BYTES", "0"}, {"RINGPRESS_ADJUST_STEPS", "4"}});
  return with_settings(job, more);
}

/// The first call's gradient grows between one choice of levels and the next.
SettingJob growing_job() {
  SettingJob job = leveled_job({});
  const auto scale = job.change;
  job.change = [scale](std::size_t call, std::size_t step, std::span<float> values) {
    scale(call, step, values);
    if (call != 0 || step < 10) return;
    for (float& value : values) value *= 4;
  };
  return job;
}

constexpr const char* kTuningLog = "tuning.csv";

/// Lines of the log of what automatic mode tries, a cell of each, in order.
std::vector<std::string> cells_of_tuning_log(std::size_t column) {
  std::istringstream lines(SettingFolder::get().read(kTuningLog));
  std::vector<std::string> cells;
  std::string line;
  std::getline(lines, line);  // The names of the columns.
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string cell;
    for (std::size_t i = 0; i <= column; ++i) std::getline(words, cell, ',');
    cells.push_back(cell);
  }
  return cells;
}
constexpr std::size_t kEventColumn = 4;

/// Automatic mode that writes down what it tries. A class of calls: it tries one thing at a time.
SettingJob tuned_job(const SettingEnvironment& more) {
  SettingFolder::get().remove(kTuningLog);
  SettingJob job = job_with("auto", 60);
  job.environment.emplace_back("RINGPRESS_TUNING_LOG", SettingFolder::get().path(kTuningLog));
  job.environment.emplace_back("RINGPRESS_GRADIENTS", "all");
  return with_settings(job, more);
}

std::string observe_whether_it_tries(const Variable& tested) {
  run_setting_job(tuned_job({tested}));
  const std::vector<std::string> events = cells_of_tuning_log(kEventColumn);
  return "something is tried: " +
         std::to_string(std::count(events.begin(), events.end(), "tried") > 0);
}

/// How many calls it takes until the first trial has been judged.
std::string observe_calls_of_a_trial(const Variable& tested) {
  SettingJob job = tuned_job({{"RINGPRESS_TUNING_WARM_UP", "1"},
                              {"RINGPRESS_TUNING_CALLS", "3"},
                              {"RINGPRESS_TUNING_TRIALS", "1"},
                              tested});
  std::size_t calls = 0;
  job.after_call = [&calls] {
    if (cells_of_tuning_log(kEventColumn).empty()) ++calls;
  };
  run_setting_job(job);
  return std::to_string(calls);
}

/// How many trials there are before something is settled.
std::string observe_trials(const Variable& tested) {
  SettingJob job =
      tuned_job({{"RINGPRESS_TUNING_WARM_UP", "1"}, {"RINGPRESS_TUNING_CALLS", "1"}, tested});
  run_setting_job(job);
  const std::vector<std::string> events = cells_of_tuning_log(kEventColumn);
  const auto settled = std::find(events.begin(), events.end(), "settled");
  return std::to_string(std::count(events.begin(), settled, "tried"));
}

}  // namespace

std::vector<SettingRow> rows_of_choices() {
  const SettingJob of_class =
      with_settings(job_with("auto", 6), {{"RINGPRESS_DETERMINISTIC", "1"}});
  const SettingJob of_budget = with_settings(of_class, {{"RINGPRESS_GRADIENTS", "all"}});
  return {
      {"RINGPRESS_GRADIENTS", "known", "all", observe_job(of_class, sent_bytes_of)},
      {"RINGPRESS_BUDGET", "q4", "q2", observe_job(of_budget, sent_bytes_of)},
      {"RINGPRESS_DETERMINISTIC", "1", "0", observe_whether_it_tries},
      {"RINGPRESS_TUNING_WARM_UP", "1", "4", observe_calls_of_a_trial},
      {"RINGPRESS_TUNING_CALLS", "3", "6", observe_calls_of_a_trial},
      {"RINGPRESS_TUNING_TRIALS", "0", "3", observe_trials},
      {"RINGPRESS_ADJUST_STEPS", "0", "4", observe_job(leveled_job({}), sent_bytes_of)},
      {"RINGPRESS_ADJUST_ALPHA", "1", "4", observe_job(leveled_job({}), sent_bytes_of)},
      {"RINGPRESS_ADJUST_METRIC", "l2sq", "l2", observe_job(leveled_job({}), sent_bytes_of)},
      {"RINGPRESS_ADJUST_GRIDS", "uniform", "both", observe_job(leveled_job({}), sent_bytes_of)},
      {"RINGPRESS_ACCORDION", "0", "1", observe_job(growing_job(), sent_bytes_of)},
  };
}

}  // namespace ringpress::testing
