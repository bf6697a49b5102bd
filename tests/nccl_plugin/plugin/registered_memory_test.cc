// Memory that NCCL registers with a connection of the plugin's network.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/net_pairs.h"

namespace ringpress::testing {
namespace {

template <typename Table>
class PluginMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(net_.init(), ncclSuccess);
    pair_ = make_pair(net_);
    ASSERT_EQ(net_.reg_mr(pair_.send, memory_.data(), 1000, abi::kPointerHost, &sent_),
              ncclSuccess);
    ASSERT_EQ(net_.reg_mr(pair_.receive, received_.data(), 1000, abi::kPointerHost, &receives_),
              ncclSuccess);
    NetLog::take_warnings();
  }
  void TearDown() override {
    close_pair(net_, pair_);
    EXPECT_EQ(net_.finalize(), ncclSuccess);
  }

  void expect_refused(ncclResult_t result, const std::string& why) {
    EXPECT_EQ(result, ncclInvalidArgument) << why;
    const std::vector<std::string> warnings = NetLog::take_warnings();
    ASSERT_EQ(warnings.size(), 1u) << why;
    EXPECT_NE(warnings[0].find(why), std::string::npos) << warnings[0];
  }

  ncclResult_t send(char* data, std::size_t bytes, void* mhandle) {
    return net_.isend(pair_.send, data, bytes, &request_, 5, mhandle);
  }
  ncclResult_t receive(char* data, std::size_t bytes, void* mhandle) {
    return net_.irecv(pair_.receive, data, bytes, &request_, 1, 5, mhandle);
  }

  NetDriver<Table> net_{plugin_library()};
  NetPair pair_;
  std::vector<char> memory_ = random_message(1002, 1);  // Two bytes more than are registered.
  std::vector<char> received_ = std::vector<char>(1002);
  void* sent_ = nullptr;
  void* receives_ = nullptr;
  void* request_ = nullptr;
};

using MemoryTables =
    ::testing::Types<abi::NetV7, abi::NetV8, abi::NetV9, abi::NetV10, abi::NetV11, abi::NetV12>;
TYPED_TEST_SUITE(PluginMemory, MemoryTables);

TYPED_TEST(PluginMemory, CarriesWhatLiesInIt) {
  // A handle is good with every connection, as the properties promise.
  for (const auto& [from, into] : {std::pair(this->sent_, this->receives_), {nullptr, nullptr}}) {
    for (const std::size_t first : {0, 1, 999, 1000}) {
      void* receive = nullptr;
      ASSERT_EQ(this->receive(&this->received_[first], 1000 - first, into), ncclSuccess) << first;
      receive = this->request_;
      ASSERT_EQ(this->send(&this->memory_[first], 1000 - first, from), ncclSuccess) << first;
      finish(this->net_, this->request_);
      EXPECT_EQ(finish(this->net_, receive), static_cast<int>(1000 - first));
    }
  }
  EXPECT_TRUE(
      std::equal(this->memory_.begin(), this->memory_.begin() + 1000, this->received_.begin()));
  NetDriver<TypeParam> other(plugin_library());
  ASSERT_EQ(other.init(), ncclSuccess);
  const NetPair pair = make_pair(other);
  void* request = nullptr;
  EXPECT_EQ(other.isend(pair.send, this->memory_.data(), 1000, &request, 5, this->sent_),
            ncclSuccess);
  close_pair(other, pair);
  EXPECT_EQ(other.finalize(), ncclSuccess);
}

TYPED_TEST(PluginMemory, RefusesWhatLiesOutsideOfIt) {
  const char* const outside = "not all in the 1000 bytes";
  char* const memory = this->memory_.data();
  this->expect_refused(this->send(memory, 1001, this->sent_), outside);
  this->expect_refused(this->send(memory + 1, 1000, this->sent_), outside);
  this->expect_refused(this->send(memory + 1000, 1, this->sent_), outside);
  this->expect_refused(this->send(memory - 1, 1, this->sent_), outside);
  this->expect_refused(this->receive(memory, 1, this->receives_), outside);
  this->expect_refused(this->receive(this->received_.data() + 1, 1000, this->receives_), outside);
  int size = 1001;
  void* data = this->received_.data();
  void* flush = nullptr;
  auto& table = this->net_.table();
  this->expect_refused(table.iflush(this->pair_.receive, 1, &data, &size, &this->receives_, &flush),
                       outside);
  size = 1000;
  EXPECT_EQ(table.iflush(this->pair_.receive, 1, &data, &size, &this->receives_, &flush),
            ncclSuccess);
  EXPECT_EQ(flush, nullptr);
}

