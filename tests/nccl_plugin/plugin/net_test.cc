// The plugin's network, each version of its table, driven the way NCCL drives it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <set>

#include "tests/support/net_pairs.h"

namespace ringpress::testing {
namespace {

template <typename Table>
class PluginNet : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(net_.init(), ncclSuccess);
    NetLog::take_warnings();
  }
  void TearDown() override { EXPECT_EQ(net_.finalize(), ncclSuccess); }

  /// A failure is reported once, with its cause.
  void expect_warning(const std::string& text) {
    const std::vector<std::string> warnings = NetLog::take_warnings();
    ASSERT_EQ(warnings.size(), 1u) << text;
    EXPECT_NE(warnings[0].find(text), std::string::npos) << warnings[0];
  }

  NetDriver<Table> net_{plugin_library()};
};

using Tables =
    ::testing::Types<abi::NetV7, abi::NetV8, abi::NetV9, abi::NetV10, abi::NetV11, abi::NetV12>;
TYPED_TEST_SUITE(PluginNet, Tables);

TYPED_TEST(PluginNet, DescribesItsDevices) {
  int count = 0;
  ASSERT_EQ(this->net_.table().devices(&count), ncclSuccess);
  ASSERT_EQ(count, 1);
  EXPECT_STREQ(this->net_.table().name, "ringpress");
  typename NetDriver<TypeParam>::Properties properties;
  std::memset(&properties, 0xff, sizeof properties);
  ASSERT_EQ(this->net_.table().get_properties(0, &properties), ncclSuccess);
  EXPECT_STREQ(properties.name, "lo");
  EXPECT_EQ(properties.pci_path, nullptr);
  EXPECT_EQ(properties.pointer_support, abi::kPointerHost);
  EXPECT_EQ(properties.max_receives, 1);
  EXPECT_EQ(properties.device_type, abi::NetDeviceType::kHost);
  EXPECT_EQ(properties.device_version, 0);
  EXPECT_EQ(properties.port, 0);
  EXPECT_GE(properties.speed_mbps, 10000);
  EXPECT_GE(properties.max_comms, 1024);
  if constexpr (requires { properties.registration_is_global; }) {
    EXPECT_EQ(properties.registration_is_global, 1);
  }
  if constexpr (requires { properties.virtual_device; }) {
    EXPECT_EQ(properties.force_flush, 0);
    EXPECT_EQ(properties.virtual_device.count, 1);
    EXPECT_EQ(properties.virtual_device.devices[0], 0);
    EXPECT_GT(properties.max_p2p_bytes, 0u);
    EXPECT_LE(properties.max_p2p_bytes, abi::kMaxTransferBytes);
    EXPECT_GT(properties.max_coll_bytes, 0u);
    EXPECT_LE(properties.max_coll_bytes, abi::kMaxTransferBytes);
    EXPECT_EQ(this->net_.table().make_virtual_device, nullptr);
  }
  if constexpr (requires { properties.rail; }) {
    EXPECT_EQ(properties.rail, -1);
    EXPECT_EQ(properties.plane, -1);
  }
  EXPECT_EQ(this->net_.table().get_properties(1, &properties), ncclInvalidArgument);
  this->expect_warning("device 1: there are 1");
  EXPECT_EQ(this->net_.table().get_properties(-1, &properties), ncclInvalidArgument);
}

