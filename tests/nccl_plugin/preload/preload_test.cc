// Unmodified programs with the shim before them, on a stand-in for NVIDIA's library.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/preload_run.h"
#include "tests/support/rules_file.h"

namespace ringpress::testing {
namespace {

class LinkedProgram : public ::testing::TestWithParam<int> {};

TEST_P(LinkedProgram, IsCompressed) {
  const Results plain = plain_results(GetParam());
  expect_exact(plain);
  const Output output = run(with(kOn, {preload(SHIM)}), client(CLIENT, GetParam(), "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  expect_sound(results, plain, GetParam());
  expect_compressed(results);
}

#ifdef RINGPRESS_SANITIZED
INSTANTIATE_TEST_SUITE_P(Ranks, LinkedProgram, ::testing::Values(3));
#else
INSTANTIATE_TEST_SUITE_P(Ranks, LinkedProgram, ::testing::Values(2, 3, 4));
#endif

struct Way {
  const char* name;
  const char* program;
  Environment environment;
};

class EveryWay : public ::testing::TestWithParam<Way> {};

TEST_P(EveryWay, LeadsToTheEngine) {
  const Output output =
      run(with(kOn, GetParam().environment), client(GetParam().program, 2, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  expect_sound(results, plain_results(2), 2);
  expect_compressed(results);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, EveryWay,
    ::testing::Values(
        Way{"linked_by_soname", CLIENT, {preload(SHIM_AS_NCCL), real_nccl()}},
        Way{"linked_by_soname_in_its_run_path", CLIENT, {preload(SHIM_AS_NCCL)}},
        Way{"linked_by_soname_found",
            CLIENT,
            {preload(SHIM_AS_NCCL), "LD_LIBRARY_PATH=" + fake_folder()}},
        Way{"linked_both", CLIENT, {preload(std::string(SHIM) + ":" + SHIM_AS_NCCL), real_nccl()}},
        Way{"opened_by_soname_in_the_run_path_of_a_library",
            OPENING_CLIENT,
            {preload(std::string(SHIM_AS_NCCL) + ":" + NEEDS_NCCL)}},
        Way{"opened_by_soname", OPENING_CLIENT, {preload(SHIM_AS_NCCL), real_nccl()}},
        Way{"opened_by_soname_found",
            OPENING_CLIENT,
            {preload(SHIM_AS_NCCL), "LD_LIBRARY_PATH=" + fake_folder()}}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Preload, ProgramThatOpensNcclIsLeftAloneByTheOtherShim) {
  const Output output = run(with(kOn, {preload(SHIM), "LD_LIBRARY_PATH=" + fake_folder()}),
                            client(OPENING_CLIENT, 2, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  expect_exact(Results(output.text));
}

TEST(Preload, SwitchedOffItForwards) {
  const Output output = run(with(kOn, {preload(SHIM), "RINGPRESS=off"}), client(CLIENT, 2, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  expect_exact(Results(output.text));
}

TEST(Preload, WithoutABackendItSaysSoAndForwards) {
  const Output output = run({preload(SHIM), "RINGPRESS_BACKEND=cuda"}, client(CLIENT, 2, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  expect_exact(Results(output.text));
  // Without the kernels' library, or without a driver.
  EXPECT_NE(output.text.find("WARN nothing is compressed: "), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("CUDA"), std::string::npos) << output.text;
}

TEST(Preload, CodecThatNoStreamCanDoMeansPlainNccl) {
  const Output output = run(with(kOn, {preload(SHIM), "RINGPRESS_CODEC=topk:select=tensor"}),
                            client(CLIENT, 2, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  expect_exact(Results(output.text));
  EXPECT_NE(output.text.find("cannot be used in a stream"), std::string::npos) << output.text;
}

TEST(Preload, TopkTakesItsFormForStreamsAndSaysSo) {
  const std::string file = ::testing::TempDir() + "preload_topk_" + std::to_string(getpid());
  const Output output =
      run(with(kOn, {preload(SHIM), "RINGPRESS_CODEC=topk:density=0.5", "RINGPRESS_STATS=" + file}),
          client(CLIENT, 2, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  expect_sound(results, plain_results(2), 2);
  EXPECT_GT(lossy_errors(results).first, 1e-3) << "some call was exact";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_NE(text.str().find("\"topk:density=0.5,value=8,select=chunk\""), std::string::npos)
      << text.str();
}

TEST(Preload, CallsThatRecurBetweenHostsAreCompressedIfAllAreGradients) {
  const Output output = run({"RINGPRESS_GRADIENTS=all", "RINGPRESS_BACKEND=host",
                             "RINGPRESS_SOCKET_IFNAME=lo", preload(SHIM)},
                            client(CLIENT, 2, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  const auto& sums = results.ranks.at(0).at("lossy-sum");
  EXPECT_LT(sums[0].error, 1e-6);
  EXPECT_LT(sums[1].error, 1e-6);
  EXPECT_GT(sums[2].error, 1e-3);
  EXPECT_GT(sums[3].error, 1e-3);
}

TEST(Preload, RanksOfAHostAreSummedExactlyFirst) {
  const std::string file = ::testing::TempDir() + "preload_hier_" + std::to_string(getpid());
  const Output output =
      run(with(kOn, {preload(SHIM), "CLIENT_RANKS_PER_HOST=2", "RINGPRESS_STATS=" + file}),
          client(CLIENT, 4, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  expect_sound(results, plain_results(4), 4);
  expect_compressed(results);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  unlink(file.c_str());
  EXPECT_NE(text.str().find("\"hier\""), std::string::npos) << text.str();
}

/// Racks of hosts that are numbered in turn: a ring goes rack by rack, and its sums stay right.
TEST(Preload, ARingGoesRackByRack) {
  const test::RulesFile map("host0 a\nhost1 b\nhost2 a\nhost3 b\n");
  const Environment environment =
      with(kOn, {preload(SHIM), "RINGPRESS_ALGO=ring", "RINGPRESS_DEBUG=info",
                 "RINGPRESS_TOPOLOGY=" + map.path()});
  const Output output = run(environment, client(CLIENT, 4, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  expect_sound(results, plain_results(4), 4);
  expect_compressed(results);
  EXPECT_NE(output.text.find("the ring visits ranks 0 2 1 3: it crosses 6 uplinks each way, by "
                             "number 8"),
            std::string::npos)
      << output.text;
}

/// A host that the map does not have leaves all ranks to plain NCCL, and is named.
TEST(Preload, AHostThatTheMapLacksIsNamed) {
  const test::RulesFile map("host0 a\nhost1 b\n");
  const Output output =
      run(with(kOn, {preload(SHIM), "RINGPRESS_ALGO=ring", "RINGPRESS_TOPOLOGY=" + map.path()}),
          client(CLIENT, 3, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  expect_exact(Results(output.text));
  EXPECT_NE(output.text.find(map.path()), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("host2"), std::string::npos) << output.text;
}

TEST(Preload, AMapThatIsNotThereIsNamed) {
  const Output output = run(with(kOn, {preload(SHIM), "RINGPRESS_TOPOLOGY=/nowhere/hosts"}),
                            client(CLIENT, 2, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  expect_exact(Results(output.text));
  EXPECT_NE(output.text.find("/nowhere/hosts"), std::string::npos) << output.text;
}

TEST(Preload, StatisticsTellWhatWasCompressed) {
  const std::string file = ::testing::TempDir() + "preload_statistics_" + std::to_string(getpid());
  const Output output =
      run(with(kOn, {preload(SHIM), "RINGPRESS_STATS=" + file}), client(CLIENT, 2, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  unlink(file.c_str());
  // 8 steps, 2 of a group and the reduce-scatter; the child's average on a line of its own.
  EXPECT_NE(text.str().find("\"compressed_calls\": 11,"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("\"compressed_calls\": 1,"), std::string::npos) << text.str();
}

}  // namespace
}  // namespace ringpress::testing
