// Looks for leaks in a child process that ends with _exit, where LeakSanitizer does not look by
// itself.
#ifndef TESTS_SUPPORT_CHILD_LEAKS_H_
#define TESTS_SUPPORT_CHILD_LEAKS_H_

#include "tests/support/sanitizers.h"

#ifdef RINGPRESS_WITH_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace ringpress::testing {

/// True, after a report on standard error, if memory is lost. False in builds that cannot tell.
inline bool has_leaks() {
#ifdef RINGPRESS_WITH_ASAN
  return __lsan_do_recoverable_leak_check() != 0;
#else
  return false;
#endif
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_CHILD_LEAKS_H_
