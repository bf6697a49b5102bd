// RINGPRESS_LAZY where tensors of one shape come in changing orders, buffers and memory: what one
// has added up is never sent as another's.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nccl_plugin/session/lazy/lazy_calls.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kTensors = 8;

/// One rank's calls; the others vote as it does. Each tensor's gradients are 1 at the element that
/// has its number, and 0 elsewhere.
class OrderedCalls {
 public:
  explicit OrderedCalls(const std::string& most_calls = "50", const std::string& threshold = "1000",
                        const std::string& most_bytes = "0")
      : settings_(parse_settings({{"RINGPRESS_CODEC", "none"},
                                  {"RINGPRESS_LAZY", threshold},
                                  {"RINGPRESS_LAZY_CALLS", most_calls},
                                  {"RINGPRESS_MIN_BYTES", "4"},
                                  {"RINGPRESS_EF_MAX_BYTES", most_bytes}},
                                 nullptr)),
        lazy_(settings_, host_lazy_memory(), 0, 2) {}

  /// `spare`: elements beyond those that tell tensors apart, for another shape.
  void call(std::size_t tensor, std::uintptr_t address, std::size_t spare = 0) {
    std::vector<float> values(kTensors + spare), sent(kTensors + spare);
    values[tensor] = 1;
    const TensorCall call{CollectiveKind::kAllReduce, values.size(), DType::kFloat32,
                          ReduceOp::kSum, reinterpret_cast<const void*>(address)};
    const LazyVote vote = lazy_.vote(call, values.data()).value();
    const LazyCalls::Decision decision = lazy_.follow(vote).value();
    if (decision.is_put_off) return;
    if (decision.has_sum) {
      ASSERT_TRUE(lazy_.write_sum(sent.data()).is_ok());
    } else {
      sent = values;
    }
    ASSERT_TRUE(lazy_.conclude(vote).is_ok());
    for (std::size_t other = 0; other < kTensors; ++other) {
      if (other != tensor) foreign_ += sent[other];
    }
    own_[tensor] += sent[tensor];
  }
  void flush() { lazy_.flush(); }

  /// Gradients that were sent as another tensor's.
  float foreign() const { return foreign_; }
  float sent_of(std::size_t tensor) const { return own_.at(tensor); }
  const LazyCalls& lazy() const { return lazy_; }

 private:
  const Settings settings_;
  LazyCalls lazy_;
  std::map<std::size_t, float> own_;
  float foreign_ = 0;
};

std::uintptr_t own_buffer(std::size_t tensor) {
  return 0x1000 * (tensor + 1);
}

/// Three of one shape in that order, and one of another.
void step_in_order(OrderedCalls* calls, const std::vector<std::size_t>& order) {
  for (const std::size_t tensor : order) calls->call(tensor, own_buffer(tensor));
  calls->call(3, own_buffer(3), 5);
}

TEST(LazyOrders, AThirdOrderMixesNothing) {
  const std::vector<std::vector<std::size_t>> orders = {{0, 1, 2}, {2, 1, 0}, {2, 0, 1},
                                                        {1, 2, 0}, {0, 2, 1}, {1, 0, 2}};
  for (const auto& second : orders) {
    for (const auto& third : orders) {
      OrderedCalls calls;
      for (int step = 0; step < 4; ++step) step_in_order(&calls, orders[0]);
      for (int step = 0; step < 5; ++step) step_in_order(&calls, second);
      for (int step = 0; step < 5; ++step) step_in_order(&calls, third);
      for (int step = 0; step < 5; ++step) step_in_order(&calls, second);
      EXPECT_EQ(calls.foreign(), 0) << second[0] << second[1] << ", " << third[0] << third[1];
    }
  }
}

TEST(LazyOrders, OneBufferOfSeveralTensorsIsNotPutOff) {
  OrderedCalls calls;
  constexpr int kSteps = 40;
  float at_first = 0;  // While calls of one buffer still look like one tensor's.
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t tensor = 0; tensor < 3; ++tensor) calls.call(tensor, own_buffer(0));
    calls.call(3, own_buffer(3), 5);
    if (step == 3) at_first = calls.foreign();
  }
  EXPECT_EQ(calls.foreign(), at_first);
  for (std::size_t tensor = 0; tensor < 3; ++tensor) EXPECT_GE(calls.sent_of(tensor), kSteps - 3);
}