TYPED_TEST(PluginNet, CarriesMessagesIntoBuffersThatAreLarger) {
  auto& net = this->net_;
  const NetPair pair = make_pair(net);
  const std::vector<std::size_t> sizes{0, 1, 4, 63, 64, 65, 4096, 131072, 524288, 0, 3000001};
  std::thread sender([&] {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<char> message = random_message(sizes[i], i);
      void* mhandle = nullptr;
      EXPECT_EQ(net.reg_mr(pair.send, message.data(), sizes[i], abi::kPointerHost, &mhandle),
                ncclSuccess);
      EXPECT_NE(mhandle, nullptr);
      void* request = nullptr;
      EXPECT_EQ(net.isend(pair.send, message.data(), sizes[i], &request, 5, mhandle), ncclSuccess);
      ASSERT_NE(request, nullptr);
      finish(net, request);
      EXPECT_EQ(net.table().dereg_mr(pair.send, mhandle), ncclSuccess);
    }
  });
  std::thread receiver([&] {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::size_t spare = i % 3 == 0 ? 0 : 1000 * i;
      std::vector<char> memory(sizes[i] + spare, 'x');
      // NCCL's hint: no pointer, and to be replaced.
      void* request = reinterpret_cast<void*>(abi::kOptionalReceiveCompletion);
      EXPECT_EQ(net.irecv(pair.receive, memory.data(), memory.size(), &request), ncclSuccess);
      ASSERT_NE(request, nullptr);
      ASSERT_NE(request, reinterpret_cast<void*>(abi::kOptionalReceiveCompletion));
      EXPECT_EQ(finish(net, request), static_cast<int>(sizes[i]));
      std::vector<char> expected = random_message(sizes[i], i);
      expected.resize(memory.size(), 'x');
      EXPECT_TRUE(memory == expected) << sizes[i];
      int count = static_cast<int>(memory.size());
      void* data = memory.data();
      void* flush = &data;
      EXPECT_EQ(net.table().iflush(pair.receive, 1, &data, &count, nullptr, &flush), ncclSuccess);
      EXPECT_EQ(flush, nullptr);
      EXPECT_EQ(net.table().irecv_consumed(pair.receive, 1, request), ncclSuccess);
    }
  });
  sender.join();
  receiver.join();
  close_pair(net, pair);
}

/// Posts until there is no room, and returns what was posted.
template <typename Post>
std::vector<void*> fill(Post&& post) {
  std::vector<void*> requests;
  while (requests.size() < 10000) {
    void* request = nullptr;
    EXPECT_EQ(post(requests.size(), &request), ncclSuccess);
    if (request == nullptr) break;
    requests.push_back(request);
  }
  return requests;
}

TYPED_TEST(PluginNet, KeepsManyRequestsInOrderAndThenAsksToWait) {
  auto& net = this->net_;
  const NetPair pair = make_pair(net);
  constexpr std::size_t kBytes = 2000;
  std::vector<std::vector<char>> memory(10000, std::vector<char>(kBytes));
  const auto receive = [&](std::size_t i, void** request) {
    return net.irecv(pair.receive, memory[i].data(), kBytes, request);
  };
  std::vector<std::vector<char>> messages(10000);
  const auto send = [&](std::size_t i, void** request) {
    messages[i] = random_message(kBytes - i, i);
    return net.isend(pair.send, messages[i].data(), messages[i].size(), request);
  };
  for (int round = 0; round < 3; ++round) {
    // First more receives than sends, then the other way round.
    std::vector<void*> receives;
    if (round != 1) receives = fill(receive);
    const std::vector<void*> sends = fill(send);
    EXPECT_GE(sends.size(), static_cast<std::size_t>(abi::kMaxRequests));
    if (round == 1) receives = fill(receive);
    ASSERT_EQ(receives.size(), sends.size());
    EXPECT_EQ(std::set<void*>(receives.begin(), receives.end()).size(), receives.size());
    for (std::size_t i = 0; i < sends.size(); ++i) {
      EXPECT_GE(finish(net, sends[i]), 0);
      ASSERT_EQ(finish(net, receives[i]), static_cast<int>(messages[i].size()));
      ASSERT_EQ(std::memcmp(memory[i].data(), messages[i].data(), messages[i].size()), 0) << i;
    }
  }
  EXPECT_TRUE(NetLog::take_warnings().empty());
  close_pair(net, pair);
}

