// What a process can see of itself: its threads, connections and shared memory.
#ifndef TESTS_SUPPORT_OWN_PROCESS_H_
#define TESTS_SUPPORT_OWN_PROCESS_H_

#include <arpa/inet.h>
#include <dirent.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace ringpress::testing {

inline std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  DIR* const opened = opendir(folder);
  for (const dirent* entry; (entry = readdir(opened)) != nullptr;) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(opened);
  return names;
}

inline std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + " ";
  return text;
}

inline std::vector<std::string> thread_names() {
  std::vector<std::string> names;
  for (const std::string& task : names_in("/proc/self/task")) {
    std::ifstream file("/proc/self/task/" + task + "/comm");
    std::string name;
    if (std::getline(file, name)) names.push_back(name);
  }
  return names;
}

/// The ranks have met: the thread by which they did ends, with its connections.
inline void wait_for_the_rendezvous() {
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
inline std::vector<TcpSocket> connected_sockets() {
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

inline std::string count_of_sockets() {
  return std::to_string(connected_sockets().size());
}

/// By what paces the connections.
inline std::string congestion_of_sockets() {
  std::set<std::string> names;
  for (const TcpSocket& one : connected_sockets()) {
    char name[32] = {};
    socklen_t bytes = sizeof name - 1;
    EXPECT_EQ(getsockopt(one.descriptor, IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
    names.insert(name);
  }
  return joined(names);
}

inline std::string addresses_of_sockets() {
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

inline std::string count_of_shared_memories() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int count = 0;
  while (std::getline(maps, line)) count += line.find("/memfd:ringpress") != std::string::npos;
  return std::to_string(count);
}

inline std::string count_of_threads() {
  return std::to_string(thread_names().size());
}

/// An interface beside lo, or the name of none.
inline std::string other_interface() {
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
inline std::string other_congestion() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  std::string name;
  while (file >> name) {
    if (name != "reno") return name;
  }
  return "none_such";
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_OWN_PROCESS_H_
