// Which step a call is of: programs in letters, each a shape.
#include "nccl_plugin/session/steps/training_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ringpress::nccl_plugin::training_steps_test {
namespace {

TensorCall call_of(char shape) {
  return {CollectiveKind::kAllReduce, 1000 + static_cast<std::size_t>(shape), DType::kFloat32,
          ReduceOp::kSum};
}

class Program {
 public:
  std::vector<std::size_t> make(std::string_view calls) {
    std::vector<std::size_t> steps;
    for (const char call : calls) steps.push_back(steps_.of_next(call_of(call)).before);
    return steps;
  }
  /// Of the last of them.
  std::size_t make_all(std::string_view calls, int times = 1) {
    std::size_t last = 0;
    for (int i = 0; i < times; ++i) last = make(calls).back();
    return last;
  }
  std::size_t begun() const { return steps_.begun(); }
  /// As after a state has been saved and loaded.
  Program resumed() const {
    StateBytes bytes;
    sequence_->save_shapes(bytes);
    steps_.save(bytes);
    Program other;
    StateView view(bytes.bytes());
    other.sequence_->load_shapes(view);
    other.steps_.load(view);
    EXPECT_TRUE(view.is_ok() && view.left() == 0);
    return other;
  }

 private:
  std::shared_ptr<CallSequence> sequence_ = std::make_shared<CallSequence>();
  TrainingSteps steps_{sequence_};
};

using Steps = std::vector<std::size_t>;

TEST(TrainingSteps, AreThoseOfTheSequence) {
  Program program;
  for (std::size_t step = 0; step < 50; ++step) {
    EXPECT_EQ(program.make("abc"), (Steps{step, step, step})) << step;
  }
}

TEST(TrainingSteps, OfOneShapeAreItsCalls) {
  Program program;
  EXPECT_EQ(program.make("aaaaa"), (Steps{0, 1, 2, 3, 4}));
  EXPECT_EQ(program.make("bbb"), (Steps{0, 1, 2}));
  EXPECT_EQ(program.make("a"), Steps{5});
}

/// Several calls of one shape are one step's, as soon as the step is known. (It may begin in the
/// middle of the program's.)
TEST(TrainingSteps, CountSeveralCallsOfAShapeOnce) {
  for (const std::string& step : {std::string("aaab"), std::string(24, 'a') + "b",
                                  std::string("aabb"), "c" + std::string(12, 'a') + "baa"}) {
    Program program;
    std::size_t before = program.make_all(step, 3);
    EXPECT_GE(before, 2U) << step;
    EXPECT_LE(before, 3U) << step;
    for (int i = 3; i < 20; ++i) {
      const std::size_t last = program.make_all(step);
      EXPECT_EQ(last, before + 1) << step << " " << i;
      before = last;
    }
  }
}

/// As PyTorch does after the first step.
TEST(TrainingSteps, GoOnWhereBucketsAreBuiltAnew) {
  Program program;
  EXPECT_EQ(program.make("abc"), (Steps{0, 0, 0}));
  program.make_all("defg", 3);
  EXPECT_EQ(program.make("defg"), (Steps{3, 3, 3, 3}));
  program.make_all("defg", 36);
  // And once more: at the next step the sequence is found.
  program.make_all("hia", 2);
  EXPECT_GE(program.make_all("hia"), 39U);
  EXPECT_LE(program.make_all("hia"), 44U);
}

TEST(TrainingSteps, GoOnAfterAnEvaluation) {
  Program program;
  std::size_t last = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int step = 0; step < 50; ++step) {
      for (const std::size_t of_call : program.make("abcd")) {
        EXPECT_GE(of_call, last);
        last = of_call;
      }
    }
    program.make("xyxyz");
  }
  // (Where the sequence is found again, a step may be counted once more or not at all.)
  EXPECT_GE(last, 97U);
  EXPECT_LE(last, 101U);
}

/// Nothing repeats: a step has each of the shapes once, in another order each time.
TEST(TrainingSteps, OfNoSequenceAreCallsOfTheShape) {
  std::mt19937 random(1);
  Program program;
  std::string step = "abcdefgh";
  for (std::size_t i = 0; i < 30; ++i) {
    std::shuffle(step.begin(), step.end(), random);
    for (const std::size_t of_call : program.make(step)) {
      EXPECT_GE(of_call + 1, i);
      EXPECT_LE(of_call, i + 1);
    }
  }
}

TEST(TrainingSteps, GoOnAfterAState) {
  for (const char* const before : {"", "ab", "abcab", "abcabcabcabcab", "aaaa"}) {
    Program program;
    program.make(before);
    Program resumed = program.resumed();
    EXPECT_EQ(resumed.begun(), program.begun());
    const std::string after = "cabcabcaabcbcabcabcabc";
    EXPECT_EQ(program.make(after), resumed.make(after)) << before;
  }
}

/// Of a program whose calls all differ, no more is kept than a step may have.
TEST(TrainingSteps, HoldNoMoreThanAStepHas) {
  const auto sequence = std::make_shared<CallSequence>();
  TrainingSteps steps(sequence);
  for (std::size_t i = 0; i < 10000; ++i) {
    const TensorCall call{CollectiveKind::kAllReduce, i, DType::kFloat32, ReduceOp::kSum};
    EXPECT_EQ(steps.of_next(call).before, 0U);
  }
  StateBytes bytes;
  steps.save(bytes);
  EXPECT_LT(bytes.bytes().size(), 4100U * 27);
}

TEST(TrainingSteps, RefuseAStateThatMakesNoSense) {
  StateBytes bytes;
  bytes.put<std::uint64_t>(0);
  bytes.put<std::uint64_t>(3);
  bytes.put<std::uint64_t>(1);
  bytes.put(CollectiveKind::kAllReduce);
  bytes.put<std::uint64_t>(100);
  bytes.put(DType::kFloat32);
  bytes.put(ReduceOp::kSum);
  bytes.put<std::uint64_t>(5);
  bytes.put<std::uint64_t>(0);  // Of that shape a step has none.
  TrainingSteps steps(std::make_shared<CallSequence>());
  StateView view(bytes.bytes());
  steps.load(view);
  EXPECT_FALSE(view.is_ok());
}

}  // namespace
}  // namespace ringpress::nccl_plugin::training_steps_test
