// Connections that are not from the job: what port scanners, health checks, browsers and wrong
// programs send, to every socket at which some processes listen.
#ifndef TESTS_SUPPORT_STRAYS_H_
#define TESTS_SUPPORT_STRAYS_H_

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ringpress::testing {

/// As many files as this process may ever open.
inline void raise_file_limit() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

enum class Stray { kSilent, kOneByte, kSevenBytes, kHttp, kTls, kRandom, kHalfHello, kCount };

/// What one of a kind says, before it says no more.
inline std::string words_of(Stray kind) {
  std::string random(5000, '\0');
  std::mt19937 numbers(std::random_device{}());
  for (char& one : random) one = static_cast<char>(numbers());
  switch (kind) {
    case Stray::kSilent:
      return "";
    case Stray::kOneByte:
      return "x";
    case Stray::kSevenBytes:
      return "SSH-2.0";
    case Stray::kHttp:
      return "GET / HTTP/1.1\r\nHost: here\r\nUser-Agent: scan\r\nAccept: */*\r\n\r\n";
    case Stray::kTls:  // A record header, a client hello's beginning, and random bytes of it.
      return std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) +
             random.substr(0, 500);
    case Stray::kRandom:
      return random;
    case Stray::kHalfHello:  // The magic of ringpress's own hello, and half of the rest.
      return "RRPH" + random.substr(0, 28);
    case Stray::kCount:
      break;
  }
  return "";
}

/// A socket of either family at which somebody listens.
struct ListeningPlace {
  sockaddr_storage address{};
  socklen_t bytes = 0;
};

/// The inodes of all sockets of a process.
inline std::set<unsigned long> sockets_of(pid_t process) {
  std::set<unsigned long> inodes;
  const std::string folder = "/proc/" + std::to_string(process) + "/fd";
  DIR* const files = opendir(folder.c_str());
  if (files == nullptr) return inodes;
  while (const dirent* const file = readdir(files)) {
    char target[64] = "";
    unsigned long inode = 0;
    const std::string path = folder + "/" + file->d_name;
    if (readlink(path.c_str(), target, sizeof target - 1) < 0) continue;
    if (sscanf(target, "socket:[%lu]", &inode) == 1) inodes.insert(inode);
  }
  closedir(files);
  return inodes;
}

/// Where a process listens by TCP, version 4, or at an abstract local name.
inline std::vector<ListeningPlace> listening_places(pid_t process) {
  std::vector<ListeningPlace> places;
  const std::set<unsigned long> own = sockets_of(process);
  const std::string folder = "/proc/" + std::to_string(process) + "/net/";
  std::string line;
  for (std::ifstream tcp(folder + "tcp"); std::getline(tcp, line);) {
    unsigned address = 0, port = 0, state = 0;
    unsigned long inode = 0;
    if (sscanf(line.c_str(), "%*d: %x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %lu", &address,
               &port, &state, &inode) != 4) {
      continue;
    }
    if (state != 0x0a || !own.contains(inode)) continue;
    ListeningPlace place;
    auto* const inet = reinterpret_cast<sockaddr_in*>(&place.address);
    inet->sin_family = AF_INET;
    inet->sin_port = htons(static_cast<std::uint16_t>(port));
    inet->sin_addr.s_addr = address;
    place.bytes = sizeof *inet;
    places.push_back(place);
  }
  for (std::ifstream local(folder + "unix"); std::getline(local, line);) {
    unsigned flags = 0;
    unsigned long inode = 0;
    const std::size_t name = line.find('@');
    if (sscanf(line.c_str(), "%*s %*x %*x %x %*x %*x %lu", &flags, &inode) != 2) continue;
    if ((flags & 0x10000) == 0 || name == std::string::npos || !own.contains(inode)) continue;
    ListeningPlace place;
    auto* const unix_address = reinterpret_cast<sockaddr_un*>(&place.address);
    unix_address->sun_family = AF_UNIX;
    const std::string text = line.substr(name + 1);
    std::memcpy(unix_address->sun_path + 1, text.data(), text.size());
    place.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    places.push_back(place);
  }
  return places;
}

/// Connects and says its words. -1 where that does not work at once.
inline int visit(const ListeningPlace& place, const std::string& words) {
  const int socket_number =
      socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto* const address = reinterpret_cast<const sockaddr*>(&place.address);
  if (socket_number < 0) return -1;
  if (connect(socket_number, address, place.bytes) != 0 && errno != EINPROGRESS) {
    close(socket_number);
    return -1;
  }
  static_cast<void>(send(socket_number, words.data(), words.size(), MSG_NOSIGNAL));
  return socket_number;
}

/// A reset instead of a goodbye.
inline void reset_connection(int socket_number) {
  const linger at_once = {1, 0};
  setsockopt(socket_number, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(socket_number);
}

inline std::vector<pid_t> children_of(pid_t parent) {
  const std::string number = std::to_string(parent);
  std::ifstream list("/proc/" + number + "/task/" + number + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
}

/// What strays do: they come to each place `at_once` together, of all kinds in turn. So many of
/// them are `held` open until others take their turn; each fourth one, and all if none is, is
/// reset. Those that stay come once to each place.
struct StrayHabits {
  std::vector<Stray> kinds;
  std::size_t held = 0;
  std::size_t at_once = 8;
  bool stay = false;
};

/// A process that sends strays to all other children of its parent, for as long as it lives.
class StrayProcess {
 public:
  explicit StrayProcess(StrayHabits habits) : process_(fork()) {
    if (process_ == 0) run(habits);
  }
  ~StrayProcess() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  StrayProcess(const StrayProcess&) = delete;
  StrayProcess& operator=(const StrayProcess&) = delete;

 private:
  [[noreturn]] static void run(const StrayHabits& habits) {
    raise_file_limit();
    std::vector<int> held(habits.held, -1);
    std::vector<std::string> words;
    std::set<std::string> visited;
    for (const Stray kind : habits.kinds) words.push_back(words_of(kind));
    for (std::size_t visits = 0;;) {
      for (const pid_t rank : children_of(getppid())) {
        if (rank == getpid()) continue;
        for (const ListeningPlace& place : listening_places(rank)) {
          const std::string name(reinterpret_cast<const char*>(&place.address), place.bytes);
          if (habits.stay && !visited.insert(name).second) continue;
          for (std::size_t i = 0; i < habits.at_once; ++i, ++visits) {
            const int visitor = visit(place, words[visits % words.size()]);
            if (visitor < 0) break;
            if (habits.stay) continue;
            if (held.empty() || visits % 4 == 0) {
              reset_connection(visitor);
              continue;
            }
            int& last = held[visits % held.size()];
            if (last >= 0) close(last);
            last = visitor;
          }
        }
      }
      usleep(1000);
    }
  }

  const pid_t process_;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_STRAYS_H_
