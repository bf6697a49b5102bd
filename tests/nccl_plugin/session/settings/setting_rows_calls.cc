// Settings that change what calls on host memory give, or how many bytes they send.
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "tests/nccl_plugin/session/settings/setting_rows.h"
#include "tests/support/setting_folder.h"
#include "tests/support/setting_job.h"
#include "tests/support/setting_observers.h"

namespace ringpress::testing {
namespace {

/// "0" for a call whose result is all zeros, "1" for another.
std::string zeros_of(const SettingReport& report) {
  std::string text;
  for (const std::vector<float>& result : report.results) {
    const bool is_zero =
        std::all_of(result.begin(), result.end(), [](float value) { return value == 0; });
    text += is_zero ? "0" : "1";
  }
  return text;
}

/// Ranks of two hosts in turn, whose values show in which order they are added up.
std::string observe_order(const Variable& tested) {
  SettingJob job = job_with("none");
  job.ranks = 4;
  job.environment.insert(job.environment.end(), {{"RINGPRESS_ALGO", "ring"}, tested});
  // Odd ranks' host comes second in a ring by hosts, so ranks 1 and 2 change places.
  job.host_of = [](int rank) { return rank % 2; };
  job.change_of_rank = [](int rank, std::span<float> values) {
    static constexpr std::array<float, 4> kValues = {1e8F, 3, 1, -1e8F};
    std::fill(values.begin(), values.end(), kValues[static_cast<std::size_t>(rank)]);
  };
  return seen_of_job(job, hash_of_results);
}

std::string observe_rules(const Variable& tested) {
  write_rules_of_codecs();
  return observe_job(job_with("none"), sent_bytes_of)(tested);
}

}  // namespace

std::vector<SettingRow> rows_of_calls() {
  SettingJob two_sizes = job_with("q4");
  two_sizes.counts = {1000, 20000};
  SettingJob two_tensors = job_with("q4", 8);
  two_tensors.counts = {20000, 24000};
  SettingJob four_ranks = job_with("q4");  // Of fewer, both algorithms add up in one order.
  four_ranks.ranks = 4;
  const SettingFolder& folder = SettingFolder::get();
  return {
      {"RINGPRESS", "on", "off", observe_job(job_with("q4"), sent_bytes_of)},
      {"RINGPRESS_CODEC", "q4", "q8", observe_job(job_with("q2"), sent_bytes_of)},
      {"RINGPRESS_MIN_BYTES", "2K", "8K", observe_job(two_sizes, sent_bytes_of)},
      {"RINGPRESS_GUARD", "1", "0", observe_job(job_with("q4", 20), sent_bytes_of)},
      {"RINGPRESS_EF", "auto", "scales", observe_job(job_with("q4", 12), hash_of_results)},
      {"RINGPRESS_WARMUP_STEPS", "1", "2", observe_job(job_with("q2", 3), sent_bytes_of)},
      {"RINGPRESS_WARMUP_CODECS", "none", "q8",
       observe_job(with_settings(job_with("q2", 3), {{"RINGPRESS_WARMUP_STEPS", "2"}}),
                   sent_bytes_of)},
      {"RINGPRESS_EF_MAX_BYTES", "0", "80000",
       observe_job(two_tensors,
                   [](const SettingReport& report) {
                     return std::to_string(report.statistics.residual_bytes);
                   })},
      {"RINGPRESS_SEED", "1", "2", observe_job(job_with("qsgd"), hash_of_results)},
      {"RINGPRESS_CHUNK_BYTES", "64K", "8K", observe_job(job_with("q4"), sent_bytes_of)},
      {"RINGPRESS_ALGO", "ring", "sra", observe_job(four_ranks, hash_of_results)},
      {"RINGPRESS_LAZY", "0", "2.5", observe_job(job_with("none", 20), zeros_of)},
      {"RINGPRESS_LAZY_CALLS", "3", "5",
       observe_job(with_settings(job_with("none", 20), {{"RINGPRESS_LAZY", "1000"}}), zeros_of)},
      {"RINGPRESS_TOPOLOGY", "hosts", "ranks", observe_order},
      {"RINGPRESS_RULES", folder.path("q2.csv"), folder.path("q8.csv"), observe_rules},
  };
}

}  // namespace ringpress::testing
