// Settings of connections, threads and shared memory, as the process itself can see them.
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/nccl_plugin/setting_rows.h"
#include "tests/support/setting_job.h"
#include "tests/support/setting_observers.h"

namespace ringpress::testing {
namespace {

std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  DIR* const opened = opendir(folder);
  for (const dirent* entry; (entry = readdir(opened)) != nullptr;) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(opened);
  return names;
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + " ";
  return text;
}

std::vector<std::string> thread_names() {
  std::vector<std::string> names;
  for (const std::string& task : names_in("/proc/self/task")) {
    std::ifstream file("/proc/self/task/" + task + "/comm");
    std::string name;
    if (std::getline(file, name)) names.push_back(name);
  }
  return names;
}

/// The ranks have met: the thread by which they did ends, with its connections.
void wait_for_the_rendezvous() {
  const auto is_there = [] {
    const std::vector<std::string> names = thread_names();
    return std::count(names.begin(), names.end(), "rp-rendezvous") > 0;
  };
  while (is_there()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

struct TcpSocket {
  int descriptor = -1;
  sockaddr_storage own{};
};

/// This process's sockets of TCP that are connected.
std::vector<TcpSocket> connected_sockets() {
  std::vector<TcpSocket> found;
  for (const std::string& name : names_in("/proc/self/fd")) {
    TcpSocket one{std::atoi(name.c_str()), {}};
    sockaddr_storage peer{};
    socklen_t bytes = sizeof peer, own_bytes = sizeof one.own;
    if (getpeername(one.descriptor, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) continue;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) continue;
    if (getsockname(one.descriptor, reinterpret_cast<sockaddr*>(&one.own), &own_bytes) == 0) {
      found.push_back(one);
    }
  }
  return found;
}

std::string count_of_sockets() {
  return std::to_string(connected_sockets().size());
}

/// By what paces the connections.
std::string congestion_of_sockets() {
  std::set<std::string> names;
  for (const TcpSocket& one : connected_sockets()) {
    char name[32] = {};
    socklen_t bytes = sizeof name - 1;
    EXPECT_EQ(getsockopt(one.descriptor, IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
    names.insert(name);
  }
  return joined(names);
}

std::string addresses_of_sockets() {
  std::set<std::string> addresses;
  for (const TcpSocket& one : connected_sockets()) {
    char text[INET6_ADDRSTRLEN] = {};
    const bool is_old = one.own.ss_family == AF_INET;
    const void* const address =
        is_old ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&one.own)->sin_addr)
               : &reinterpret_cast<const sockaddr_in6*>(&one.own)->sin6_addr;
    inet_ntop(one.own.ss_family, address, text, sizeof text);
    addresses.insert(text);
  }
  return joined(addresses);
}

std::string count_of_shared_memories() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int count = 0;
  while (std::getline(maps, line)) count += line.find("/memfd:ringpress") != std::string::npos;
  return std::to_string(count);
}

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

std::string count_of_threads() {
  return std::to_string(thread_names().size());
}

/// A rank comes to its call when another one has given it up, or late.
std::string observe_patience(const Variable& tested) {
  SettingJob job = with_settings(job_with("none"), {tested});
  std::atomic<bool> has_ended{false};
  job.after_call = [&has_ended] { has_ended = true; };
  job.before_others_call = [&has_ended] {
    for (int i = 0; i < 300 && !has_ended; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  const std::string failure = run_setting_job(job).failure;
  return failure.find("no progress") != std::string::npos ? "given up" : "reduced " + failure;
}

/// A rank with another secret is a stranger.
std::string observe_secret(const Variable& tested) {
  SettingJob job = with_settings(
      job_with("none"), {{"RINGPRESS_SECRET", "swordfish"}, {"RINGPRESS_TIMEOUT_MS", "700"}});
  job.of_rank_1 = {tested};
  return run_setting_job(job).failure.empty() ? "they meet" : "they do not meet";
}

/// An interface beside lo, or the name of none.
std::string other_interface() {
  std::string found = "nope0";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const bool is_usable = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0 &&
                           one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET;
    if (is_usable) found = one->ifa_name;
  }
  freeifaddrs(all);
  return found;
}

/// An algorithm beside reno that the system has, or the name of none.
std::string other_congestion() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  std::string name;
  while (file >> name) {
    if (name != "reno") return name;
  }
  return "none_such";
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
      {"RINGPRESS_SECRET", "swordfish", "sardine", observe_secret},
  };
}

}  // namespace ringpress::testing
