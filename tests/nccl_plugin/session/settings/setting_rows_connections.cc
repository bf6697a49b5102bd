// Settings of connections, threads and shared memory, as the process itself can see them.
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/nccl_plugin/session/settings/setting_rows.h"
#include "tests/support/own_process.h"
#include "tests/support/setting_job.h"
#include "tests/support/setting_observers.h"

namespace ringpress::testing {
namespace {

/// Two ranks, of which a call has come to its end.
std::function<std::string(const Variable&)> observe_process(std::string (*look)(),
                                                            const SettingEnvironment& more = {
                                                                {"RINGPRESS_SHM", "0"}}) {
  return [=](const Variable& tested) {
    std::string seen;
    SettingJob job = with_settings(with_settings(job_with("none"), more), {tested});
    job.counts = {300000};
    job.at_end = [&] {
      wait_for_the_rendezvous();
      seen = look();
    };
    const SettingReport report = run_setting_job(job);
    return report.failure + seen;
  };
}

/// Ranks of one host, which may share memory.
std::string observe_shared_memory(const Variable& tested) {
  std::string seen;
  SettingJob job = with_settings(job_with("none"), {tested});
  job.host_of = [](int) { return 0; };
  job.at_end = [&seen] { seen = count_of_shared_memories(); };
  EXPECT_EQ(run_setting_job(job).failure, "");
  return seen;
}

/// A rank comes to its call when another one has given it up, or late.
std::string observe_patience(const Variable& tested) {
  SettingJob job = with_settings(job_with("none"), {tested});
  job.join_timeout = std::chrono::seconds(100);
  std::atomic<bool> has_begun{false}, has_failed{false};
  job.before_calls = [&has_begun] { has_begun = true; };
  job.at_failure = [&has_failed] { has_failed = true; };
  job.before_others_call = [&] {
    constexpr std::chrono::milliseconds kTurn(2);
    while (!has_begun) std::this_thread::sleep_for(kTurn);
    for (int i = 0; i < 1000 && !has_failed; ++i) std::this_thread::sleep_for(kTurn);
  };
  const std::string failure = run_setting_job(job).failure;
  return failure.find("no progress") != std::string::npos ? "given up" : "reduced " + failure;
}

/// A rank with another secret is a stranger. It is not waited for long.
std::string observe_secret(const Variable& tested) {
  const std::string own = "swordfish";
  const std::string patience = tested.second == own ? "60000" : "700";
  SettingJob job = with_settings(job_with("none"),
                                 {{"RINGPRESS_SECRET", own}, {"RINGPRESS_TIMEOUT_MS", patience}});
  job.of_rank_1 = {tested};
  return run_setting_job(job).failure.empty() ? "they meet" : "they do not meet";
}

/// Records have heads and tags.
std::string observe_encryption(const Variable& tested) {
  const SettingJob job = job_with("none");
  const SettingReport plain = run_setting_job(with_settings(job, {{"RINGPRESS_ENCRYPT", "off"}}));
  const SettingReport report = run_setting_job(with_settings(job, {tested}));
  EXPECT_EQ(report.failure, "");
  EXPECT_EQ(report.results, plain.results);
  return report.statistics.wire_bytes > plain.statistics.wire_bytes ? "encrypted" : "as it is";
}

}  // namespace

std::vector<SettingRow> rows_of_connections() {
  return {
      {"RINGPRESS_SOCKETS", "2", "3", observe_process(count_of_sockets)},
      {"RINGPRESS_TCP_CONGESTION", "reno", other_congestion(),
       observe_process(congestion_of_sockets)},
      {"RINGPRESS_SOCKET_IFNAME", "lo", other_interface(), observe_process(addresses_of_sockets)},
      {"NCCL_SOCKET_IFNAME", "lo", other_interface(),
       observe_process(addresses_of_sockets,
                       {{"RINGPRESS_SHM", "0"}, {"RINGPRESS_SOCKET_IFNAME", ""}})},
      {"NCCL_SOCKET_FAMILY", "AF_INET", "AF_INET6", observe_process(addresses_of_sockets)},
      {"RINGPRESS_PROGRESS_THREAD", "on", "off", observe_process(count_of_threads)},
      {"RINGPRESS_SHM", "1", "0", observe_shared_memory},
      {"RINGPRESS_TIMEOUT_MS", "100", "100000", observe_patience},
      {"RINGPRESS_ENCRYPT", "on", "off", observe_encryption},
      {"RINGPRESS_SECRET", "swordfish", "sardine", observe_secret},
  };
}

}  // namespace ringpress::testing
