// A program that has NCCL encrypt what it sends: nothing of it goes over the plugin's connections,
// where the preloaded library says so.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "nccl_plugin/abi/net_v12.h"
#include "ringpress/nccl.h"
#include "tests/support/collnet_api.h"

namespace ringpress::testing {
namespace {

using SetEncryption = decltype(ncclSetEncryption)*;

SetEncryption set_encryption_of(const char* shim, int scope) {
  void* const library = dlopen(shim, RTLD_NOW | scope);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<SetEncryption>(dlsym(library, "ncclSetEncryption"));
}

ncclEncryptionConfig_t with_key() {
  ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  config.mode = NCCL_ENCRYPTION_MODE_PSK;
  config.psk = "a key for tests, of at least 32 bytes";
  return config;
}

/// NCCL's two networks of this library, as they are at first.
class Networks {
 public:
  Networks() {
    EXPECT_EQ(net_.init(&ctx_, 1, &config_, nullptr, nullptr), ncclSuccess);
    EXPECT_EQ(collnet_.init(&collnet_ctx_, 1, nullptr), ncclSuccess);
  }
  ~Networks() {
    EXPECT_EQ(collnet_.finalize(collnet_ctx_), ncclSuccess);
    EXPECT_EQ(net_.finalize(ctx_), ncclSuccess);
  }
  Networks(const Networks&) = delete;
  Networks& operator=(const Networks&) = delete;

  int devices() const {
    int count = -1, of_collnet = -1;
    EXPECT_EQ(net_.devices(&count), ncclSuccess);
    EXPECT_EQ(collnet_.devices(&of_collnet), ncclSuccess);
    EXPECT_EQ(count, of_collnet);
    return count;
  }
  bool listens() const {
    std::array<char, abi::kHandleBytes> handle{};
    void* listener = nullptr;
    const ncclResult_t result = net_.listen(ctx_, 0, handle.data(), &listener);
    EXPECT_EQ(result == ncclSuccess, listener != nullptr);
    if (listener != nullptr) {
      EXPECT_EQ(net_.close_listen(listener), ncclSuccess);
    }
    return result == ncclSuccess;
  }
  /// A handle of zeros keeps CollNet from all nodes.
  bool collnet_takes_part() const {
    std::array<char, abi::kHandleBytes> handle{};
    void* listener = nullptr;
    EXPECT_EQ(collnet_.listen(collnet_ctx_, 0, handle.data(), &listener), ncclSuccess);
    EXPECT_EQ(collnet_.close_listen(listener), ncclSuccess);
    return std::any_of(handle.begin(), handle.end(), [](char byte) { return byte != 0; });
  }
  bool is_left() const {
    const bool is_left = devices() == 0;
    EXPECT_NE(listens(), is_left);
    EXPECT_NE(collnet_takes_part(), is_left);
    return is_left;
  }

 private:
  void* const library_ = open_plugin(RINGPRESS_PLUGIN);
  const abi::NetV12& net_ = plugin_table<abi::NetV12>(library_, "ncclNetPlugin_v12");
  const abi::CollNetV12& collnet_ =
      plugin_table<abi::CollNetV12>(library_, "ncclCollNetPlugin_v12");
  abi::NetCommConfigV12 config_{};
  void* ctx_ = nullptr;
  void* collnet_ctx_ = nullptr;
};

/// Whatever NCCL takes holds; what it refuses changes nothing.
void expect_heard(const Networks& networks, SetEncryption set_encryption) {
  ASSERT_NE(set_encryption, nullptr);
  EXPECT_FALSE(networks.is_left());
  ncclEncryptionConfig_t config = with_key();
  EXPECT_EQ(set_encryption(&config), ncclSuccess);
  EXPECT_TRUE(networks.is_left());
  ncclEncryptionConfig_t none = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  none.magic = 1;
  EXPECT_NE(set_encryption(&none), ncclSuccess);
  EXPECT_TRUE(networks.is_left());
  none.magic = NCCL_API_MAGIC;
  EXPECT_EQ(set_encryption(&none), ncclSuccess);
  EXPECT_FALSE(networks.is_left());
  config.magic = 1;
  EXPECT_NE(set_encryption(&config), ncclSuccess);
  EXPECT_FALSE(networks.is_left());
  config.magic = NCCL_API_MAGIC;
  EXPECT_EQ(set_encryption(&config), ncclSuccess);
  EXPECT_EQ(set_encryption(nullptr), ncclSuccess);
  EXPECT_FALSE(networks.is_left());
  // An earlier version's structure, which had no mode yet.
  config.size = offsetof(ncclEncryptionConfig_t, mode);
  EXPECT_EQ(set_encryption(&config), ncclSuccess);
  EXPECT_FALSE(networks.is_left());
}

TEST(PluginEncryption, WhatTheProgramAsksNcclForLeavesTheNetworkToNccl) {
  setenv("RINGPRESS_REAL_NCCL", ENCRYPTING_NCCL, 1);
  const Networks networks;
  EXPECT_FALSE(networks.is_left());
  expect_heard(networks, set_encryption_of(SHIM_AS_NCCL, RTLD_LOCAL));
  expect_heard(networks, set_encryption_of(SHIM, RTLD_GLOBAL));  // As if it were preloaded.
}

TEST(PluginEncryption, WhereThisLibraryEncryptsItStays) {
  setenv("RINGPRESS_REAL_NCCL", ENCRYPTING_NCCL, 1);
  setenv("RINGPRESS_ENCRYPT", "on", 1);
  const Networks networks;
  const SetEncryption set_encryption = set_encryption_of(SHIM, RTLD_GLOBAL);
  ncclEncryptionConfig_t config = with_key();
  EXPECT_EQ(set_encryption(&config), ncclSuccess);
  EXPECT_FALSE(networks.is_left());
}

}  // namespace
}  // namespace ringpress::testing