TYPED_TEST(PluginNet, OpensManyConnectionsAtOnce) {
  auto& net = this->net_;
  constexpr std::size_t kPairs = 24;  // The last eight to one listener.
  std::vector<typename NetDriver<TypeParam>::Handle> handles(kPairs);
  std::vector<void*> listeners(kPairs, nullptr);
  std::vector<NetPair> pairs(kPairs);
  for (std::size_t i = 0; i < kPairs; ++i) {
    if (i <= 16) {
      ASSERT_EQ(net.listen(0, handles[i].data(), &listeners[i]), ncclSuccess);
    } else {
      handles[i] = handles[16];
      listeners[i] = listeners[16];
    }
  }
  std::thread connecting([&] {
    EXPECT_TRUE(poll_until([&] {
      bool all = true;
      for (std::size_t i = kPairs; i-- > 0;) {
        if (pairs[i].send != nullptr) continue;
        EXPECT_EQ(net.connect(0, handles[i].data(), &pairs[i].send), ncclSuccess);
        all = all && pairs[i].send != nullptr;
      }
      return all;
    }));
  });
  std::thread accepting([&] {
    EXPECT_TRUE(poll_until([&] {
      bool all = true;
      for (std::size_t i = 0; i < kPairs; ++i) {
        if (pairs[i].receive != nullptr) continue;
        EXPECT_EQ(net.accept(listeners[i], &pairs[i].receive), ncclSuccess);
        all = all && pairs[i].receive != nullptr;
      }
      return all;
    }));
  });
  connecting.join();
  accepting.join();
  std::set<std::uint64_t> at_one_listener;
  for (std::size_t i = 0; i < kPairs; ++i) {
    std::uint64_t sent = i;
    std::uint64_t received = 0;
    void* send = nullptr;
    EXPECT_EQ(net.isend(pairs[i].send, &sent, sizeof sent, &send), ncclSuccess);
    finish(net, send);
    // Who connected to the one listener is accepted in any order.
    void* receive = nullptr;
    if (i <= 15) {
      EXPECT_EQ(net.irecv(pairs[i].receive, &received, sizeof received, &receive), ncclSuccess);
      EXPECT_EQ(finish(net, receive), 8);
      EXPECT_EQ(received, i);
    }
  }
  for (std::size_t i = 16; i < kPairs; ++i) {
    std::uint64_t received = 0;
    void* receive = nullptr;
    EXPECT_EQ(net.irecv(pairs[i].receive, &received, sizeof received, &receive), ncclSuccess);
    EXPECT_EQ(finish(net, receive), 8);
    at_one_listener.insert(received);
  }
  EXPECT_EQ(at_one_listener, (std::set<std::uint64_t>{16, 17, 18, 19, 20, 21, 22, 23}));
  for (const NetPair& pair : pairs) close_pair(net, pair);
  for (std::size_t i = 0; i <= 16; ++i) {
    EXPECT_EQ(net.table().close_listen(listeners[i]), ncclSuccess);
  }
}

TYPED_TEST(PluginNet, ClosesWithWorkUnderWay) {
  auto& net = this->net_;
  std::vector<char> large(8 << 20);
  std::vector<char> memory(8 << 20);
  for (const bool sender_goes : {true, false}) {
    const NetPair pair = make_pair(net);
    std::vector<void*> sends(4);
    std::vector<void*> receives(4);
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(net.isend(pair.send, large.data(), large.size(), &sends[i]), ncclSuccess);
      ASSERT_EQ(net.irecv(pair.receive, memory.data(), memory.size(), &receives[i]), ncclSuccess);
    }
    NetLog::take_warnings();
    // Whatever is asked of a connection that has failed, one warning says why.
    if (sender_goes) {
      EXPECT_EQ(net.table().close_send(pair.send), ncclSuccess);
      int done = 0;
      for (const std::size_t i : {3, 1, 2, 0, 3}) {
        EXPECT_EQ(failure_of([&] { return net.table().test(receives[i], &done, nullptr); }),
                  ncclRemoteError);
        EXPECT_EQ(done, 0);
      }
      void* request = nullptr;
      EXPECT_EQ(net.irecv(pair.receive, memory.data(), memory.size(), &request), ncclRemoteError);
      this->expect_warning("the other side");
      EXPECT_EQ(net.table().close_receive(pair.receive), ncclSuccess);
    } else {
      EXPECT_EQ(net.table().close_receive(pair.receive), ncclSuccess);
      int done = 0;
      for (const std::size_t i : {3, 1, 2, 0, 3}) {
        EXPECT_EQ(failure_of([&] { return net.table().test(sends[i], &done, nullptr); }),
                  ncclRemoteError);
      }
      void* request = nullptr;
      EXPECT_EQ(net.isend(pair.send, large.data(), large.size(), &request), ncclRemoteError);
      this->expect_warning("the other side");
      EXPECT_EQ(net.table().close_send(pair.send), ncclSuccess);
    }
  }
  // Connections that are only being opened.
  typename NetDriver<TypeParam>::Handle handle{};
  void* listen_comm = nullptr;
  void* send_comm = nullptr;
  ASSERT_EQ(net.listen(0, handle.data(), &listen_comm), ncclSuccess);
  EXPECT_EQ(net.connect(0, handle.data(), &send_comm), ncclSuccess);
  EXPECT_EQ(send_comm, nullptr);
  EXPECT_EQ(net.table().close_listen(listen_comm), ncclSuccess);
  EXPECT_EQ(failure_of([&] { return net.connect(0, handle.data(), &send_comm); }), ncclRemoteError);
  this->expect_warning("cannot be reached");
}

