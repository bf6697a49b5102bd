// Ports for tests that have to name one before anybody listens there.
#ifndef TESTS_SUPPORT_UNUSED_PORT_H_
#define TESTS_SUPPORT_UNUSED_PORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <random>
#include <stdexcept>

namespace ringpress::testing {

inline bool is_unused(int port) {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool is_bound =
      bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(probe);
  return is_bound;
}

/// A port of the loopback interface that nobody uses. It lies below the range that Linux gives to
/// outgoing connections: a port that the kernel picks may belong to another test's connection a
/// moment later.
inline int unused_port() {
  constexpr int kFirst = 10000;
  constexpr int kLast = 29999;
  std::random_device random;
  for (int tries = 0; tries < 100; ++tries) {
    const int port = std::uniform_int_distribution<int>(kFirst, kLast)(random);
    if (is_unused(port)) return port;
  }
  throw std::runtime_error("no port is unused");
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_UNUSED_PORT_H_
