// The device list that the network and CollNet share.
#include "nccl_plugin/plugin/device.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "nccl_plugin/plugin/collnet.h"
#include "nccl_plugin/plugin/interfaces.h"
#include "nccl_plugin/plugin/net_tables.h"
#include "nccl_plugin/plugin/next_net.h"
#include "nccl_plugin/plugin/report.h"
#include "ringpress/internal/settings.h"
#include "tests/support/in_child.h"
#include "tests/support/net_driver.h"

namespace ringpress::testing {
namespace {

using namespace nccl_plugin::plugin;

TEST(PluginDevice, IsTheInterfaceThatWasAskedFor) {
  in_child([] {
    setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
    ASSERT_EQ(devices().size(), 1u);
    EXPECT_EQ(devices()[0].name, "lo");
    EXPECT_GE(devices()[0].speed_mbps, 10000);
    EXPECT_TRUE(device_at(0).is_ok());
    EXPECT_EQ(device_at(1).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(device_at(-1).status().code(), Code::kInvalidArgument);
  });
}

TEST(PluginDevice, HasAnAddressOfTheFamilyThatWasAskedFor) {
  in_child([] {
    setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
    setenv("NCCL_SOCKET_FAMILY", "AF_INET", 1);
    EXPECT_EQ(devices().size(), 1u);
  });
}

TEST(PluginDevice, TheOwnVariableDecidesBeforeThatOfNccl) {
  const AddressChoice own =
      parse_settings({{"RINGPRESS_SOCKET_IFNAME", "nosuch0"}, {"NCCL_SOCKET_IFNAME", "lo"}},
                     nullptr)
          .address;
  const Status refused = choose_interfaces(own).status();
  EXPECT_TRUE(refused.message().starts_with("RINGPRESS_SOCKET_IFNAME=nosuch0 matches no"))
      << refused.message();
  const AddressChoice of_nccl =
      parse_settings({{"RINGPRESS_SOCKET_IFNAME", ""}, {"NCCL_SOCKET_IFNAME", "=lo"}}, nullptr)
          .address;
  EXPECT_EQ(choose_interfaces(of_nccl).value(), std::vector<std::string>{"lo"});
  EXPECT_FALSE(choose_interfaces({}).value().empty());
}

/// NCCL fails in several ways where only some nodes have a device; it is the tuner that refuses.
TEST(PluginDevice, ANameThatMatchesNothingLeavesTheUsualDevices) {
  in_child([] {
    setenv("RINGPRESS_SOCKET_IFNAME", "nosuch0", 1);
    set_logger(&NetLog::write);
    EXPECT_EQ(devices().size(), choose_interfaces({}).value().size());
    EXPECT_TRUE(
        NetLog::contains("RINGPRESS_SOCKET_IFNAME=nosuch0 matches no network interface; "
                         "there are: "));
  });
}

/// So CollNet, where NCCL has asked no tuner: all nodes hear of a handle that is none.
TEST(PluginDevice, CollNetDoesNotListenOnAnotherInterface) {
  in_child([] {
    setenv("RINGPRESS_SOCKET_IFNAME", "nosuch0", 1);
    ASSERT_TRUE(collnet_init(&NetLog::write).is_ok());
    std::array<char, abi::kHandleBytes> handle;
    handle.fill('x');
    void* listener = nullptr;
    ASSERT_TRUE(collnet_listen(nullptr, 0, handle.data(), &listener).is_ok());
    EXPECT_EQ(handle, (std::array<char, abi::kHandleBytes>{}));
    EXPECT_TRUE(NetLog::contains("listen: RINGPRESS_SOCKET_IFNAME=nosuch0 matches no"));
    EXPECT_TRUE(collnet_close_listen(listener).is_ok());
  });
}

TEST(PluginDevice, CollNetHasNoneBeforeItsInit) {
  in_child([] {
    setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
    int count = -1;
    EXPECT_EQ(collnet_devices(&count).code(), Code::kInvalidUsage);
    EXPECT_EQ(count, -1);
    ASSERT_TRUE(collnet_init(&NetLog::write).is_ok());
    EXPECT_TRUE(collnet_devices(&count).is_ok());
    EXPECT_EQ(count, 1);
  });
}

TEST(PluginDevice, IsTheNextPluginsOnceThatIsInitialised) {
  in_child([] {
    unsetenv("RINGPRESS_NEXT_NET_PLUGIN");
    adopt_next_net();
    EXPECT_FALSE(has_next_net());
    EXPECT_TRUE(next_net_status().is_ok());
    setenv("RINGPRESS_NEXT_NET_PLUGIN", FAKE_NET, 1);
    adopt_next_net();
    adopt_next_net();
    EXPECT_TRUE(has_next_net()) << next_net_status().message();
    EXPECT_TRUE(devices().empty());
    ASSERT_EQ(ncclNetPlugin_v9.init(nullptr), ncclSuccess);
    ASSERT_EQ(devices().size(), 2u);
    EXPECT_EQ(devices()[0].name, "fake0");
    EXPECT_EQ(devices()[0].pci_path, "/sys/fake");
    EXPECT_EQ(devices()[0].guid, 100u);
    EXPECT_EQ(devices()[0].speed_mbps, 400000);
    EXPECT_EQ(devices()[1].name, "fake1");
    EXPECT_EQ(devices()[1].pci_path, "");
    EXPECT_EQ(devices()[1].guid, 101u);
    EXPECT_EQ(devices()[1].speed_mbps, 400001);
  });
}

}  // namespace
}  // namespace ringpress::testing