TYPED_TEST(PluginNet, RefusesAMessageThatIsLongerThanItsReceive) {
  auto& net = this->net_;
  const NetPair pair = make_pair(net);
  std::vector<char> message(1000);
  std::vector<char> memory(1000, 'x');
  void* send = nullptr;
  void* receive = nullptr;
  EXPECT_EQ(net.isend(pair.send, message.data(), 1000, &send), ncclSuccess);
  EXPECT_EQ(net.irecv(pair.receive, memory.data(), 999, &receive), ncclSuccess);
  int done = 0;
  EXPECT_EQ(failure_of([&] { return net.table().test(receive, &done, nullptr); }),
            ncclInvalidUsage);
  this->expect_warning("of 999 bytes at most");
  EXPECT_EQ(net.table().test(receive, &done, nullptr), ncclInvalidUsage) << "it fails again";
  EXPECT_EQ(memory, std::vector<char>(1000, 'x'));
  close_pair(net, pair);
}

TYPED_TEST(PluginNet, RefusesHandlesThatNoListenerGave) {
  auto& net = this->net_;
  typename NetDriver<TypeParam>::Handle good{};
  void* listen_comm = nullptr;
  void* receive_comm = nullptr;
  ASSERT_EQ(net.listen(0, good.data(), &listen_comm), ncclSuccess);
  std::vector<typename NetDriver<TypeParam>::Handle> wrong(7);
  for (std::size_t i = 1; i < wrong.size(); ++i) wrong[i] = good;
  wrong[1][0] ^= 1;                       // Magic.
  wrong[2][4] ^= 1;                       // Version.
  wrong[3][6] = 0;                        // No socket.
  wrong[4][6] = 100;                      // Too many.
  wrong[5][7] = static_cast<char>(0xff);  // An address longer than the handle.
  wrong[6][24] = 'x';                     // No address.
  for (auto& handle : wrong) {
    void* send_comm = &handle;
    EXPECT_EQ(net.connect(0, handle.data(), &send_comm), ncclInvalidArgument);
    EXPECT_EQ(send_comm, nullptr);
    this->expect_warning("the handle");
  }
  // Random bytes behind a right beginning: whatever they are, an answer and no crash.
  std::mt19937 engine(1);
  for (int i = 0; i < 300; ++i) {
    typename NetDriver<TypeParam>::Handle handle = good;
    for (std::size_t at = 6; at < handle.size(); ++at) {
      if (engine() % 8 == 0) handle[at] = static_cast<char>(engine());
    }
    handle[24] = '[';  // Never an address that somebody else may have.
    void* send_comm = nullptr;
    EXPECT_EQ(net.connect(0, handle.data(), &send_comm), ncclInvalidArgument);
  }
  NetLog::take_warnings();
  // The right place, but the secret of somebody else.
  good[8] ^= 1;
  void* send_comm = nullptr;
  EXPECT_EQ(failure_of([&] {
              EXPECT_EQ(net.accept(listen_comm, &receive_comm), ncclSuccess);
              EXPECT_EQ(receive_comm, nullptr);
              return net.connect(0, good.data(), &send_comm);
            }),
            ncclRemoteError);
  this->expect_warning("cannot be reached");
  EXPECT_EQ(net.table().close_listen(listen_comm), ncclSuccess);
}

