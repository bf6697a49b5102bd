// Leaves one stack and goes on with another, which is what fibers do.
//
// The C library's swapcontext() asks the kernel for the signals that are blocked, and
// AddressSanitizer's stand-in for it forgets what is poisoned on the whole of the stack, both at
// each change: several times what the threads of a simulated kernel compute in between. So x86-64
// has a change of its own; other machines take the C library's.
#ifndef TESTS_SUPPORT_STACK_CHANGE_H_
#define TESTS_SUPPORT_STACK_CHANGE_H_

#include <cstddef>
#include <cstdint>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace ringpress::testing {

/// What a stack begins with. It never returns.
using StackBody = void (*)(void* argument);

#ifdef __x86_64__

/// Where a stack was left. The registers that a call keeps lie there.
struct StackPlace {
  void* top = nullptr;
};

// Of the argument registers %rdi alone is restored: with it a stack's body is given its argument.
// Weak: each file that includes this brings it.
extern "C" void ringpress_change_stacks(StackPlace* left, const StackPlace* entered);
asm(R"(
  .pushsection .text
  .weak ringpress_change_stacks
  .hidden ringpress_change_stacks
  .type ringpress_change_stacks, @function
ringpress_change_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  pushq %rdi
  movq %rsp, (%rdi)
  movq (%rsi), %rsp
  popq %rdi
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size ringpress_change_stacks, . - ringpress_change_stacks
  .popsection
)");

[[gnu::always_inline]] inline void change_stacks(StackPlace* left, const StackPlace* entered) {
  ringpress_change_stacks(left, entered);
}

/// The place where body(argument) begins, on a stack of so many bytes.
inline void place_at_begin(StackPlace* place, std::byte* stack, std::size_t bytes, StackBody body,
                           void* argument) {
  constexpr std::size_t kAlignment = 16;
  const auto end = reinterpret_cast<std::uintptr_t>(stack + bytes) / kAlignment * kAlignment;
  auto* top = reinterpret_cast<std::uintptr_t*>(end);
  *--top = 0;  // Where the body would return to.
  *--top = reinterpret_cast<std::uintptr_t>(body);
  constexpr int kKeptRegisters = 6;  // %rbp, %rbx, %r12 to %r15.
  for (int i = 0; i < kKeptRegisters; ++i) *--top = 0;
  *--top = reinterpret_cast<std::uintptr_t>(argument);
  place->top = top;
}

#else

struct StackPlace {
  ucontext_t context{};
};

inline void change_stacks(StackPlace* left, const StackPlace* entered) {
  swapcontext(&left->context, &entered->context);
}

/// makecontext() hands on integers alone.
inline void enter_by_halves(unsigned body_high, unsigned body_low, unsigned argument_high,
                            unsigned argument_low) {
  const auto whole = [](unsigned high, unsigned low) {
    return static_cast<std::uintptr_t>(std::uint64_t{high} << 32 | low);
  };
  const auto body = reinterpret_cast<StackBody>(whole(body_high, body_low));
  body(reinterpret_cast<void*>(whole(argument_high, argument_low)));
}

inline void place_at_begin(StackPlace* place, std::byte* stack, std::size_t bytes, StackBody body,
                           void* argument) {
  getcontext(&place->context);
  place->context.uc_stack.ss_sp = stack;
  place->context.uc_stack.ss_size = bytes;
  place->context.uc_link = nullptr;
  const std::uint64_t begin = reinterpret_cast<std::uintptr_t>(body);
  const std::uint64_t value = reinterpret_cast<std::uintptr_t>(argument);
  makecontext(&place->context, reinterpret_cast<void (*)()>(enter_by_halves), 4,
              static_cast<unsigned>(begin >> 32), static_cast<unsigned>(begin),
              static_cast<unsigned>(value >> 32), static_cast<unsigned>(value));
}

#endif

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_STACK_CHANGE_H_
