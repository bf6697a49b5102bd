// What is kept of tensors that the program names.
#include "nccl_plugin/session/calls/tensor_names.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "nccl_plugin/session/calls/error_feedback.h"

namespace ringpress::nccl_plugin {
namespace {

TensorCall call_at(std::size_t count, std::uintptr_t address) {
  TensorCall call;
  call.count = count;
  call.address = reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
  return call;
}

constexpr TensorName key(std::uint64_t number) {
  return {number, 0};
}
constexpr TensorName tag(std::uint64_t number) {
  return {0, number};
}

TEST(TensorNames, AKeyIsEnough) {
  ErrorFeedback feedback(0);
  float* const first = feedback.find(call_at(10, 64), {}, key(1)).residual;
  ASSERT_NE(first, nullptr);
  first[9] = 5;
  float* const second = feedback.find(call_at(10, 64), {}, key(2)).residual;
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first);
  EXPECT_EQ(second[9], 0);
  EXPECT_EQ(feedback.find(call_at(10, 128), {}, key(1)).residual, first);
  // Of another size it is another tensor; so is what a tag of the same number names.
  EXPECT_NE(feedback.find(call_at(11, 128), {}, key(1)).residual, nullptr);
  EXPECT_EQ(feedback.find(call_at(10, 128), {}, key(1)).residual, first);
  EXPECT_EQ(feedback.find(call_at(10, 128), {}, tag(1)).residual, nullptr);
  EXPECT_NE(feedback.find(call_at(10, 128), {}, tag(1)).residual, first);
}

/// The sequence of the others does not know of them.
TEST(TensorNames, CallsWithAKeyAreInNoSequence) {
  ErrorFeedback with(0), without(0);
  ErrorFeedback* const both[] = {&with, &without};
  std::mt19937 engine(1);
  for (int step = 0; step < 6; ++step) {
    for (std::uintptr_t at = 1; at <= 3; ++at) {
      std::vector<bool> has;
      for (ErrorFeedback* const one : both) {
        has.push_back(one->find(call_at(at, 4096 * at)).residual != nullptr);
      }
      EXPECT_EQ(has[0], has[1]) << step;
      EXPECT_EQ(has[0], step > 0 && (step > 1 || at == 3)) << step << " " << at;
      if (engine() % 2 == 0) static_cast<void>(with.find(call_at(7, 4096), {}, key(9)));
      if (engine() % 2 == 0) with.pass(call_at(8, 4096), key(9));
    }
  }
}

TEST(TensorNames, ATagIsBelievedUntilTwoTensorsHaveIt) {
  ErrorFeedback feedback(0);
  // A number of the call, which never comes again, changes nothing.
  for (std::uint64_t number = 1; number < 40; ++number) {
    const bool has = feedback.find(call_at(5, 64), {}, tag(number)).residual != nullptr;
    EXPECT_EQ(has, number > 1);
  }
  EXPECT_EQ(feedback.bytes(), 5 * sizeof(float));
  // Memory anew in each step, in any order: the tag tells.
  std::vector<float*> named(3);
  for (std::uint64_t step = 0; step < 5; ++step) {
    for (std::uint64_t tensor = 0; tensor < 3; ++tensor) {
      const std::uint64_t which = (tensor * (step % 2 + 1)) % 3;
      float* const found =
          feedback.find(call_at(6, 1000 * step + 100 * tensor + 8), {}, tag(100 + which)).residual;
      EXPECT_EQ(found != nullptr, step > 0);
      if (step > 1) {
        EXPECT_EQ(found, named[which]);
      }
      named[which] = found;
    }
  }
  EXPECT_NE(named[0], named[1]);
  // A phase of the step, in which two tensors of one size are: by their places in the end.
  float* last[2] = {};
  for (int step = 0; step < 12; ++step) {
    for (std::uintptr_t tensor = 0; tensor < 2; ++tensor) {
      float* const found = feedback.find(call_at(7, 64 + 4096 * tensor), {}, tag(7)).residual;
      if (step > 8) {
        EXPECT_EQ(found, last[tensor]);
      }
      last[tensor] = found;
    }
  }
  EXPECT_NE(last[0], nullptr);
  EXPECT_NE(last[0], last[1]);
}

TEST(TensorNames, WithinALimitTheFirstStayUntilTheyAreGivenUp) {
  constexpr std::size_t kCount = 16;
  ErrorFeedback feedback(4 * kCount * sizeof(float));
  const auto has = [&](std::uint64_t number) {
    return feedback.find(call_at(kCount, 64), {}, key(number)).residual != nullptr;
  };
  for (int step = 0; step < 5; ++step) {
    for (std::uint64_t number = 1; number <= 10; ++number) {
      EXPECT_EQ(has(number), number <= 4) << step << " " << number;
    }
  }
  // These are not called any more.
  for (int step = 0; step < 20; ++step) {
    for (std::uint64_t number = 11; number <= 14; ++number) static_cast<void>(has(number));
  }
  for (std::uint64_t number = 11; number <= 14; ++number) EXPECT_TRUE(has(number)) << number;
  EXPECT_LE(feedback.bytes(), 4 * kCount * sizeof(float));
}

/// A program that makes up names, or tags, does not fill the memory.
TEST(TensorNames, NewOnesWithoutEndAreBounded) {
  ErrorFeedback feedback(0);
  for (std::uint64_t number = 1; number <= 40000; ++number) {
    ASSERT_NE(feedback.find(call_at(1, 64), {}, key(number)).residual, nullptr);
    static_cast<void>(feedback.find(call_at(2, 64), {}, tag(number)));
  }
  EXPECT_LE(feedback.bytes(), 16386 * sizeof(float));
  // The last used are there.
  EXPECT_EQ(feedback.find(call_at(1, 64), {}, key(40000)).residual[0], 0);
}

TEST(TensorNames, AreInAState) {
  ErrorFeedback before(0), after(0);
  before.find(call_at(3, 64), {}, key(1)).residual[2] = 7;
  static_cast<void>(before.find(call_at(4, 64), {}, tag(5)));
  before.find(call_at(4, 64), {}, tag(5)).residual[3] = 8;
  static_cast<void>(before.find(call_at(4, 64), {}, tag(6)));
  StateBytes bytes;
  before.save(bytes);
  StateView from(bytes.bytes());
  after.load(from);
  ASSERT_TRUE(from.is_ok());
  EXPECT_EQ(after.find(call_at(3, 128), {}, key(1)).residual[2], 7);
  EXPECT_EQ(after.find(call_at(4, 128), {}, tag(5)).residual[3], 8);
  EXPECT_NE(after.find(call_at(4, 256), {}, tag(6)).residual, nullptr);  // It was seen once.
  // Bytes of which some are others fail, or mean something.
  for (std::size_t at = 0; at < bytes.bytes().size(); ++at) {
    std::vector<std::byte> changed = bytes.bytes();
    changed[at] ^= std::byte{0x81};
    ErrorFeedback loaded(0);
    StateView view(changed);
    loaded.load(view);
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