TYPED_TEST(PluginNet, RefusesWhatIsNotThere) {
  auto& net = this->net_;
  auto& table = net.table();
  const NetPair pair = make_pair(net);
  char byte = 0;
  int done = 0;
  void* place = nullptr;
  typename NetDriver<TypeParam>::Handle handle{};
  void* listen_comm = nullptr;
  ASSERT_EQ(net.listen(0, handle.data(), &listen_comm), ncclSuccess);
  void* const unknown = reinterpret_cast<void*>(std::uintptr_t{0x1000});
  const std::vector<ncclResult_t> refusals{
      net.accept(unknown, &place),
      net.reg_mr(listen_comm, &byte, 1, abi::kPointerHost, &place),
      net.reg_mr(unknown, &byte, 1, abi::kPointerHost, &place),
      table.dereg_mr(listen_comm, nullptr),
      table.dereg_mr(unknown, nullptr),
      table.close_send(unknown),
      table.close_receive(unknown),
      table.close_listen(unknown),
      table.devices(nullptr),
      table.get_properties(0, nullptr),
      net.listen(0, nullptr, &place),
      net.listen(0, handle.data(), nullptr),
      net.listen(9, handle.data(), &place),
      net.connect(0, nullptr, &place),
      net.connect(0, handle.data(), nullptr),
      net.connect(-1, handle.data(), &place),
      net.accept(nullptr, &place),
      net.accept(pair.send, &place),
      net.reg_mr(nullptr, &byte, 1, abi::kPointerHost, &place),
      net.reg_mr(pair.send, &byte, 1, abi::kPointerHost, nullptr),
      table.dereg_mr(nullptr, nullptr),
      net.isend(nullptr, &byte, 1, &place),
      net.isend(pair.receive, &byte, 1, &place),
      net.isend(pair.send, nullptr, 1, &place),
      net.isend(pair.send, &byte, 1, nullptr),
      net.isend(pair.send, &byte, std::size_t{1} << 31, &place),
      net.irecv(nullptr, &byte, 1, &place),
      net.irecv(pair.send, &byte, 1, &place),
      net.irecv(pair.receive, nullptr, 1, &place),
      net.irecv(pair.receive, &byte, 1, nullptr),
      net.irecv(pair.receive, &byte, 1, &place, 0),
      net.irecv(pair.receive, &byte, 1, &place, 2),
      table.test(nullptr, &done, nullptr),
      table.test(pair.send, &done, nullptr),
      table.close_send(pair.receive),
      table.close_receive(pair.send),
      table.close_listen(pair.send),
  };
  for (std::size_t i = 0; i < refusals.size(); ++i)
    EXPECT_EQ(refusals[i], ncclInvalidArgument) << i;
  EXPECT_EQ(NetLog::take_warnings().size(), refusals.size());
  EXPECT_EQ(net.reg_mr(pair.send, &byte, 1, abi::kPointerCuda, &place), ncclInvalidUsage);
  this->expect_warning("host memory only");
  EXPECT_EQ(place, nullptr);
  EXPECT_EQ(table.reg_mr_dma_buf, nullptr);
  EXPECT_EQ(table.get_device_mr(pair.send, nullptr, &place), ncclInvalidUsage);
  EXPECT_EQ(table.close_send(nullptr), ncclSuccess);
  EXPECT_EQ(table.close_receive(nullptr), ncclSuccess);
  EXPECT_EQ(table.close_listen(nullptr), ncclSuccess);
  if constexpr (NetDriver<TypeParam>::kVersion >= 11) {
    EXPECT_EQ(table.finalize(nullptr), ncclSuccess);
    typename NetTraits<TypeParam>::Attributes attributes{};
    EXPECT_EQ(table.set_net_attributes(net.context(), &attributes), ncclSuccess);
  }
  close_pair(net, pair);
  EXPECT_EQ(table.close_listen(listen_comm), ncclSuccess);
}

