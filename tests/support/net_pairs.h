// Connections between two ends in this process, made and used as NCCL's threads do: one thread
// connects and accepts, others move data, and all of them only ever poll.
#ifndef TESTS_SUPPORT_NET_PAIRS_H_
#define TESTS_SUPPORT_NET_PAIRS_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/net_driver.h"

namespace ringpress::testing {

/// The built plugin library. What the tests of this process need of the environment is set before
/// it is loaded; it is never closed.
inline void* plugin_library() {
  static void* const library = [] {
    setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
    setenv("RINGPRESS_TIMEOUT_MS", "100000", 0);
    void* const opened = dlopen(RINGPRESS_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) throw std::runtime_error(dlerror());
    return opened;
  }();
  return library;
}

/// Polls `done` until it holds. False after a patience that no healthy machine exhausts.
template <typename Done>
bool poll_until(Done&& done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(250);
  while (!done()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::yield();
  }
  return true;
}

inline std::vector<char> random_message(std::size_t bytes, std::size_t seed) {
  std::mt19937 engine(static_cast<unsigned>(seed));
  std::vector<char> message(bytes);
  for (char& byte : message) byte = static_cast<char>(engine());
  return message;
}

struct NetPair {
  void* send = nullptr;
  void* receive = nullptr;
};

/// Opens one connection to a listener.
template <typename Table>
NetPair open_pair(NetDriver<Table>& net, void* listen_comm, void* handle) {
  NetPair pair;
  std::thread service([&] {
    EXPECT_TRUE(poll_until([&] {
      if (pair.send == nullptr) {
        EXPECT_EQ(net.connect(0, handle, &pair.send), ncclSuccess);
      }
      if (pair.receive == nullptr) {
        EXPECT_EQ(net.accept(listen_comm, &pair.receive), ncclSuccess);
      }
      return pair.send != nullptr && pair.receive != nullptr;
    }));
  });
  service.join();
  return pair;
}

template <typename Table>
NetPair make_pair(NetDriver<Table>& net) {
  typename NetDriver<Table>::Handle handle{};
  void* listen_comm = nullptr;
  EXPECT_EQ(net.listen(0, handle.data(), &listen_comm), ncclSuccess);
  const NetPair pair = open_pair(net, listen_comm, handle.data());
  EXPECT_EQ(net.table().close_listen(listen_comm), ncclSuccess);
  return pair;
}

template <typename Table>
void close_pair(NetDriver<Table>& net, const NetPair& pair) {
  EXPECT_EQ(net.table().close_send(pair.send), ncclSuccess);
  EXPECT_EQ(net.table().close_receive(pair.receive), ncclSuccess);
}

/// Polls a request until it is done. The bytes that came, or -1 for an error.
template <typename Table>
int finish(NetDriver<Table>& net, void* request) {
  int done = 0;
  int size = -1;
  ncclResult_t result = ncclSuccess;
  EXPECT_TRUE(poll_until([&] {
    result = net.table().test(request, &done, &size);
    return result != ncclSuccess || done != 0;
  }));
  return result == ncclSuccess ? size : -1;
}

/// Polls a request, or the call that makes one, until it fails.
template <typename Call>
ncclResult_t failure_of(Call&& call) {
  ncclResult_t result = ncclSuccess;
  EXPECT_TRUE(poll_until([&] {
    result = call();
    return result != ncclSuccess;
  }));
  return result;
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_NET_PAIRS_H_
