// What must not go wrong with the shim in a program: ranks that differ, forks, aborts, and
// processes in which it has nothing to do.
#include <gtest/gtest.h>

#include <string>

#include "ringpress/nccl.h"
#include "tests/support/preload_run.h"

namespace ringpress::testing {
namespace {

TEST(PreloadScenarios, OneRankWithoutRingpressMeansPlainNccl) {
  const Output output = run(with(kOn, {preload(SHIM), "RINGPRESS_TIMEOUT_MS=1500"}),
                            client(CLIENT, 3, "one_without"));
  ASSERT_EQ(output.status, 0) << output.text;
  expect_exact(Results(output.text));
  EXPECT_NE(output.text.find("rank 1 of 3 never came"), std::string::npos) << output.text;
}

/// The fake library has no root that outlives the process that made the id: the launcher stays.
TEST(PreloadScenarios, AnIdOfAProcessThatIsNoRankWorks) {
  const Output output = run(with(kOn, {preload(SHIM)}), client(CLIENT, 2, "launcher"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  ASSERT_EQ(results.ranks.size(), 2u) << output.text;
  expect_exact(results);
  EXPECT_NE(output.text.find("made by a process that is no rank"), std::string::npos)
      << output.text;
  EXPECT_EQ(output.text.find("never came"), std::string::npos) << output.text;
}

TEST(PreloadScenarios, AGroupMayBeginBeforeThereIsAnEngine) {
  const Output output = run(with(kOn, {preload(SHIM)}), client(CLIENT, 3, "grouped"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  expect_sound(results, plain_results(3), 3);
  expect_compressed(results);
}

TEST(PreloadScenarios, AProcessThatIsNoRankOpensNoEngine) {
  const Output output =
      run({preload(SHIM), "RINGPRESS_BACKEND=cuda"}, client(CLIENT, 1, "no_rank"));
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(starts_with(output.text, "0 no-engine ")) << output.text;
}

TEST(PreloadScenarios, OneRankWithOtherSettingsMeansPlainNccl) {
  const Output output = run(with(kOn, {preload(SHIM)}), client(CLIENT, 3, "one_other"));
  ASSERT_EQ(output.status, 0) << output.text;
  expect_exact(Results(output.text));
  EXPECT_NE(output.text.find("RINGPRESS_CODEC: "), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("q8"), std::string::npos) << output.text;
}

/// No rank waits for one that makes no communicator: all hear why, in the words of the one.
TEST(PreloadScenarios, OneRankWithoutItsInterfaceMeansAnErrorOfAll) {
  const Output output = run(with(kOn, {preload(SHIM)}), client(CLIENT, 3, "one_lost"));
  EXPECT_EQ(output.status, 1) << output.text;
  for (const char* rank : {"rank 0: ", "rank 1: ", "rank 2: "}) {
    EXPECT_EQ(occurrences(output.text, std::string(rank) + "call_CommInitRank"), 1) << output.text;
  }
  EXPECT_GE(occurrences(output.text,
                        "RINGPRESS_SOCKET_IFNAME=nosuch0 matches no network interface; "
                        "there are: "),
            3)
      << output.text;
}

/// Nobody has an id to wait with, then.
TEST(PreloadScenarios, NoIdIsMadeWithoutAnInterface) {
  const Output output =
      run(with(kOn, {preload(SHIM), "RINGPRESS_SOCKET_IFNAME=nosuch0"}), client(CLIENT, 1, "all"));
  EXPECT_EQ(output.status, 1) << output.text;
  EXPECT_NE(output.text.find("call_GetUniqueId(&id): 4 ringpress: RINGPRESS_SOCKET_IFNAME=nosuch0"),
            std::string::npos)
      << output.text;
}

/// They choose among NCCL's algorithms, which carry what this library has encoded.
TEST(PreloadScenarios, NcclsAlgorithmsLeaveTheCodec) {
  for (const char* variable :
       {"NCCL_ALGO=allreduce:tree", "NCCL_ALGO=Ring", "NCCL_PROTO=LL", "NCCL_COLLNET_ENABLE=0"}) {
    const Output output = run(with(kOn, {preload(SHIM), variable}), client(CLIENT, 2, "all"));
    ASSERT_EQ(output.status, 0) << output.text;
    expect_compressed(Results(output.text));
  }
}

TEST(PreloadScenarios, ForkedWorkersLeaveTheParentAlone) {
  const Output output = run(with(kOn, {preload(SHIM)}), client(CLIENT, 2, "fork"));
  ASSERT_EQ(output.status, 0) << output.text;
  expect_compressed(Results(output.text));
}

/// A program that finds gossip's functions in the library that the shim has opened: they see NCCL's
/// communicators.
TEST(PreloadScenarios, GossipTakesNcclsCommunicators) {
  const Output output = run(with(kOn, {preload(SHIM), "CLIENT_RINGPRESS=" RINGPRESS_LIBRARY}),
                            client(CLIENT, 4, "gossip"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  ASSERT_EQ(results.ranks.size(), 4u) << output.text;
  expect_exact(results);
  for (const auto& [rank, labels] : results.ranks) {
    EXPECT_EQ(labels.count("exact-exchanged"), 1u) << rank;
    EXPECT_EQ(labels.at("lossy-gossip")[0].hash, results.ranks.at(0).at("lossy-gossip")[0].hash);
  }
}

/// Without the shim they are another library's handles.
TEST(PreloadScenarios, GossipRefusesWhatItDoesNotKnow) {
  const Output output =
      run(with(kOn, {"CLIENT_RINGPRESS=" RINGPRESS_LIBRARY}), client(CLIENT, 1, "gossip"));
  EXPECT_EQ(output.status, 1) << output.text;
  EXPECT_NE(output.text.find("init(&handle"), std::string::npos) << output.text;
}

/// Processes, and the flush of a program that knows no handle but NCCL's.
TEST(PreloadScenarios, PutsOffAndFlushes) {
  const Output output = run(with(kOn, {preload(SHIM), "CLIENT_RINGPRESS=" RINGPRESS_LIBRARY,
                                       "RINGPRESS_CODEC=none", "RINGPRESS_LAZY=1000"}),
                            client(CLIENT, 4, "lazy"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  ASSERT_EQ(results.ranks.size(), 4u) << output.text;
  const auto plain = results.ranks.at(0);
  for (const auto& [rank, labels] : results.ranks) {
    for (const char* label : {"exact-zeros", "lossy-total"}) {
      EXPECT_EQ(labels.at(label)[0].hash, plain.at(label)[0].hash) << label << " of rank " << rank;
    }
    EXPECT_LT(labels.at("lossy-total")[0].error, 1e-6) << "nothing is lost";
  }
  const Output eager = run(with(kOn, {preload(SHIM), "CLIENT_RINGPRESS=" RINGPRESS_LIBRARY}),
                           client(CLIENT, 4, "lazy"));
  ASSERT_EQ(eager.status, 0) << eager.text;
  EXPECT_NE(Results(eager.text).ranks.at(0).at("exact-zeros")[0].hash,
            plain.at("exact-zeros")[0].hash);
}

TEST(PreloadScenarios, AbortFromAnotherThreadEndsACallThatIsInside) {
  const Output output = run(with(kOn, {preload(SHIM)}), client(CLIENT, 2, "abort"));
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_NE(output.text.find("0 aborted "), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("1 aborted "), std::string::npos) << output.text;
}

TEST(PreloadScenarios, CallsWhileAThreadOrTheProgramEnds) {
  const Output output = run(with(kOn, {preload(SHIM)}), client(CLIENT, 2, "late"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  ASSERT_EQ(results.ranks.size(), 2u) << output.text;
  EXPECT_EQ(results.ranks.at(1).size(), 4u) << output.text;
  expect_compressed(results);
}

TEST(PreloadScenarios, NonblockingCommunicatorsAreLeftToPlainNccl) {
  const Output output = run(with(kOn, {preload(SHIM)}), client(CLIENT, 2, "nonblocking"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  ASSERT_EQ(results.ranks.size(), 2u) << output.text;
  EXPECT_EQ(results.ranks.at(1).at("nonblocking").size(), 3u);
  expect_exact(results);
  EXPECT_EQ(occurrences(output.text, "nonblocking communicators are not compressed"), 2)
      << "one line a process: " << output.text;
}

TEST(PreloadScenarios, InSecureExecutionItForwards) {
  const Output output =
      run(with(kOn, {preload(std::string(SECURE_PROCESS) + ":" + SHIM)}), client(CLIENT, 2, "all"));
  ASSERT_EQ(output.status, 0) << output.text;
  const Results results(output.text);
  ASSERT_EQ(results.ranks.size(), 2u) << output.text;
  expect_exact(results);
}

TEST(PreloadScenarios, NoNcclAnywhereIsAnErrorOfItsCallsOnly) {
  // A program that has the shim, but not NCCL: what it does not call does not matter.
  const Output nothing = run({preload(SHIM)}, "/bin/echo fine");
  EXPECT_EQ(nothing.status, 0);
  EXPECT_EQ(nothing.text, "fine\n");
}

TEST(PreloadScenarios, CallsSayWhatIsMissingInWhichLibrary) {
  const Output output = run({preload(SHIM_AS_NCCL), "RINGPRESS_REAL_NCCL=" PARTIAL_NCCL},
                            client(OPENING_CLIENT, 1, "missing"));
  ASSERT_EQ(output.status, 0) << output.text;
  const std::string answer = "0 " + std::to_string(ncclInvalidUsage) +
                             " ringpress: there is no ncclGetUniqueId in the NCCL library " +
                             PARTIAL_NCCL;
  EXPECT_NE(output.text.find(answer), std::string::npos) << output.text;
}

TEST(PreloadScenarios, WarningsOfTheShimAreSilencedLikeTheEngines) {
  const Environment missing = {preload(SHIM_AS_NCCL), "RINGPRESS_REAL_NCCL=" PARTIAL_NCCL};
  for (const char* least : {"warn", "error"}) {
    const Output output = run(with(missing, {std::string("RINGPRESS_DEBUG=") + least}),
                              client(OPENING_CLIENT, 1, "missing"));
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_EQ(occurrences(output.text, "WARN"), std::string(least) == "error" ? 0 : 1)
        << output.text;
    // What the call itself answers.
    EXPECT_EQ(occurrences(output.text, " ringpress: there is no ncclGetUniqueId"), 1);
  }
}

/// The program was linked with another NCCL, which its RUNPATH names.
TEST(PreloadScenarios, LibraryPathComesBeforeARunPath) {
  const std::string folder = ::testing::TempDir() + "preload_path_" + std::to_string(getpid());
  const std::string other = folder + "/libnccl.so.2";
  const std::string prepared = "mkdir -p " + folder + " && cp " PARTIAL_NCCL " " + other;
  ASSERT_EQ(std::system(prepared.c_str()), 0);
  const Output output =
      run({preload(SHIM_AS_NCCL), "LD_LIBRARY_PATH=" + folder}, client(CLIENT, 1, "missing"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_NE(output.text.find("there is no ncclGetUniqueId in the NCCL library " + other),
            std::string::npos)
      << output.text;
  EXPECT_EQ(std::system(("rm -r " + folder).c_str()), 0);
}

TEST(PreloadScenarios, AnEngineThatCannotBeLoadedIsNamedWithTheCause) {
  const std::string folder = ::testing::TempDir() + "preload_broken_" + std::to_string(getpid());
  const std::string shim = folder + "/libringpress-preload.so";
  const std::string prepared = "mkdir -p " + folder + " && cp " SHIM " " + shim +
                               " && echo nonsense > " + folder + "/libringpress.so.0";
  ASSERT_EQ(std::system(prepared.c_str()), 0);
  const Output output = run(with(kOn, {preload(shim)}), client(CLIENT, 2, "all"));
  EXPECT_EQ(output.status, 0) << output.text;
  expect_exact(Results(output.text));
  EXPECT_NE(output.text.find(folder + "/libringpress.so.0: file too short"), std::string::npos)
      << output.text;
  const Output off = run(with(kOn, {preload(shim), "RINGPRESS=off"}), client(CLIENT, 2, "all"));
  EXPECT_EQ(off.status, 0) << off.text;
  EXPECT_EQ(occurrences(off.text, "WARN"), 0) << off.text;
  EXPECT_EQ(std::system(("rm -r " + folder).c_str()), 0);
}

/// Runs with a folder that has been prepared by a command, in which $D is its name.
Output run_with_folder(const std::string& name, const std::string& prepare,
                       const std::string& variable) {
  const std::string folder = ::testing::TempDir() + name + std::to_string(getpid());
  const std::string prepared = "D=" + folder + "; mkdir -p $D && " + prepare;
  EXPECT_EQ(std::system(prepared.c_str()), 0);
  const auto place = variable.find("$D");
  const Environment environment =
      with(kOn, {variable.substr(0, place) + folder + variable.substr(place + 2)});
  Environment shim = environment;
  if (!starts_with(variable, "LD_PRELOAD")) shim.push_back(preload(SHIM));
  const Output output = run(shim, client(CLIENT, 2, "all"));
  EXPECT_EQ(std::system(("rm -r " + folder).c_str()), 0);
  return output;
}

TEST(PreloadScenarios, APipeInPlaceOfTheRealLibraryIsNamed) {
  const Output output =
      run_with_folder("preload_pipe_", "mkfifo $D/nccl.so", "RINGPRESS_REAL_NCCL=$D/nccl.so");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_EQ(occurrences(output.text, "is not an NCCL library: it is no regular file"), 2);
  expect_compressed(Results(output.text));
}

TEST(PreloadScenarios, ARealLibraryThatIsCutShortIsNamed) {
  const Output output =
      run_with_folder("preload_short_", "head -c 100000 " FAKE_NCCL " > $D/nccl.so",
                      "RINGPRESS_REAL_NCCL=$D/nccl.so");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_EQ(occurrences(output.text, "is not an NCCL library: it is cut short"), 2);
  expect_compressed(Results(output.text));
}

TEST(PreloadScenarios, AnEngineThatIsCutShortIsNamed) {
  const Output output = run_with_folder("preload_cut_",
                                        "cp " SHIM " $D/shim.so && head -c 100000 " FAKE_NCCL
                                        " > $D/libringpress.so.0",
                                        "LD_PRELOAD=$D/shim.so");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_EQ(occurrences(output.text, "libringpress.so.0: it is cut short"), 2) << output.text;
  expect_exact(Results(output.text));
}

}  // namespace
}  // namespace ringpress::testing
