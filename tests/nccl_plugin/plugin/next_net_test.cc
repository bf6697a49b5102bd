// RINGPRESS_NEXT_NET_PLUGIN: the network of another plugin, call by call. Each test loads the
// library in a process of its own, for it reads the setting when it is loaded.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/in_child.h"
#include "tests/support/net_pairs.h"

namespace ringpress::testing {
namespace {

std::string fake_path(int least, int most) {
  return std::string(FAKE_NET_FOLDER) + "/libnccl-net-fake" + std::to_string(least) + "to" +
         std::to_string(most) + ".so";
}

/// The fake plugin itself, in the instance that the library has loaded too.
void* fake_library(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return library;
}

std::string take_calls(void* fake) {
  using Calls = const char* (*)();
  return reinterpret_cast<Calls>(dlsym(fake, "fake_net_calls"))();
}

void split_devices(void* fake) {
  reinterpret_cast<void (*)()>(dlsym(fake, "fake_net_split"))();
}

void* object(std::uintptr_t number) {
  return reinterpret_cast<void*>(number);
}

template <typename Table>
void call_setup(NetDriver<Table>& net) {
  int count = 0;
  EXPECT_EQ(net.init(), ncclSuccess);
  EXPECT_EQ(net.table().devices(&count), ncclSuccess);
  EXPECT_EQ(count, 2);
  void* comm = nullptr;
  EXPECT_EQ(net.listen(1, object(0x1000), &comm), ncclSuccess);
  EXPECT_EQ(comm, object(0x11));
  EXPECT_EQ(net.connect(1, object(0x2000), &comm), ncclSuccess);
  EXPECT_EQ(comm, object(0x22));
  EXPECT_EQ(net.accept(object(0x11), &comm), ncclSuccess);
  EXPECT_EQ(comm, object(0x33));
  EXPECT_EQ(net.reg_mr(object(0x22), object(0x3000), 4096, 2, &comm), ncclSuccess);
  EXPECT_EQ(comm, object(0x44));
  EXPECT_EQ(net.table().reg_mr_dma_buf(object(0x22), object(0x3000), 4096, 2, 77, 9, &comm),
            ncclSuccess);
  EXPECT_EQ(comm, object(0x55));
  EXPECT_EQ(net.table().get_device_mr(object(0x22), object(0x44), &comm), ncclSuccess);
  EXPECT_EQ(comm, object(0x99));
}

template <typename Table>
void call_transfers(NetDriver<Table>& net) {
  void* request = nullptr;
  EXPECT_EQ(net.isend(object(0x22), object(0x3000), 4096, &request, 17, object(0x44)), ncclSuccess);
  EXPECT_EQ(request, object(0x66));
  request = object(abi::kOptionalReceiveCompletion);
  EXPECT_EQ(net.irecv(object(0x33), object(0x3000), 4097, &request, 1, 18, object(0x44)),
            ncclSuccess);
  EXPECT_EQ(request, object(0x77));
  void* data = object(0x3000);
  void* mhandle = object(0x44);
  int size = 4098;
  EXPECT_EQ(net.table().iflush(object(0x33), 1, &data, &size, &mhandle, &request), ncclSuccess);
  EXPECT_EQ(request, object(0x88));
  int done = 0;
  EXPECT_EQ(net.table().test(object(0x66), &done, &size), ncclRemoteError) << "as the fake says";
  EXPECT_EQ(done, 1);
  EXPECT_EQ(size, 99);
  EXPECT_EQ(net.table().irecv_consumed(object(0x33), 1, object(0x77)), ncclSuccess);
}

template <typename Table>
void call_the_rest(NetDriver<Table>& net) {
  EXPECT_EQ(net.table().dereg_mr(object(0x22), object(0x44)), ncclSuccess);
  EXPECT_EQ(net.table().close_send(object(0x22)), ncclSuccess);
  EXPECT_EQ(net.table().close_receive(object(0x33)), ncclSuccess);
  EXPECT_EQ(net.table().close_listen(object(0x11)), ncclSuccess);
  if constexpr (NetDriver<Table>::kVersion >= 9) {
    if (net.table().make_virtual_device != nullptr) {
      typename NetTraits<Table>::VirtualDevice parts{3, {1, 0, 2}};
      int device = -1;
      EXPECT_EQ(net.table().make_virtual_device(&device, &parts), ncclSuccess);
      EXPECT_EQ(device, 2);
    }
  }
  if constexpr (NetDriver<Table>::kVersion >= 11) {
    if (net.table().set_net_attributes != nullptr) {
      typename NetTraits<Table>::Attributes attributes{};
      attributes.send.max_concurrent_peers = 31;
      attributes.operations = 32;
      attributes.protocols = 33;
      EXPECT_EQ(net.table().set_net_attributes(net.context(), &attributes), ncclSuccess);
    }
    EXPECT_EQ(net.table().finalize(net.context()), ncclSuccess);
    EXPECT_EQ(net.table().finalize(nullptr), ncclSuccess);
  }
}

/// Every function of a table, and what the fake wrote down of it.
template <typename Table>
std::string call_everything(void* library, void* fake) {
  NetDriver<Table> net(library);
  EXPECT_STREQ(net.table().name, "Fake Net");
  take_calls(fake);
  split_devices(fake);
  call_setup(net);
  call_transfers(net);
  call_the_rest(net);
  return take_calls(fake);
}

template <typename Newer, typename Older>
void expect_dressed_properties(const Newer& newer, const Older& older) {
  EXPECT_STREQ(newer.name, older.name);
  EXPECT_EQ(newer.pci_path, older.pci_path);
  EXPECT_EQ(newer.guid, older.guid);
  EXPECT_EQ(newer.pointer_support, older.pointer_support);
  EXPECT_EQ(newer.speed_mbps, older.speed_mbps);
  EXPECT_EQ(newer.port, older.port);
  EXPECT_EQ(newer.latency_us, older.latency_us);
  EXPECT_EQ(newer.max_comms, older.max_comms);
  EXPECT_EQ(newer.max_receives, older.max_receives);
  EXPECT_EQ(newer.device_type, older.device_type);
  EXPECT_EQ(newer.device_version, older.device_version);
  if constexpr (requires { newer.registration_is_global; }) {
    int expected = 0;
    if constexpr (requires { older.registration_is_global; }) expected = 1;
    EXPECT_EQ(newer.registration_is_global, expected);
  }
  if constexpr (requires { newer.virtual_device; }) {
    constexpr bool kHas = requires {
      older.virtual_device;
    };
    EXPECT_EQ(newer.virtual_device.count, kHas ? 2 : 1);
    EXPECT_EQ(newer.virtual_device.devices[0], 1);
    EXPECT_EQ(newer.force_flush, kHas ? 1 : 0);
    EXPECT_EQ(newer.max_p2p_bytes, kHas ? 111u : 1u << 30);
    EXPECT_EQ(newer.max_coll_bytes, kHas ? 222u : 1u << 29);
  }
  if constexpr (requires { newer.max_multi_request_size; }) {
    constexpr bool kHas = requires {
      older.max_multi_request_size;
    };
    EXPECT_EQ(newer.max_multi_request_size, kHas ? 4 : 1);
  }
  if constexpr (requires { newer.rail; }) {
    constexpr bool kHas = requires {
      older.rail;
    };
    EXPECT_EQ(newer.rail, kHas ? 5 : -1);
    EXPECT_EQ(newer.plane, kHas ? 6 : -1);
  }
}

/// Our table of the one version does what the fake's of the other does.
template <typename Ours, typename Theirs>
void expect_same(void* fake) {
  EXPECT_EQ(call_everything<Ours>(plugin_library(), fake), call_everything<Theirs>(fake, fake))
      << "version " << NetTraits<Ours>::kVersion;
  typename NetTraits<Ours>::Properties ours{};
  typename NetTraits<Theirs>::Properties theirs{};
  EXPECT_EQ(NetDriver<Ours>::find(plugin_library())->get_properties(1, &ours), ncclSuccess);
  EXPECT_EQ(NetDriver<Theirs>::find(fake)->get_properties(1, &theirs), ncclSuccess);
  expect_dressed_properties(ours, theirs);
}

/// All of a table but init is, bit for bit, the next plugin's; where it merges devices, so that
/// CollNet can have part in that, but for two more.
template <typename Table>
void expect_identical(void* fake) {
  Table ours = *NetDriver<Table>::find(plugin_library());
  const Table theirs = *NetDriver<Table>::find(fake);
  EXPECT_NE(ours.init, theirs.init) << "NCCL's log goes through us";
  ours.init = theirs.init;
  if constexpr (requires { ours.make_virtual_device; }) {
    EXPECT_NE(ours.make_virtual_device, theirs.make_virtual_device);
    ours.make_virtual_device = theirs.make_virtual_device;
    ours.devices = theirs.devices;
  }
  EXPECT_EQ(std::memcmp(&ours, &theirs, sizeof ours), 0) << NetTraits<Table>::kVersion;
  expect_same<Table, Table>(fake);
}

template <typename Table>
void expect_refused() {
  NetDriver<Table> net(plugin_library());
  NetLog::take_warnings();
  EXPECT_EQ(net.init(), ncclInvalidUsage) << "version " << NetTraits<Table>::kVersion;
  EXPECT_EQ(net.finalize(), ncclSuccess) << "NCCL 2.28 and 2.29 call it even so";
  EXPECT_EQ(NetLog::take_warnings().size(), 1u);
}

void* load_with_next(const std::string& path) {
  setenv("RINGPRESS_NEXT_NET_PLUGIN", path.c_str(), 1);
  plugin_library();
  return fake_library(path);
}

TEST(PluginNextNet, IsTheNextPluginInEveryVersion) {
  in_child([] {
    void* const fake = load_with_next(fake_path(7, 12));
    expect_identical<abi::NetV7>(fake);
    expect_identical<abi::NetV8>(fake);
    expect_identical<abi::NetV9>(fake);
    expect_identical<abi::NetV10>(fake);
    expect_identical<abi::NetV11>(fake);
    expect_identical<abi::NetV12>(fake);
    EXPECT_TRUE(NetLog::contains("the network is that of Fake Net"));
  });
}

TEST(PluginNextNet, ShowsOldVersionsAsNewOnes) {
  in_child([] {
    void* const fake = load_with_next(fake_path(7, 7));
    expect_identical<abi::NetV7>(fake);
    expect_same<abi::NetV8, abi::NetV7>(fake);
    expect_same<abi::NetV9, abi::NetV7>(fake);
    expect_same<abi::NetV10, abi::NetV7>(fake);
    expect_same<abi::NetV11, abi::NetV7>(fake);
    expect_same<abi::NetV12, abi::NetV7>(fake);
  });
  in_child([] {
    void* const fake = load_with_next(fake_path(8, 9));
    expect_refused<abi::NetV7>();
    expect_identical<abi::NetV8>(fake);
    expect_identical<abi::NetV9>(fake);
    expect_same<abi::NetV10, abi::NetV9>(fake);
    expect_same<abi::NetV11, abi::NetV9>(fake);
    expect_same<abi::NetV12, abi::NetV9>(fake);
  });
  in_child([] {
    void* const fake = load_with_next(fake_path(10, 10));
    expect_identical<abi::NetV10>(fake);
    expect_same<abi::NetV11, abi::NetV10>(fake);
    expect_same<abi::NetV12, abi::NetV10>(fake);
  });
}

template <typename Properties, typename Table>
std::string name_of(const Table& table, int device) {
  Properties properties{};
  EXPECT_EQ(table.get_properties(device, &properties), ncclSuccess);
  return properties.name;
}

int count_of(const auto& table) {
  int count = -1;
  EXPECT_EQ(table.devices(&count), ncclSuccess);
  return count;
}

/// Its context, or null.
template <typename CollNet>
void* init_collnet(const CollNet& collnet) {
  void* ctx = nullptr;
  if constexpr (requires { collnet.finalize; }) {
    EXPECT_EQ(collnet.init(&ctx, 1, &NetLog::write), ncclSuccess);
  } else {
    EXPECT_EQ(collnet.init(&NetLog::write), ncclSuccess);
  }
  return ctx;
}

/// As NCCL goes about it: CollNet first, then the network, which may count its devices again.
template <typename Net, typename CollNet>
void expect_merged_alike(void* fake) {
  using Traits = NetTraits<Net>;
  using Properties = typename Traits::Properties;
  typename Traits::VirtualDevice both{2, {0, 1}};
  typename Traits::VirtualDevice reversed{2, {1, 0}};
  NetDriver<Net> net(plugin_library());
  EXPECT_EQ(net.init(), ncclSuccess);
  const std::string symbol = "ncclCollNetPlugin_v" + std::to_string(Traits::kVersion);
  auto& collnet = *static_cast<CollNet*>(dlsym(plugin_library(), symbol.c_str()));
  [[maybe_unused]] void* const ctx = init_collnet(collnet);
  EXPECT_EQ(count_of(collnet), 2);
  ASSERT_NE(collnet.make_virtual_device, nullptr);
  EXPECT_EQ(collnet.make_virtual_device(nullptr, &both), ncclInvalidArgument);
  take_calls(fake);
  int device = -1;
  EXPECT_EQ(collnet.make_virtual_device(&device, &both), ncclSuccess);
  EXPECT_EQ(device, 2);
  EXPECT_EQ(count_of(collnet), 3);
  Properties properties{};
  EXPECT_EQ(collnet.get_properties(2, &properties), ncclSuccess);
  EXPECT_EQ(properties.virtual_device.count, 2);
  EXPECT_EQ(properties.virtual_device.devices[0], 0);
  EXPECT_EQ(properties.virtual_device.devices[1], 1);

  EXPECT_EQ(count_of(net.table()), 2) << "NCCL 2.27 counts here what is not merged";
  device = -1;
  EXPECT_EQ(net.table().make_virtual_device(&device, &both), ncclSuccess);
  EXPECT_EQ(device, 2);
  EXPECT_EQ(count_of(net.table()), 3);
  const std::string calls = take_calls(fake);
  EXPECT_EQ(calls.find("make_virtual_device"), calls.rfind("make_virtual_device")) << calls;
  for (device = 0; device < 3; ++device) {
    EXPECT_EQ(name_of<Properties>(net.table(), device), name_of<Properties>(collnet, device));
  }
  // What only the network merges is only the network's.
  EXPECT_EQ(net.table().make_virtual_device(&device, &reversed), ncclSuccess);
  EXPECT_EQ(device, 3);
  EXPECT_EQ(count_of(net.table()), 4);
  EXPECT_EQ(count_of(collnet), 3);
  if constexpr (requires { collnet.finalize; }) {
    EXPECT_EQ(collnet.finalize(ctx), ncclSuccess);
  }
  EXPECT_EQ(net.finalize(), ncclSuccess);
}

TEST(PluginNextNet, MergesDevicesOnceForCollNetAndTheNetwork) {
  in_child(
      [] { expect_merged_alike<abi::NetV9, abi::CollNetV9>(load_with_next(fake_path(7, 12))); });
  in_child(
      [] { expect_merged_alike<abi::NetV12, abi::CollNetV12>(load_with_next(fake_path(7, 12))); });
  // Dressed.
  in_child(
      [] { expect_merged_alike<abi::NetV12, abi::CollNetV12>(load_with_next(fake_path(8, 9))); });
  in_child(
      [] { expect_merged_alike<abi::NetV11, abi::CollNetV11>(load_with_next(fake_path(10, 10))); });
}

// The network then sees what was made for CollNet too: an index stays an index.
TEST(PluginNextNet, AnotherMergeOfTheNetworkHasItsOwnIndex) {
  in_child([] {
    load_with_next(fake_path(7, 12));
    NetDriver<abi::NetV12> net(plugin_library());
    EXPECT_EQ(net.init(), ncclSuccess);
    auto& collnet =
        *static_cast<abi::CollNetV12*>(dlsym(plugin_library(), "ncclCollNetPlugin_v12"));
    abi::NetVirtualDeviceV12 both{2, {0, 1}};
    abi::NetVirtualDeviceV12 reversed{2, {1, 0}};
    int device = -1;
    EXPECT_EQ(collnet.make_virtual_device(&device, &both), ncclSuccess);
    EXPECT_EQ(count_of(net.table()), 2);
    EXPECT_EQ(net.table().make_virtual_device(&device, &reversed), ncclSuccess);
    EXPECT_EQ(device, 3);
    EXPECT_EQ(count_of(net.table()), 4);
    EXPECT_EQ(net.finalize(), ncclSuccess);
  });
}

TEST(PluginNextNet, CollNetMergesNothingWhereTheNextPluginDoesNot) {
  in_child([] {
    load_with_next(fake_path(7, 7));
    for (const char* symbol : {"ncclCollNetPlugin_v9", "ncclCollNetPlugin_v10"}) {
      EXPECT_EQ(static_cast<abi::CollNetV9*>(dlsym(plugin_library(), symbol))->make_virtual_device,
                nullptr);
    }
    auto& newest = *static_cast<abi::CollNetV12*>(dlsym(plugin_library(), "ncclCollNetPlugin_v12"));
    EXPECT_EQ(newest.make_virtual_device, nullptr);
  });
}

TEST(PluginNextNet, LeavesNcclItsOwnNetworksWhereItCouldNotUseTheNextPlugin) {
  in_child([] {
    void* const fake = load_with_next(fake_path(11, 11));
    expect_refused<abi::NetV7>();
    expect_refused<abi::NetV8>();
    expect_refused<abi::NetV9>();
    expect_refused<abi::NetV10>();
    expect_identical<abi::NetV11>(fake);
    expect_same<abi::NetV12, abi::NetV11>(fake);
  });
  in_child([] {
    load_with_next(fake_path(12, 12));
    expect_refused<abi::NetV11>();
  });
}

// NCCL 2.28.3 finalizes a context that those split off still connect with.
TEST(PluginNextNet, AContextThatIsGoneIsNotLookedAt) {
  in_child([] {
    load_with_next(fake_path(8, 9));
    NetDriver<abi::NetV12> net(plugin_library());
    NetDriver<abi::NetV12>::Handle handle{};
    void* comm = nullptr;
    EXPECT_EQ(net.init(), ncclSuccess);
    EXPECT_EQ(net.finalize(), ncclSuccess);
    EXPECT_EQ(net.connect(0, handle.data(), &comm), ncclSuccess);
    EXPECT_EQ(net.finalize(), ncclInvalidArgument);
    abi::NetVirtualDeviceV12 parts{};
    int device = 0;
    EXPECT_EQ(net.table().get_properties(0, nullptr), ncclInvalidArgument);
    EXPECT_EQ(net.table().make_virtual_device(&device, nullptr), ncclInvalidArgument);
    EXPECT_EQ(net.table().make_virtual_device(nullptr, &parts), ncclInvalidArgument);
    EXPECT_EQ(net.table().init(nullptr, 1, nullptr, NetLog::write, ignore_profiler),
              ncclInvalidArgument);
  });
}

TEST(PluginNextNet, InitialisesOldVersionsOnceAndRefusesWhatTheyCannotCount) {
  in_child([] {
    void* const fake = load_with_next(fake_path(8, 9));
    NetDriver<abi::NetV12> first(plugin_library());
    NetDriver<abi::NetV12> second(plugin_library());
    EXPECT_EQ(first.init(), ncclSuccess);
    EXPECT_EQ(second.init(), ncclSuccess);
    EXPECT_EQ(take_calls(fake), "init_v9\n");
    EXPECT_NE(first.context(), second.context());
    EXPECT_EQ(first.finalize(), ncclSuccess);
    EXPECT_EQ(second.finalize(), ncclSuccess);
    EXPECT_EQ(first.init(), ncclSuccess);
    EXPECT_EQ(take_calls(fake), "init_v9\n") << "again, after the last has gone";
    EXPECT_EQ(first.finalize(), ncclSuccess);
    abi::NetVirtualDeviceV12 parts{5, {0, 1, 2, 3, 4}};
    int device = -1;
    EXPECT_EQ(first.table().make_virtual_device(&device, &parts), ncclInvalidUsage);
  });
  in_child([] {
    void* const fake = load_with_next(fake_path(7, 7));
    NetDriver<abi::NetV12> net(plugin_library());
    EXPECT_EQ(net.init(), ncclSuccess);
    take_calls(fake);
    void* request = nullptr;
    EXPECT_EQ(net.isend(object(1), object(2), std::size_t{1} << 31, &request), ncclInvalidArgument);
    EXPECT_EQ(net.irecv(object(1), object(2), std::size_t{1} << 31, &request), ncclInvalidArgument);
    EXPECT_EQ(net.reg_mr(object(1), object(2), std::size_t{1} << 31, 1, &request),
              ncclInvalidArgument);
    EXPECT_EQ(take_calls(fake), "");
    EXPECT_EQ(net.finalize(), ncclSuccess);
  });
}

void expect_own_network(const std::string& next, const std::string& why) {
  in_child([&] {
    setenv("RINGPRESS_NEXT_NET_PLUGIN", next.c_str(), 1);
    NetDriver<abi::NetV12> net(plugin_library());
    EXPECT_STREQ(net.table().name, "ringpress");
    EXPECT_EQ(net.init(), ncclSuccess);
    EXPECT_EQ(net.init(), ncclSuccess);
    const std::vector<std::string> warnings = NetLog::take_warnings();
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("RINGPRESS_NEXT_NET_PLUGIN=" + next), std::string::npos);
    EXPECT_NE(warnings[0].find(why), std::string::npos) << warnings[0];
    close_pair(net, make_pair(net));
  });
}

TEST(PluginNextNet, FallsBackToItsOwnTcpWithOneLine) {
  expect_own_network("/nowhere/libnccl-net-x.so", "No such file");
  expect_own_network("nowhere", "libnccl-net-nowhere.so");
  expect_own_network("libm.so.6", "no network table");
  expect_own_network(RINGPRESS_PLUGIN, "it is ringpress itself");
}

TEST(PluginNextNet, FindsAPluginByItsShortName) {
  const char* folders = std::getenv("LD_LIBRARY_PATH");
  ASSERT_TRUE(folders != nullptr && std::string(folders).find(FAKE_NET_FOLDER) != std::string::npos)
      << "needs LD_LIBRARY_PATH=" FAKE_NET_FOLDER;
  in_child([] {
    setenv("RINGPRESS_NEXT_NET_PLUGIN", "fake7to12", 1);
    EXPECT_STREQ(NetDriver<abi::NetV12>(plugin_library()).table().name, "Fake Net");
  });
}

template <typename Table>
void expect_traffic() {
  NetDriver<Table> net(plugin_library());
  EXPECT_EQ(net.init(), ncclSuccess);
  const NetPair pair = make_pair(net);
  std::vector<char> message = random_message(100000, 1);
  std::vector<char> memory(message.size());
  void* send = nullptr;
  void* receive = nullptr;
  EXPECT_EQ(net.irecv(pair.receive, memory.data(), memory.size(), &receive), ncclSuccess);
  EXPECT_EQ(net.isend(pair.send, message.data(), message.size(), &send), ncclSuccess);
  std::thread sender([&] { finish(net, send); });
  EXPECT_EQ(finish(net, receive), 100000);
  sender.join();
  EXPECT_TRUE(memory == message);
  close_pair(net, pair);
  EXPECT_EQ(net.finalize(), ncclSuccess);
}

// A copy of the library is another library to the system: a next plugin that really carries bytes.
TEST(PluginNextNet, CarriesMessagesThroughTheNextPlugin) {
  const std::string copy =
      ::testing::TempDir() + "/libnccl-net-copy" + std::to_string(getpid()) + ".so";
  std::filesystem::copy_file(RINGPRESS_PLUGIN, copy);
  in_child([&] {
    setenv("RINGPRESS_NEXT_NET_PLUGIN", copy.c_str(), 1);
    plugin_library();
    EXPECT_NE(NetDriver<abi::NetV7>::find(plugin_library())->init,
              NetDriver<abi::NetV7>::find(fake_library(copy))->init);
    EXPECT_EQ(NetDriver<abi::NetV7>::find(plugin_library())->isend,
              NetDriver<abi::NetV7>::find(fake_library(copy))->isend);
    expect_traffic<abi::NetV7>();
    expect_traffic<abi::NetV12>();
  });
  std::filesystem::remove(copy);
}

}  // namespace
}  // namespace ringpress::testing
