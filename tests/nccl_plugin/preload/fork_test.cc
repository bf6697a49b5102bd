// Processes forked where there are threads, which make communicators. Not a part of builds with
// sanitizers: ThreadSanitizer ends such a child when it starts a thread, and AddressSanitizer
// leaves its allocator locked there if a thread allocated while the process was forked.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/preload_run.h"

namespace ringpress::testing {
namespace {

TEST(PreloadScenarios, ForkedProcessesSayThatTheyCompressNothing) {
  const Output output = run(with(kOn, {preload(SHIM)}), client(CLIENT, 2, "forked"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  ASSERT_EQ(results.ranks.size(), 2u) << output.text;
  expect_exact(results);
  EXPECT_EQ(occurrences(output.text, "nothing is compressed: this process was forked"), 2)
      << "one line a process: " << output.text;
}

}  // namespace
}  // namespace ringpress::testing
