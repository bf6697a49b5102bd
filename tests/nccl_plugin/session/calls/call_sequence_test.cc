#include "nccl_plugin/session/calls/call_sequence.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ringpress::nccl_plugin {
namespace {

constexpr std::array kUsers = {CallUser::kFeedback, CallUser::kLazy, CallUser::kTrace,
                               CallUser::kPlan, CallUser::kLevels};

TensorCall call_in(std::size_t count, std::uintptr_t address) {
  TensorCall call;
  call.count = count;
  call.address = reinterpret_cast<const void*>(address);
  return call;
}

/// What users are to be answered: each has patterns of its own.
class OwnPatterns {
 public:
  void observe(CallUser user, const TensorCall& call) {
    Patterns& own = of_[user];
    own.by_buffer = own.buffers.observe(call);
    TensorCall shape = call;
    shape.address = nullptr;
    own.by_shape = own.shapes.observe(shape);
  }

  void expect_equal(CallUser user, const CallPlaces& places) {
    const Patterns& own = of_[user];
    expect_equal(own.shapes, own.by_shape, places.shapes, places.by_shape);
    if (user == CallUser::kLevels) return;
    expect_equal(own.buffers, own.by_buffer, places.buffers, places.by_buffer);
  }

 private:
  struct Patterns {
    CallPattern buffers, shapes;
    std::optional<std::size_t> by_buffer, by_shape;
  };

  static void expect_equal(const CallPattern& own, std::optional<std::size_t> own_position,
                           const CallPattern& shared, std::optional<std::size_t> position) {
    ASSERT_EQ(position, own_position);
    ASSERT_EQ(shared.cycle().id, own.cycle().id);
    ASSERT_EQ(shared.cycle().period(), own.cycle().period());
    ASSERT_EQ(shared.breaks(), own.breaks());
    ASSERT_EQ(shared.repeating(), own.repeating());
    ASSERT_EQ(shared.cycle().has_landmark(), own.cycle().has_landmark());
    ASSERT_TRUE(std::equal(shared.forgotten().begin(), shared.forgotten().end(),
                           own.forgotten().begin(), own.forgotten().end()));
  }

  std::map<CallUser, Patterns> of_;
};

/// Steps of tensors that are in turn or for good some users' alone, and calls in between.
class RandomUsers {
 public:
  explicit RandomUsers(std::uint32_t seed) : dice_(seed) {
    for (std::size_t i = 0; i < 12; ++i) {
      tensors_.push_back(call_in(10 + below(6), 0x1000 * (1 + below(20))));
      users_.push_back(below(3) == 0 ? draw_users() : most_);
    }
    for (std::size_t step = 0; step < 3; ++step) {
      steps_.emplace_back();
      for (std::size_t i = 1 + below(8); i > 0; --i) steps_.back().push_back(below(12));
    }
  }

