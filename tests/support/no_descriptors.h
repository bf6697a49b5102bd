// A process that can open no more files.
#ifndef TESTS_SUPPORT_NO_DESCRIPTORS_H_
#define TESTS_SUPPORT_NO_DESCRIPTORS_H_

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace ringpress::testing {

/// Leaves this process no descriptor, for a while.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int lowest = dup(STDERR_FILENO);
    close(lowest);
    rlimit none = before_;
    none.rlim_cur = static_cast<rlim_t>(lowest);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_NO_DESCRIPTORS_H_
