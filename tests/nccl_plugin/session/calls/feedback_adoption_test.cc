// What error feedback keeps goes on in another memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>

#include "nccl_plugin/session/calls/error_feedback.h"

namespace ringpress::nccl_plugin {
namespace {

/// Its values may be freed by any of these, as a device's may.
class AdoptingMemory final : public ResidualMemory {
 public:
  explicit AdoptingMemory(std::set<float*>* living) : living_(living) {}
  float* allocate(std::size_t count) override {
    auto* const values = static_cast<float*>(std::calloc(count, sizeof(float)));
    living_->insert(values);
    return values;
  }
  void free(float* memory) override {
    ++freed_;
    EXPECT_EQ(living_->erase(memory), 1U);
    std::free(memory);
  }
  int freed() const { return freed_; }

 private:
  std::set<float*>* living_;
  int freed_ = 0;
};

constexpr std::size_t kCounts[] = {30, 50, 40};

TensorCall tensor_of_step(std::size_t tensor, std::uintptr_t memory) {
  TensorCall call;
  call.count = kCounts[tensor];
  call.address = reinterpret_cast<const void*>(memory + (tensor << 12));
  return call;
}

/// A sequence, and what is kept of its calls in a memory of its own.
struct Keeper {
  explicit Keeper(std::set<float*>* living, std::size_t limit_bytes = 0)
      : memory(living), feedback(limit_bytes, memory, calls) {}

  Kept call(std::size_t tensor, const ToKeep& wanted, std::uintptr_t address = 1 << 20) {
    calls->begin_call();
    return feedback.find(tensor_of_step(tensor, address), wanted);
  }
  void make_steps(int steps, const ToKeep& wanted) {
    for (int step = 0; step < steps; ++step) {
      for (std::size_t tensor = 0; tensor < std::size(kCounts); ++tensor) {
        const Kept kept = call(tensor, wanted);
        if (kept.residual != nullptr) kept.residual[0] += 1;
      }
    }
  }
  /// As an heir does.
  void adopt(Keeper& other) {
    StateBytes shapes, buffers;
    other.calls->save_shapes(shapes);
    other.calls->save_buffers(buffers);
    StateView of_shapes(shapes.bytes()), of_buffers(buffers.bytes());
    calls->load_shapes(of_shapes);
    calls->load_buffers(of_buffers, StateFrom::kThisProcess);
    feedback.adopt(std::move(other.feedback));
  }

  AdoptingMemory memory;
  std::shared_ptr<CallSequence> calls = std::make_shared<CallSequence>();
  ErrorFeedback feedback;
};

TEST(FeedbackAdoption, GoesOnInAnotherMemory) {
  std::set<float*> living;
  {
    Keeper heir(&living);
    {
      Keeper parent(&living);
      parent.make_steps(5, {});
      EXPECT_EQ(parent.feedback.bytes(), 120 * sizeof(float));
      heir.adopt(parent);
      EXPECT_EQ(parent.feedback.bytes(), 0U);
      EXPECT_EQ(heir.feedback.bytes(), 120 * sizeof(float));
      // The parent begins anew, and does not touch what is the heir's.
      parent.make_steps(3, {});
      EXPECT_EQ(parent.feedback.bytes(), 120 * sizeof(float));
      EXPECT_EQ(parent.call(0, {}).residual[0], 3);
      EXPECT_EQ(parent.memory.freed(), 0);
    }
    EXPECT_EQ(living.size(), 3U);
    EXPECT_EQ(heir.call(0, {}).residual[0], 3) << "of the third step on";
    EXPECT_EQ(heir.memory.freed(), 0);
  }
  EXPECT_TRUE(living.empty());
}

TEST(FeedbackAdoption, WhatIsOfProjectedTensorsCanBeLeft) {
  for (const std::size_t memory_count : {0U, 7U}) {
    std::set<float*> living;
    Keeper parent(&living), heir(&living);
    ToKeep wanted;
    wanted.memory_count = memory_count;
    wanted.is_projected = true;
    parent.make_steps(5, wanted);
    EXPECT_GT(parent.feedback.bytes(), 0U);
    parent.feedback.forget_projected();
    EXPECT_EQ(parent.feedback.bytes(), 0U);
    EXPECT_TRUE(living.empty());
    heir.adopt(parent);
    heir.make_steps(2, wanted);
    EXPECT_EQ(heir.call(0, wanted).residual[0], 2);
  }
}

/// Which tensors have room goes by the order of the heir's own calls.
TEST(FeedbackAdoption, TheLimitHoldsForTheHeirToo) {
  std::set<float*> living;
  constexpr std::size_t kLimit = 80 * sizeof(float);  // The first two.
  Keeper parent(&living, kLimit), heir(&living, kLimit);
  parent.make_steps(6, {});
  EXPECT_EQ(parent.feedback.bytes(), kLimit);
  heir.adopt(parent);
  heir.make_steps(6, {});
  EXPECT_EQ(heir.feedback.bytes(), kLimit);
  EXPECT_NE(heir.call(0, {}).residual, nullptr);
  EXPECT_NE(heir.call(1, {}).residual, nullptr);
  EXPECT_EQ(heir.call(2, {}).residual, nullptr);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