  void run() {
    for (int phase = 0; phase < 12; ++phase) {
      const std::vector<std::size_t>& step = steps_[below(steps_.size())];
      for (std::size_t times = 1 + below(6); times > 0; --times) {
        for (const std::size_t i : step) {
          if (below(100) == 0) make_call(tensors_[below(12)], draw_users());
          make_call(tensors_[i], users_[i]);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }

 private:
  std::size_t below(std::size_t end) { return dice_() % end; }

  CallUsers draw_users() {
    CallUsers users;
    for (const CallUser user : kUsers) {
      if (below(2) == 0) users.add(user);
    }
    return users;
  }

  /// Some of the users are told together, the others ask by themselves, and some never ask.
  void make_call(const TensorCall& call, CallUsers users) {
    sequence_.begin_call();
    const CallUsers together = CallUsers::common(users, draw_users());
    sequence_.tell(call, together);
    for (const CallUser user : kUsers) {
      const bool asks = users.has(user) && (!together.has(user) || below(10) != 0);
      ASSERT_EQ(sequence_.has_told(user), together.has(user));
      if (users.has(user)) own_.observe(user, call);
      if (asks) own_.expect_equal(user, sequence_.ask(user, call));
    }
  }

  std::mt19937 dice_;
  const CallUsers most_ = draw_users();
  std::vector<TensorCall> tensors_;
  std::vector<CallUsers> users_;
  std::vector<std::vector<std::size_t>> steps_;
  CallSequence sequence_;
  OwnPatterns own_;
};

TEST(CallSequence, AnswersEachUserAsAPatternOfItsOwn) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomUsers(seed).run();
    if (HasFatalFailure()) return;
  }
}

TEST(CallSequence, UsersOfTheSameCallsShareAPattern) {
  CallSequence sequence;
  const CallUsers all{CallUser::kFeedback, CallUser::kTrace, CallUser::kPlan, CallUser::kLevels};
  for (std::size_t i = 0; i < 100; ++i) {
    sequence.begin_call();
    sequence.tell(call_in(i % 5, 0), all);
  }
  EXPECT_EQ(sequence.patterns(), 2U) << "by buffer, and by shape";
  EXPECT_EQ(*sequence.ask(CallUser::kLevels, call_in(0, 0)).by_shape,
            *sequence.ask(CallUser::kPlan, call_in(0, 0)).by_shape);
}

/// What one user is not told of breaks the others' sequence, and not its own.
TEST(CallSequence, CallsOfOthersChangeNothing) {
  CallSequence sequence;
  const CallUsers both{CallUser::kFeedback, CallUser::kTrace};
  for (std::size_t i = 0; i < 60; ++i) {
    sequence.begin_call();
    sequence.tell(call_in(i % 3, 0x1000), both);
  }
  sequence.begin_call();
  sequence.tell(call_in(77, 0x2000), {CallUser::kTrace});
  EXPECT_EQ(sequence.ask(CallUser::kTrace, call_in(77, 0x2000)).buffers.breaks(), 1U);
  sequence.begin_call();
  sequence.tell(call_in(0, 0x1000), both);
  const CallPlaces own = sequence.ask(CallUser::kFeedback, call_in(0, 0x1000));
  EXPECT_EQ(own.buffers.breaks(), 0U);
  EXPECT_TRUE(own.by_buffer);
  EXPECT_FALSE(sequence.ask(CallUser::kTrace, call_in(0, 0x1000)).by_buffer);
  EXPECT_EQ(sequence.patterns(), 4U);
}

/// A user who is told with the others and asks is told once; asking again is another call.
TEST(CallSequence, IsToldOfEachCallOnce) {
  CallSequence sequence;
  const auto ask = [&] { return sequence.ask(CallUser::kFeedback, call_in(5, 0x1000)); };
  sequence.begin_call();
  sequence.tell(call_in(5, 0x1000), {CallUser::kFeedback});
  sequence.tell(call_in(5, 0x1000), {CallUser::kFeedback, CallUser::kLevels});
  EXPECT_FALSE(ask().by_buffer) << "one call repeats nothing";
  EXPECT_TRUE(ask().by_buffer);
  sequence.tell(call_in(6, 0x1000), {CallUser::kFeedback});
  sequence.begin_call();
  EXPECT_FALSE(sequence.has_told(CallUser::kFeedback)) << "who did not ask has missed it";
}

/// Levels go by shapes alone: what addresses are on a rank is nothing to them.
TEST(CallSequence, LevelsDoNotSeeAddresses) {
  CallSequence one, other;
  std::mt19937 dice(3);
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t count = i % 7 < 4 ? i % 7 : dice() % 3;
    const CallPlaces a = one.ask(CallUser::kLevels, call_in(count, dice()));
    const CallPlaces b = other.ask(CallUser::kLevels, call_in(count, dice()));
    ASSERT_EQ(a.by_shape, b.by_shape);
    ASSERT_EQ(a.shapes.cycle().id, b.shapes.cycle().id);
    ASSERT_EQ(a.by_buffer, std::nullopt);
  }
  EXPECT_EQ(one.patterns(), 1U);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
