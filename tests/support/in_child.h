// Runs a part of a test in a process of its own: for what happens once in a process, such as
// loading a library under one environment.
#ifndef TESTS_SUPPORT_IN_CHILD_H_
#define TESTS_SUPPORT_IN_CHILD_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "tests/support/child_leaks.h"

namespace ringpress::testing {

/// Fails the test if an expectation of `body` fails, or its process dies.
template <typename Body>
void in_child(Body&& body) {
  std::fflush(nullptr);
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    EXPECT_FALSE(has_leaks());
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "see above";
}

}  // namespace ringpress::testing

#endif  // TESTS_SUPPORT_IN_CHILD_H_
