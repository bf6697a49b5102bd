// The port of a meeting place in an NCCL id, from outside.
#ifndef TESTS_SUPPORT_MEETING_PORT_H_
#define TESTS_SUPPORT_MEETING_PORT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "ringpress/nccl.h"

namespace ringpress::nccl_plugin::interposer {

/// The address in a meeting place: "127.0.0.1:port", after magic, secret and so on.
inline sockaddr_in address_of(const ncclUniqueId& id) {
  const std::string bytes(id.internal + 56, sizeof id.internal - 56);
  const std::size_t host = bytes.find("127.0.0.1:");
  EXPECT_NE(host, std::string::npos);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(
      static_cast<std::uint16_t>(std::atoi(bytes.c_str() + host + std::strlen("127.0.0.1:"))));
  return address;
}

/// 0, or the errno of a connection to it.
inline int connect_to(const ncclUniqueId& id) {
  const sockaddr_in address = address_of(id);
  const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int result = connect(stranger, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = result == 0 ? 0 : errno;
  close(stranger);
  return error;
}

/// True once nobody listens there any more; false if somebody does for half a minute.
inline bool closes(const ncclUniqueId& id) {
  for (int tries = 0; tries < 1500; ++tries) {
    if (connect_to(id) == ECONNREFUSED) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace ringpress::nccl_plugin::interposer

#endif  // TESTS_SUPPORT_MEETING_PORT_H_
