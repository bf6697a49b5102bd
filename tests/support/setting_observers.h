// What of a job is seen, as text.
#ifndef TESTS_SUPPORT_SETTING_OBSERVERS_H_
#define TESTS_SUPPORT_SETTING_OBSERVERS_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/setting_job.h"

namespace ringpress::testing {

using SeenOfJob = std::function<std::string(const SettingReport&)>;

/// Of a job that goes well.
inline std::string seen_of_job(const SettingJob& job, const SeenOfJob& seen) {
  const SettingReport report = run_setting_job(job);
  EXPECT_EQ(report.failure, "");
  return seen(report);
}

/// Of such a job, in which a variable is set beside those of `job`.
inline std::function<std::string(const SettingEnvironment::value_type&)> observe_job(
    SettingJob job, SeenOfJob seen) {
  return
      [job = std::move(job), seen = std::move(seen)](const SettingEnvironment::value_type& tested) {
        SettingJob with = job;
        with.environment.push_back(tested);
        return seen_of_job(with, seen);
      };
}

inline std::string hash_of_results(const SettingReport& report) {
  std::size_t hash = 0;
  for (const std::vector<float>& result : report.results) {
    const std::string_view bytes(reinterpret_cast<const char*>(result.data()),
                                 result.size() * sizeof(float));
    hash = hash * 31 + std::hash<std::string_view>()(bytes);
  }
  return std::to_string(hash);
}

inline std::string sent_bytes_of(const SettingReport& report) {
  return std::to_string(report.statistics.wire_bytes);
}

/// Calls of one tensor with a codec.
inline SettingJob job_with(const std::string& codec, std::size_t steps = 1) {
  SettingJob job;
  job.environment = {{"RINGPRESS_CODEC", codec}};
  job.steps = steps;
  return job;
}

inline SettingJob with_settings(SettingJob job, const SettingEnvironment& more) {
  job.environment.insert(job.environment.end(), more.begin(), more.end());
  return job;
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_SETTING_OBSERVERS_H_
