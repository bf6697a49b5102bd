// The handles that NCCL is given.
#include "nccl_plugin/plugin/object.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace ringpress::nccl_plugin::plugin {
namespace {

struct Context : Object {
  static constexpr ObjectKind kKind = ObjectKind::kNetContext;
  Context() : Object(kKind) {}
};
struct Listener : Object {
  static constexpr ObjectKind kKind = ObjectKind::kNetListener;
  Listener() : Object(kKind) {}
};

TEST(PluginObject, IsFoundByItsHandleAndKindUntilItGoes) {
  auto context = std::make_unique<Context>();
  void* const handle = context->handle();
  EXPECT_NE(handle, nullptr);
  EXPECT_EQ(object_of(handle), context.get());
  EXPECT_EQ(object_as<Context>(handle), context.get());
  EXPECT_EQ(find_object<Context>(handle).value(), context.get());
  EXPECT_EQ(object_as<Listener>(handle), nullptr);
  EXPECT_EQ(find_object<Listener>(handle).status().message(), "not a listening communicator");
  context.reset();
  EXPECT_EQ(object_of(handle), nullptr);
  EXPECT_EQ(find_object<Context>(handle).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(find_object<Context>(handle).status().message(),
            "not a context of the network: nothing has this handle");
  EXPECT_EQ(find_object<Context>(nullptr).status().message(), "the context of the network is null");
}

// Neither the numbers around a handle nor addresses are handles.
TEST(PluginObject, NothingElseIsAHandle) {
  const Context context;
  const auto number = reinterpret_cast<std::uintptr_t>(context.handle());
  for (unsigned bit = 0; bit < 64; ++bit) {
    const auto* const other = reinterpret_cast<void*>(number ^ (std::uintptr_t{1} << bit));
    EXPECT_EQ(object_as<Context>(other), nullptr) << bit;
  }
  for (const std::uintptr_t other : {std::uintptr_t{1}, std::uintptr_t{0x1000}, ~std::uintptr_t{0},
                                     reinterpret_cast<std::uintptr_t>(&context)}) {
    EXPECT_EQ(object_of(reinterpret_cast<void*>(other)), nullptr) << other;
  }
}

TEST(PluginObject, AHandleIsNeverThatOfAnEarlierOne) {
  std::set<void*> all;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(all.insert(Context().handle()).second);
  std::vector<std::unique_ptr<Context>> many(5000);
  for (auto& one : many) one = std::make_unique<Context>();
  for (const auto& one : many) {
    EXPECT_TRUE(all.insert(one->handle()).second);
    EXPECT_EQ(object_as<Context>(one->handle()), one.get());
  }
}

TEST(PluginObject, ThreadsLookThemUpWhileOthersComeAndGo) {
  const Context kept;
  void* const gone = Context().handle();
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!is_over) {
        ASSERT_EQ(object_as<Context>(kept.handle()), &kept);
        ASSERT_EQ(object_as<Context>(gone), nullptr);
      }
    });
  }
  for (int round = 0; round < 100; ++round) {
    std::vector<std::unique_ptr<Listener>> more(200);
    for (auto& one : more) one = std::make_unique<Listener>();
    for (auto& one : more) ASSERT_EQ(object_as<Listener>(one->handle()), one.get());
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin
