// Which sanitizer a test is built with, whatever the compiler calls it: RINGPRESS_WITH_ASAN or
// RINGPRESS_WITH_TSAN is defined, or neither.
#ifndef TESTS_SUPPORT_SANITIZERS_H_
#define TESTS_SUPPORT_SANITIZERS_H_

#ifdef __has_feature  // Clang.
#if __has_feature(address_sanitizer)
#define RINGPRESS_WITH_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define RINGPRESS_WITH_TSAN
#endif
#endif

#ifdef __SANITIZE_ADDRESS__  // GCC.
#define RINGPRESS_WITH_ASAN
#endif
#ifdef __SANITIZE_THREAD__
#define RINGPRESS_WITH_TSAN
#endif

#endif  // TESTS_SUPPORT_SANITIZERS_H_