// What was closed is not to be looked at: its memory may be somebody else's.
TYPED_TEST(PluginNet, RefusesWhatIsThereNoMore) {
  auto& net = this->net_;
  auto& table = net.table();
  char byte = 0;
  int done = 0;
  void* place = nullptr;
  typename NetDriver<TypeParam>::Handle handle{};
  void* listen_comm = nullptr;
  ASSERT_EQ(net.listen(0, handle.data(), &listen_comm), ncclSuccess);
  const NetPair gone = open_pair(net, listen_comm, handle.data());
  void* send_request = nullptr;
  void* receive_request = nullptr;
  ASSERT_EQ(net.isend(gone.send, &byte, 1, &send_request), ncclSuccess);
  ASSERT_EQ(net.irecv(gone.receive, &byte, 1, &receive_request), ncclSuccess);
  close_pair(net, gone);
  ASSERT_EQ(table.close_listen(listen_comm), ncclSuccess);
  const NetPair pair = make_pair(net);  // May lie where the other did.
  NetLog::take_warnings();
  void* const unknown = reinterpret_cast<void*>(std::uintptr_t{0x1000});
  std::vector<ncclResult_t> refusals{
      net.accept(listen_comm, &place),
      net.reg_mr(gone.send, &byte, 1, abi::kPointerHost, &place),
      table.dereg_mr(gone.receive, nullptr),
      net.isend(gone.send, &byte, 1, &place),
      net.isend(unknown, &byte, 1, &place),
      net.irecv(gone.receive, &byte, 1, &place),
      net.irecv(unknown, &byte, 1, &place),
      table.test(send_request, &done, nullptr),
      table.test(receive_request, &done, nullptr),
      table.test(unknown, &done, nullptr),
      table.close_send(gone.send),
      table.close_receive(gone.receive),
      table.close_listen(listen_comm),
  };
  if constexpr (NetDriver<TypeParam>::kVersion >= 11) {
    NetDriver<TypeParam> other(plugin_library());
    ASSERT_EQ(other.init(), ncclSuccess);
    ASSERT_EQ(other.finalize(), ncclSuccess);
    refusals.push_back(other.finalize());
    refusals.push_back(table.finalize(unknown));
  }
  for (std::size_t i = 0; i < refusals.size(); ++i)
    EXPECT_EQ(refusals[i], ncclInvalidArgument) << i;
  EXPECT_EQ(NetLog::take_warnings().size(), refusals.size());
  EXPECT_EQ(place, nullptr);
  close_pair(net, pair);
}

/// A socket that is connected to the listener of a handle.
int visit(const char* handle) {
  const std::string address(handle + 24, static_cast<unsigned char>(handle[7]));
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(static_cast<std::uint16_t>(
      std::strtoul(address.substr(address.rfind(':') + 1).c_str(), nullptr, 10)));
  inet_pton(AF_INET, "127.0.0.1", &target.sin_addr);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&target), sizeof target), 0);
  return socket;
}

TYPED_TEST(PluginNet, LetsStrangersStandOutside) {
  auto& net = this->net_;
  typename NetDriver<TypeParam>::Handle handle{};
  void* listen_comm = nullptr;
  ASSERT_EQ(net.listen(0, handle.data(), &listen_comm), ncclSuccess);
  std::vector<int> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(visit(handle.data()));
    const std::vector<char> garbage = random_message(static_cast<std::size_t>(i * 20), 9);
    EXPECT_EQ(send(strangers.back(), garbage.data(), garbage.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(garbage.size()));
    if (i % 4 == 0) ::shutdown(strangers.back(), SHUT_WR);
  }
  const NetPair pair = open_pair(net, listen_comm, handle.data());
  std::vector<char> message = random_message(5000, 3);
  std::vector<char> memory(6000);
  void* send_request = nullptr;
  void* receive_request = nullptr;
  EXPECT_EQ(net.isend(pair.send, message.data(), message.size(), &send_request), ncclSuccess);
  EXPECT_EQ(net.irecv(pair.receive, memory.data(), memory.size(), &receive_request), ncclSuccess);
  finish(net, send_request);
  EXPECT_EQ(finish(net, receive_request), 5000);
  memory.resize(5000);
  EXPECT_TRUE(memory == message);
  for (const int stranger : strangers) ::close(stranger);
  close_pair(net, pair);
  EXPECT_EQ(net.table().close_listen(listen_comm), ncclSuccess);
  EXPECT_TRUE(NetLog::take_warnings().empty());
}

}  // namespace
}  // namespace ringpress::testing
