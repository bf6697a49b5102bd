// A function that gives way to its caller and goes on later, on a stack of its own. Sanitizers are
// told of it.
#ifndef TESTS_SUPPORT_FIBER_H_
#define TESTS_SUPPORT_FIBER_H_

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/sanitizers.h"
#include "tests/support/stack_change.h"

#ifdef RINGPRESS_WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define RINGPRESS_SIMT_FIBER_SANITIZER 1
#else
#define RINGPRESS_SIMT_FIBER_SANITIZER 0
#endif
#ifdef RINGPRESS_WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace ringpress::testing {

/// A stack, from a store of them: they are as many as the threads of all launches together.
class FiberStack {
 public:
#ifdef RINGPRESS_WITH_TSAN
  static constexpr std::size_t kBytes = 512 << 10;
#else
  static constexpr std::size_t kBytes = 128 << 10;
#endif

  FiberStack() {
    if (store().empty()) {
      kept_.memory = std::make_unique_for_overwrite<std::byte[]>(kBytes);
#ifdef RINGPRESS_WITH_TSAN
      kept_.state = __tsan_create_fiber(0);
#endif
      return;
    }
    kept_ = std::move(store().back());
    store().pop_back();
#if RINGPRESS_SIMT_FIBER_SANITIZER
    ASAN_UNPOISON_MEMORY_REGION(kept_.memory.get(), kBytes);
#endif
  }
  ~FiberStack() {
    store().push_back(std::move(kept_));
  }
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;

  std::byte* data() const {
    return kept_.memory.get();
  }

  /// ThreadSanitizer's, or null.
  void* state() const {
    return kept_.state;
  }

 private:
  struct Kept {
    std::unique_ptr<std::byte[]> memory;
    void* state = nullptr;
  };

  static std::vector<Kept>& store() {
    static thread_local std::vector<Kept> stacks;
    return stacks;
  }

  Kept kept_;
};

/// A body that can be left and entered again.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body) : body_(std::move(body)) {
    place_at_begin(&own_place_, stack_.data(), FiberStack::kBytes, enter, this);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it gives way or ends. Rethrows what it threw.
  void resume() {
    tell_thread_sanitizer(stack_.state());
    start_switch(&caller_fake_stack_, stack_.data(), FiberStack::kBytes);
    change_stacks(&caller_place_, &own_place_);
    finish_switch(caller_fake_stack_);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  /// Called on the fiber: back to who resumed it.
  void give_way() {
    tell_thread_sanitizer(caller_state_);
    start_switch(&fake_stack_, caller_stack_, caller_stack_bytes_);
    change_stacks(&own_place_, &caller_place_);
    finish_switch(fake_stack_);
  }
  bool is_done() const { return is_done_; }

 private:
  static void enter(void* itself) {
    auto* const fiber = static_cast<Fiber*>(itself);
    fiber->finish_switch(nullptr);
    try {
      fiber->body_();
    } catch (...) {
      fiber->error_ = std::current_exception();
    }
    fiber->is_done_ = true;
    fiber->tell_thread_sanitizer(fiber->caller_state_);
    fiber->start_switch(nullptr, fiber->caller_stack_, fiber->caller_stack_bytes_);
    change_stacks(&fiber->own_place_, &fiber->caller_place_);
  }

  /// ThreadSanitizer keeps a state for each fiber; `next`: that of who runs from now on. Not a call
  /// of its own: that would be entered in one fiber's list of calls and taken off the other's.
  [[gnu::always_inline]] void tell_thread_sanitizer([[maybe_unused]] void* next) {
#ifdef RINGPRESS_WITH_TSAN
    if (next != caller_state_ || caller_state_ == nullptr) {
      caller_state_ = __tsan_get_current_fiber();
    }
    __tsan_switch_to_fiber(next, 0);
#endif
  }

  /// AddressSanitizer is told of each change of stacks.
  static void start_switch(void** fake_stack, const void* bottom, std::size_t bytes) {
#if RINGPRESS_SIMT_FIBER_SANITIZER
    __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
#else
    static_cast<void>(fake_stack), static_cast<void>(bottom), static_cast<void>(bytes);
#endif
  }
  void finish_switch([[maybe_unused]] void* fake_stack) {
#if RINGPRESS_SIMT_FIBER_SANITIZER
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    remember_caller(bottom, bytes);
#endif
  }
  void remember_caller(const void* bottom, std::size_t bytes) {
    // After a change to the caller it is this fiber's stack that was left.
    if (bottom >= stack_.data() && bottom < stack_.data() + FiberStack::kBytes) return;
    caller_stack_ = bottom;
    caller_stack_bytes_ = bytes;
  }

  std::function<void()> body_;
  FiberStack stack_;
  StackPlace own_place_;
  StackPlace caller_place_;
  std::exception_ptr error_;
  void* caller_state_ = nullptr;
  void* fake_stack_ = nullptr;
  void* caller_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
  bool is_done_ = false;
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_FIBER_H_