TEST(LazyOrders, WithoutALastingOrderWhatIsPutOffIsGivenUp) {
  OrderedCalls calls("5");
  std::uintptr_t fresh = 0x100000;
  ::testing::internal::CaptureStderr();
  for (int step = 0; step < 40; ++step) {
    for (std::size_t tensor = 0; tensor < 3; ++tensor) {
      calls.call(tensor, step < 11 ? own_buffer(tensor) : fresh += 0x1000);
    }
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("gives up gradients of 8 elements"), std::string::npos) << log;
  EXPECT_EQ(calls.lazy().bytes(), 0u);
  EXPECT_GT(calls.lazy().count_unsent().tensors, 0u);
  EXPECT_EQ(calls.foreign(), 0);
}

/// Also with one that no sum was kept of.
TEST(LazyOrders, WhereMemoryIsShortAnotherOrderMixesNothing) {
  for (const std::vector<std::size_t>& second :
       {std::vector<std::size_t>{1, 0, 2}, {2, 0, 1}, {2, 1, 0}}) {
    // Of the one of another shape, and of the first.
    OrderedCalls calls("50", "1000", std::to_string((kTensors + 5 + kTensors) * sizeof(float)));
    for (int step = 0; step < 6; ++step) step_in_order(&calls, {0, 1, 2});
    for (int step = 0; step < 5; ++step) step_in_order(&calls, second);
    EXPECT_EQ(calls.foreign(), 0) << second[0] << second[1];
  }
}

/// The order has been seen to change: a place says no more of what has been put off there.
TEST(LazyOrders, ANewOrderThatMovesLaterMixesNothing) {
  for (const int steps_between : {1, 2, 5, 20}) {
    OrderedCalls calls;
    for (int step = 0; step < 6; ++step) step_in_order(&calls, {0, 1, 2});
    for (int step = 0; step < steps_between; ++step) step_in_order(&calls, {1, 0, 2});
    for (int step = 0; step < 5; ++step) {
      for (const std::size_t tensor : {1, 0, 2}) calls.call(tensor, own_buffer(tensor + kTensors));
      calls.call(3, own_buffer(3 + kTensors), 5);
    }
    EXPECT_EQ(calls.foreign(), 0) << steps_between;
  }
}

/// A step in another order, once: what was put off is sent when the order is back.
TEST(LazyOrders, AfterAStepInAnotherOrderAllIsSent) {
  OrderedCalls calls("15");
  constexpr int kSteps = 60;
  for (int step = 0; step < kSteps; ++step) {
    step_in_order(
        &calls, step == 5 ? std::vector<std::size_t>{1, 0, 2} : std::vector<std::size_t>{0, 1, 2});
  }
  calls.flush();
  step_in_order(&calls, {0, 1, 2});
  EXPECT_EQ(calls.foreign(), 0);
  for (std::size_t tensor = 0; tensor < 3; ++tensor) EXPECT_EQ(calls.sent_of(tensor), kSteps + 1);
}

/// Two tensors of one buffer, which are not put off, and one that is.
TEST(LazyOrders, ASharedBufferTakesNoPutOffTensorsSum) {
  OrderedCalls calls;
  float at_first = 0;
  for (int step = 0; step < 8; ++step) {
    calls.call(0, own_buffer(0));
    calls.call(1, own_buffer(1));
    calls.call(2, own_buffer(1));
    calls.call(3, own_buffer(3), 5);
    at_first = calls.foreign();
  }
  for (int step = 0; step < 5; ++step) {
    calls.call(1, own_buffer(1));
    calls.call(0, own_buffer(0));
    calls.call(2, own_buffer(1));
    calls.call(3, own_buffer(3), 5);
  }
  EXPECT_EQ(calls.foreign(), at_first);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