TYPED_TEST(PluginMemory, RefusesHandlesOfNothing) {
  auto& table = this->net_.table();
  char* const memory = this->memory_.data();
  void* const unknown = reinterpret_cast<void*>(std::uintptr_t{0x1000});
  for (void* const wrong : {unknown, static_cast<void*>(memory), this->pair_.send}) {
    this->expect_refused(this->send(memory, 1, wrong), "not a memory handle");
    this->expect_refused(this->receive(memory, 1, wrong), "not a memory handle");
    this->expect_refused(table.dereg_mr(this->pair_.send, wrong), "not a memory handle");
  }
  this->expect_refused(table.dereg_mr(this->pair_.receive, this->sent_),
                       "registered with another communicator");
  // The same memory twice is two handles: one goes, the other stays.
  void* again = nullptr;
  ASSERT_EQ(this->net_.reg_mr(this->pair_.send, memory, 1000, abi::kPointerHost, &again),
            ncclSuccess);
  EXPECT_NE(again, this->sent_);
  EXPECT_EQ(table.dereg_mr(this->pair_.send, this->sent_), ncclSuccess);
  this->expect_refused(table.dereg_mr(this->pair_.send, this->sent_), "nothing has this handle");
  this->expect_refused(this->send(memory, 1, this->sent_), "nothing has this handle");
  EXPECT_EQ(this->send(memory, 1000, again), ncclSuccess);
  EXPECT_EQ(table.dereg_mr(this->pair_.send, nullptr), ncclSuccess);  // Never was registered.
}

TYPED_TEST(PluginMemory, MayBeRegisteredByThreadsAtOnce) {
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      std::vector<void*> mhandles(50);
      for (int round = 0; round < 20; ++round) {
        for (void*& mhandle : mhandles) {
          refused += this->net_.reg_mr(this->pair_.send, this->memory_.data(), 1000,
                                       abi::kPointerHost, &mhandle) != ncclSuccess;
        }
        for (void* const mhandle : mhandles) {
          refused += this->net_.table().dereg_mr(this->pair_.send, mhandle) != ncclSuccess;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(this->send(this->memory_.data(), 1000, this->sent_), ncclSuccess);
}

TYPED_TEST(PluginMemory, RefusesToRegisterWhatIsNoMemory) {
  void* mhandle = nullptr;
  const auto registered = [&](void* data, std::size_t bytes) {
    return this->net_.reg_mr(this->pair_.send, data, bytes, abi::kPointerHost, &mhandle);
  };
  this->expect_refused(registered(nullptr, 4), "the memory is null");
  this->expect_refused(registered(this->memory_.data(), ~std::size_t{0}), "no memory is so large");
  EXPECT_EQ(mhandle, nullptr);
}

TYPED_TEST(PluginMemory, FlushesOnlyWhatIsAReceiver) {
  auto& table = this->net_.table();
  void* data = this->received_.data();
  int size = 1000;
  void* flush = nullptr;
  void* const unknown = reinterpret_cast<void*>(std::uintptr_t{0x1000});
  void** const none = nullptr;
  for (void* const wrong : {unknown, this->pair_.send}) {
    this->expect_refused(table.iflush(wrong, 1, &data, &size, none, &flush), "not a receiving");
  }
  void* const receiver = this->pair_.receive;
  this->expect_refused(table.iflush(nullptr, 1, &data, &size, none, &flush), "is null");
  this->expect_refused(table.iflush(receiver, 2, &data, &size, none, &flush), "one is possible");
  this->expect_refused(table.iflush(receiver, 1, nullptr, &size, none, &flush), "is null");
  this->expect_refused(table.iflush(receiver, 1, &data, nullptr, none, &flush), "is null");
  this->expect_refused(table.iflush(receiver, 1, &data, &size, none, nullptr), "is null");
  size = -1;
  this->expect_refused(table.iflush(receiver, 1, &data, &size, none, &flush), "less than no bytes");
}

}  // namespace
}  // namespace ringpress::testing
