// Frameworks that reach NCCL from Python. Not a part of builds with ThreadSanitizer, whose runtime
// an interpreter without it cannot load.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/preload_run.h"

namespace ringpress::testing {
namespace {

TEST(PreloadPython, ReachesItByCtypes) {
  for (const bool by_soname : {false, true}) {
    const Environment ways = by_soname
                                 ? Environment{preload(SHIM_AS_NCCL), real_nccl()}
                                 : Environment{preload(SHIM), "LD_LIBRARY_PATH=" + fake_folder()};
    const Output output =
        run(with(kOn, ways), std::string(PYTHON) + " -B " PYTHON_CLIENT + " libnccl.so.2");
    ASSERT_EQ(output.status, 0) << output.text;
    std::istringstream lines(output.text);
    std::vector<std::string> sums;
    int rank = 0, version = 0;
    double error = 0;
    for (std::string sum; lines >> rank >> version >> error >> sum; sums.push_back(sum)) {
      EXPECT_EQ(version, 23203);
      EXPECT_EQ(error > 1e-3, by_soname) << output.text;
    }
    ASSERT_EQ(sums.size(), 2u) << output.text;
    EXPECT_EQ(sums[0], sums[1]);
  }
}

}  // namespace
}  // namespace ringpress::testing
