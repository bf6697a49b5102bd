// The plugin's network where it takes processes: what a fresh process sees, and peers that die.
// Nothing here loads the library in this process itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "tests/support/in_child.h"
#include "tests/support/net_pairs.h"

namespace ringpress::testing {
namespace {

using Net = NetDriver<abi::NetV12>;

TEST(PluginNetProcess, HasNoDevicesBeforeInit) {
  in_child([] {
    Net net(plugin_library());
    int count = 7;
    EXPECT_EQ(net.table().devices(&count), ncclInvalidUsage);
    Net::Handle handle{};
    void* comm = nullptr;
    EXPECT_EQ(net.listen(0, handle.data(), &comm), ncclInvalidUsage);
    EXPECT_EQ(net.connect(0, handle.data(), &comm), ncclInvalidUsage);
    EXPECT_EQ(net.init(), ncclSuccess);
    EXPECT_EQ(net.init(), ncclSuccess) << "once for each communicator";
    EXPECT_EQ(net.table().devices(&count), ncclSuccess);
    EXPECT_EQ(count, 1);
    EXPECT_TRUE(NetLog::contains("network over TCP")) << "one line says what is in use";
  });
}

TEST(PluginNetProcess, WarnsOfAWrongSettingAndGoesOn) {
  in_child([] {
    setenv("RINGPRESS_SOCKETS", "many", 1);
    Net net(plugin_library());
    EXPECT_EQ(net.init(), ncclSuccess);
    EXPECT_TRUE(NetLog::contains("RINGPRESS_SOCKETS=many"));
    close_pair(net, make_pair(net));
  });
}

TEST(PluginNetProcess, GivesConnectingUpInTheEnd) {
  in_child([] {
    setenv("RINGPRESS_TIMEOUT_MS", "300", 1);
    Net net(plugin_library());
    EXPECT_EQ(net.init(), ncclSuccess);
    Net::Handle handle{};
    void* listen_comm = nullptr;
    void* comm = nullptr;
    EXPECT_EQ(net.listen(0, handle.data(), &listen_comm), ncclSuccess);
    // Nobody accepts; and then nobody connects.
    EXPECT_EQ(failure_of([&] { return net.connect(0, handle.data(), &comm); }), ncclRemoteError);
    EXPECT_TRUE(NetLog::contains("did not accept a connection within 300 ms"));
    EXPECT_EQ(failure_of([&] { return net.accept(listen_comm, &comm); }), ncclRemoteError);
    EXPECT_TRUE(NetLog::contains("nobody has connected within 300 ms"));
    EXPECT_EQ(comm, nullptr);
    EXPECT_EQ(net.table().close_listen(listen_comm), ncclSuccess);
  });
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(PluginNetProcess, ReleasesWhatItsCommunicatorHasNotConnected) {
  in_child([] {
    Net net(plugin_library());
    Net other(plugin_library());
    EXPECT_EQ(net.init(), ncclSuccess);
    EXPECT_EQ(other.init(), ncclSuccess);
    Net::Handle handle{};
    void* listen_comm = nullptr;
    EXPECT_EQ(other.listen(0, handle.data(), &listen_comm), ncclSuccess);
    Net::Handle others_handle = handle;
    void* comm = nullptr;
    EXPECT_EQ(other.connect(0, others_handle.data(), &comm), ncclSuccess);
    const std::size_t before = open_descriptors();
    std::vector<Net::Handle> handles(10, handle);  // Nobody accepts.
    for (Net::Handle& pending : handles) {
      EXPECT_EQ(net.connect(0, pending.data(), &comm), ncclSuccess);
      EXPECT_EQ(comm, nullptr);
    }
    EXPECT_GT(open_descriptors(), before);
    EXPECT_EQ(net.finalize(), ncclSuccess);
    EXPECT_EQ(open_descriptors(), before) << "and those of the other are still there";
    void* receive_comm = nullptr;
    EXPECT_TRUE(poll_until([&] {
      if (comm == nullptr) {
        EXPECT_EQ(other.connect(0, others_handle.data(), &comm), ncclSuccess);
      }
      if (receive_comm == nullptr) {
        EXPECT_EQ(other.accept(listen_comm, &receive_comm), ncclSuccess);
      }
      return comm != nullptr && receive_comm != nullptr;
    }));
    EXPECT_EQ(other.table().close_listen(listen_comm), ncclSuccess);
    close_pair(other, {comm, receive_comm});
    EXPECT_EQ(other.finalize(), ncclSuccess);
  });
}

TEST(PluginNetProcess, AForkedChildClosesNothingOfItsParents) {
  in_child([] {
    Net net(plugin_library());
    EXPECT_EQ(net.init(), ncclSuccess);
    Net::Handle handle{};
    void* listen_comm = nullptr;
    EXPECT_EQ(net.listen(0, handle.data(), &listen_comm), ncclSuccess);
    const NetPair pair = open_pair(net, listen_comm, handle.data());
    in_child([&] {
      close_pair(net, pair);
      EXPECT_EQ(net.table().close_listen(listen_comm), ncclSuccess);
      EXPECT_EQ(net.finalize(), ncclSuccess);
    });
    // Larger than what the system keeps for a socket: both ends must hear of each other.
    std::vector<char> message = random_message(20 << 20, 1);
    std::vector<char> memory(message.size());
    void* send_request = nullptr;
    void* receive_request = nullptr;
    EXPECT_EQ(net.isend(pair.send, message.data(), message.size(), &send_request), ncclSuccess);
    EXPECT_EQ(net.irecv(pair.receive, memory.data(), memory.size(), &receive_request), ncclSuccess);
    std::thread sender([&] { EXPECT_NE(finish(net, send_request), -1); });
    EXPECT_EQ(finish(net, receive_request), static_cast<int>(message.size()));
    sender.join();
    EXPECT_TRUE(memory == message);
    const NetPair second = open_pair(net, listen_comm, handle.data());
    close_pair(net, second);
    close_pair(net, pair);
    EXPECT_EQ(net.table().close_listen(listen_comm), ncclSuccess);
  });
}

/// Two processes with a connection between them; `first` listens.
template <typename First, typename Second>
void two_processes(First&& first, Second&& second) {
  int handles[2];
  ASSERT_EQ(pipe2(handles, O_CLOEXEC), 0);
  std::fflush(nullptr);
  const pid_t peer = fork();
  ASSERT_GE(peer, 0);
  if (peer == 0) {
    close(handles[1]);
    Net net(plugin_library());
    EXPECT_EQ(net.init(), ncclSuccess);
    Net::Handle handle{};
    if (read(handles[0], handle.data(), handle.size()) != ssize_t(handle.size())) _exit(2);
    void* send_comm = nullptr;
    EXPECT_TRUE(poll_until([&] {
      EXPECT_EQ(net.connect(0, handle.data(), &send_comm), ncclSuccess);
      return send_comm != nullptr;
    }));
    second(net, send_comm);
    EXPECT_FALSE(has_leaks());
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  in_child([&] {
    Net net(plugin_library());
    EXPECT_EQ(net.init(), ncclSuccess);
    Net::Handle handle{};
    void* listen_comm = nullptr;
    void* receive_comm = nullptr;
    EXPECT_EQ(net.listen(0, handle.data(), &listen_comm), ncclSuccess);
    EXPECT_EQ(write(handles[1], handle.data(), handle.size()), ssize_t(handle.size()));
    EXPECT_TRUE(poll_until([&] {
      EXPECT_EQ(net.accept(listen_comm, &receive_comm), ncclSuccess);
      return receive_comm != nullptr;
    }));
    EXPECT_EQ(net.table().close_listen(listen_comm), ncclSuccess);
    first(net, receive_comm, peer);
    EXPECT_EQ(net.table().close_receive(receive_comm), ncclSuccess);
  });
  close(handles[0]);
  close(handles[1]);  // A peer that still waits for a handle gets none.
  int status = 0;
  EXPECT_EQ(waitpid(peer, &status, 0), peer);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
}

TEST(PluginNetProcess, CarriesMessagesBetweenProcesses) {
  two_processes(
      [](Net& net, void* receive_comm, pid_t) {
        std::vector<char> memory(400000);
        for (std::size_t i = 0; i < 100; ++i) {
          void* request = nullptr;
          EXPECT_EQ(net.irecv(receive_comm, memory.data(), memory.size(), &request), ncclSuccess);
          ASSERT_EQ(finish(net, request), static_cast<int>(i * 3571));
          const std::vector<char> expected = random_message(i * 3571, i);
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), memory.begin())) << i;
        }
      },
      [](Net& net, void* send_comm) {
        for (std::size_t i = 0; i < 100; ++i) {
          std::vector<char> message = random_message(i * 3571, i);
          void* request = nullptr;
          ASSERT_EQ(net.isend(send_comm, message.data(), message.size(), &request), ncclSuccess);
          finish(net, request);
        }
        EXPECT_EQ(net.table().close_send(send_comm), ncclSuccess);
      });
}

TEST(PluginNetProcess, NoticesAPeerThatDies) {
  two_processes(
      [](Net& net, void* receive_comm, pid_t peer) {
        std::vector<char> memory(1000);
        void* request = nullptr;
        EXPECT_EQ(net.irecv(receive_comm, memory.data(), memory.size(), &request), ncclSuccess);
        EXPECT_EQ(finish(net, request), 5);
        EXPECT_EQ(net.irecv(receive_comm, memory.data(), memory.size(), &request), ncclSuccess);
        EXPECT_EQ(kill(peer, SIGKILL), 0);
        int done = 0;
        EXPECT_EQ(failure_of([&] { return net.table().test(request, &done, nullptr); }),
                  ncclRemoteError);
        EXPECT_TRUE(NetLog::contains("the other side was lost"));
      },
      [](Net& net, void* send_comm) {
        char hello[] = "hello";
        void* request = nullptr;
        EXPECT_EQ(net.isend(send_comm, hello, 5, &request), ncclSuccess);
        finish(net, request);
        while (true) pause();
      });
}

TEST(PluginNetProcess, NoticesAReceiverThatDies) {
  two_processes(
      // This one ends at once; what it did not receive makes the other one's sends fail.
      [](Net&, void*, pid_t) { _exit(0); },
      [](Net& net, void* send_comm) {
        std::vector<char> message(4 << 20);
        void* request = nullptr;
        const auto send_and_test = [&] {
          if (request == nullptr) {
            const ncclResult_t sent =
                net.isend(send_comm, message.data(), message.size(), &request);
            if (sent != ncclSuccess || request == nullptr) return sent;
          }
          int done = 0;
          const ncclResult_t tested = net.table().test(request, &done, nullptr);
          if (done != 0) request = nullptr;
          return tested;
        };
        EXPECT_EQ(failure_of(send_and_test), ncclRemoteError);
        EXPECT_TRUE(NetLog::contains("the other side was lost"));
      });
}

}  // namespace
}  // namespace ringpress::testing
