// What `ringpress doctor` thinks of surroundings that this machine does not have.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/command/doctor.h"
#include "nccl_plugin/command/run.h"

namespace ringpress::nccl_plugin::command {
namespace {

std::vector<int> range(int first, int last) {
  std::vector<int> numbers;
  for (int number = first; number <= last; ++number) numbers.push_back(number);
  return numbers;
}

Tables tables(int net, int tuner, int profiler, int env) {
  Tables all;
  all[TableKind::kNet] = all[TableKind::kCollNet] = range(6, net);
  all[TableKind::kTuner] = range(2, tuner);
  all[TableKind::kProfiler] = range(1, profiler);
  all[TableKind::kEnv] = range(1, env);
  return all;
}

NcclLibrary nccl(int version, Tables looked_up) {
  NcclLibrary library;
  library.path = "/opt/libnccl.so.2";
  library.version = version;
  library.tables = std::move(looked_up);
  return library;
}

/// Everything as it should be, with NCCL 2.28.9.
Surroundings healthy() {
  Surroundings all;
  for (const char* name : {"NCCL_COLLNET_ENABLE", "NCCL_NET_PLUGIN_REF_COUNT",
                           "NCCL_COMM_SPLIT_SHARE_RESOURCES", "NCCL_MIN_NCHANNELS"}) {
    all.environment.add(name, {"1", "environment"});
  }
  all.environment.add("NCCL_NET_PLUGIN", {"ringpress", "environment"});
  all.plugin.path = all.plugin.found_as = "libnccl-net-ringpress.so";
  all.plugin.network = "ringpress";
  all.plugin.tables = tables(12, 6, 6, 2);
  all.nccl = {nccl(22809, tables(11, 5, 5, 1))};
  all.has_gpu_driver = true;
  return all;
}

/// Texts and remedies of this level, one a line, about door B and the settings.
std::string texts(const Surroundings& all, Level level) {
  std::string text;
  for (const Finding& finding : judge(all)) {
    if (finding.level == level && finding.about != "door A" && finding.about != "door C") {
      text += finding.text + " -> " + finding.remedy + "\n";
    }
  }
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Doctor, FindsNothingWhereAllIsWell) {
  EXPECT_EQ(texts(healthy(), Level::kProblem), "");
  EXPECT_EQ(texts(healthy(), Level::kWarning), "");
  EXPECT_TRUE(has(texts(healthy(), Level::kOk),
                  "NCCL 2.28.9 takes from this library: net v11, CollNet v11, tuner v5, profiler "
                  "v5, env v1"));
}

TEST(Doctor, KnowsWhatEachVersionLacks) {
  Surroundings all = healthy();
  all.environment.add("RINGPRESS_CODEC", {"q4", "environment"});
  all.nccl = {nccl(22707, tables(10, 4, 4, 0))};
  EXPECT_TRUE(has(texts(all, Level::kWarning), "set NCCL_PROFILER_PLUGIN=ringpress"));
  all.environment.add("NCCL_PROFILER_PLUGIN", {"ringpress", "environment"});
  EXPECT_EQ(texts(all, Level::kWarning), "");
  all.nccl = {nccl(22304, tables(8, 3, 0, 0))};
  EXPECT_TRUE(has(texts(all, Level::kWarning), "no error feedback"));
  EXPECT_FALSE(has(texts(all, Level::kWarning), "tuner"));
  all.nccl = {nccl(22005, tables(8, 1, 0, 0))};
  EXPECT_TRUE(has(texts(all, Level::kWarning), "NCCL 2.20.5 does not ask this library's tuner"));
  EXPECT_EQ(texts(all, Level::kProblem), "");
  all.nccl = {nccl(21801, tables(5, 1, 0, 0))};
  EXPECT_TRUE(has(texts(all, Level::kProblem), "net none, CollNet none"));
}

TEST(Doctor, VariablesMayBeSetInsideNccl) {
  Surroundings all = healthy();
  all.environment = {};
  EXPECT_TRUE(has(texts(all, Level::kProblem), "NCCL_COLLNET_ENABLE is not set"));
  EXPECT_TRUE(has(texts(all, Level::kProblem), "NCCL_NET_PLUGIN is not set"));
  all.environment.add("NCCL_ENV_PLUGIN", {"ringpress", "/etc/nccl.conf"});
  EXPECT_EQ(texts(all, Level::kProblem), "");
  EXPECT_EQ(texts(all, Level::kWarning), "");
  all.nccl.push_back(nccl(22707, tables(10, 4, 4, 0)));  // Knows no environment plugin.
  EXPECT_TRUE(has(texts(all, Level::kProblem), "NCCL_COLLNET_ENABLE is not set"));
}

// The library for host memory is no NCCL that sets them.
TEST(Doctor, NoNcclSetsNoVariables) {
  Surroundings all = healthy();
  all.environment = {};
  for (const bool is_seen : {true, false}) {
    all.nccl.resize(is_seen ? 1 : 0);
    if (is_seen) all.nccl[0].is_ours = true;
    EXPECT_TRUE(has(texts(all, Level::kProblem), "NCCL_COLLNET_ENABLE is not set"));
    EXPECT_FALSE(has(texts(all, Level::kOk), "is set inside NCCL"));
  }
}

TEST(Doctor, SaysOneThingOfAVariable) {
  Surroundings all = healthy();
  all.environment = {};
  all.environment.add("NCCL_NET_PLUGIN", {"none", "environment"});
  EXPECT_TRUE(has(texts(all, Level::kProblem), "NCCL_NET_PLUGIN=none"));
  EXPECT_FALSE(has(texts(all, Level::kOk), "NCCL_NET_PLUGIN=none"));
}

TEST(Doctor, WarnsOfFewOpenFiles) {
  Surroundings all = healthy();
  all.open_files = 1024;
  EXPECT_EQ(texts(all, Level::kWarning), "");
  all.open_files = 64;
  EXPECT_TRUE(
      has(texts(all, Level::kWarning), "may have 64 open files: each communicator needs 19"))
      << texts(all, Level::kWarning);
}

TEST(Doctor, SaysWhatPacesTcp) {
  Surroundings all = healthy();
  all.congestion = "cubic";
  all.allowed_congestion = "reno cubic bbr";
  EXPECT_FALSE(has(texts(all, Level::kOk), "paced by"));
  all.congestion = "bbr";
  EXPECT_TRUE(has(texts(all, Level::kOk), "paced by bbr, the system's default"));
  EXPECT_TRUE(has(texts(all, Level::kOk), "RINGPRESS_TCP_CONGESTION, one of: reno cubic bbr"));
  all.environment.add("RINGPRESS_TCP_CONGESTION", {"cubic", "environment"});
  EXPECT_FALSE(has(texts(all, Level::kOk), "paced by"));
}

TEST(Doctor, NamesWhatIsNotThere) {
  Surroundings all = healthy();
  all.nccl.clear();
  all.has_gpu_driver = false;
  EXPECT_TRUE(has(texts(all, Level::kWarning), "no NCCL is seen"));
  EXPECT_TRUE(has(texts(all, Level::kWarning), "no GPU driver"));
  all.plugin = {};
  all.plugin.problem = "no such file";
  all.plugin_folder = "/opt/lib/ringpress";
  EXPECT_TRUE(has(texts(all, Level::kProblem), "no such file -> start the job with"));
  all.plugin = healthy().plugin;
  all.plugin.tables[TableKind::kCollNet].clear();
  EXPECT_TRUE(has(texts(all, Level::kProblem), "it shows no CollNet table"));
}

TEST(Doctor, WarnsOfCodecsThatNeedMoreThanThePluginHas) {
  for (const char* codec : {"powersgd", "powersgd:rank=4", "randk:density=0.01"}) {
    Surroundings all = healthy();
    all.environment.add("RINGPRESS_CODEC", {codec, "environment"});
    EXPECT_TRUE(
        has(texts(all, Level::kProblem), std::string(codec) + ": it works on whole tensors"))
        << codec;
    all.environment = healthy().environment;
    all.environment.add("RINGPRESS_CODEC", {codec, "environment"});
    all.environment.add("RINGPRESS", {"lossless", "environment"});  // Another codec, then.
    EXPECT_EQ(texts(all, Level::kProblem), "") << codec;
  }
  for (const char* codec : {"q2:grid=lloyd", "topk", "sign", "tern", "qsgd", "fp16", "lossless"}) {
    Surroundings all = healthy();
    all.environment.add("RINGPRESS_CODEC", {codec, "environment"});
    EXPECT_EQ(texts(all, Level::kProblem), "") << codec;
    EXPECT_EQ(texts(all, Level::kWarning), "") << codec;
  }
}

TEST(Doctor, KnowsWhichCodecsNeedTheProfiler) {
  const auto problems = [](const char* codec, const char* gradients = "known") {
    Surroundings all = healthy();
    all.nccl = {nccl(22304, tables(8, 3, 0, 0))};  // Has no place for it.
    all.environment.add("RINGPRESS_CODEC", {codec, "environment"});
    all.environment.add("RINGPRESS_GRADIENTS", {gradients, "environment"});
    return texts(all, Level::kProblem);
  };
  EXPECT_EQ(problems("q4"), "");
  EXPECT_EQ(problems("auto", "all"), "");
  EXPECT_TRUE(has(problems("auto"), "gradients cannot be told from other sums"));
  EXPECT_EQ(problems("lossless"), "");
  EXPECT_TRUE(has(problems("topk"), "topk has no unbiased form, so nothing is compressed"));
  EXPECT_TRUE(has(problems("sign"), "sign has no unbiased form, so nothing is compressed"));
}

TEST(Doctor, ListsOfPluginsNeedNccl227) {
  Surroundings all = healthy();
  JobEnvironment environment;
  environment.add("NCCL_NET_PLUGIN", {"ringpress,other", "environment"});
  environment.add("NCCL_PROFILER_PLUGIN", {"ringpress", "environment"});
  for (const char* name : {"NCCL_COLLNET_ENABLE", "NCCL_NET_PLUGIN_REF_COUNT",
                           "NCCL_COMM_SPLIT_SHARE_RESOURCES", "NCCL_MIN_NCHANNELS"}) {
    environment.add(name, {"1", "environment"});
  }
  all.environment = environment;
  all.nccl = {nccl(22707, tables(10, 4, 4, 0))};
  EXPECT_EQ(texts(all, Level::kProblem), "");
  all.nccl = {nccl(22605, tables(10, 4, 3, 0))};
  EXPECT_TRUE(has(texts(all, Level::kProblem), "NCCL 2.26.5 takes the list for one name"));
}

TEST(Doctor, AnothersNameThatHoldsOursIsNotOurs) {
  Surroundings all = healthy();
  all.nccl = {nccl(22707, tables(10, 4, 4, 0))};
  all.environment.add("NCCL_PROFILER_PLUGIN", {"notringpress", "environment"});
  EXPECT_TRUE(has(texts(all, Level::kWarning), "NCCL_PROFILER_PLUGIN=notringpress: "));
  EXPECT_TRUE(has(texts(all, Level::kProblem), "set NCCL_PROFILER_PLUGIN=ringpress"));
}

// From 2.31 on all-reduces that NCCL_ALGO does not name have no algorithm where NCCL_PROTO is
// theirs.
TEST(Doctor, ReadsListsAsThatNcclDoes) {
  Surroundings all = healthy();
  all.environment.add("NCCL_ALGO", {"broadcast:ring", "environment"});
  all.environment.add("NCCL_PROTO", {"Simple", "environment"});
  EXPECT_EQ(texts(all, Level::kProblem), "");
  all.nccl.push_back(nccl(23203, tables(12, 6, 7, 2)));
  const std::string problems = texts(all, Level::kProblem);
  EXPECT_TRUE(has(problems, "NCCL_ALGO=broadcast:ring: NCCL 2.31 and later leave")) << problems;
  all.nccl.back().problem = "not a library";
  EXPECT_FALSE(has(texts(all, Level::kProblem), "NCCL 2.31 and later"));
  all.nccl.clear();
  EXPECT_TRUE(has(texts(all, Level::kWarning), "NCCL 2.31 and later leave all-reduces"));
}

TEST(Doctor, SaysWhatToDoAboutEverything) {
  Surroundings all;
  all.plugin.tables = tables(12, 6, 0, 2);
  all.plugin.path = "x";
  all.next_plugin.found_as = "next";
  all.next_plugin.problem = "cannot open";
  NcclLibrary broken;
  broken.problem = "not a library";
  all.nccl = {nccl(22005, tables(8, 1, 0, 0)), nccl(22707, tables(10, 4, 4, 0)), broken};
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"NCCL_ALGO", "Ring"},
                                                        {"NCCL_PROTO", "LL"},
                                                        {"NCCL_TUNER_PLUGIN", "x"},
                                                        {"NCCL_PROFILER_PLUGIN", "x"},
                                                        {"NCCL_ENV_PLUGIN", "x"},
                                                        {"NCCL_NET", "x"},
                                                        {"RINGPRESS", "onn"},
                                                        {"RINGPRESS_CODEK", "q4"},
                                                        {"RINGPRESS_STATS", "/no/such/x"},
                                                        {"RINGPRESS_SOCKET_IFNAME", "nosuch0"},
                                                        {"NCCL_SOCKET_IFNAME", "nosuch0"}}) {
    all.environment.add(name, {value, "environment"});
  }
  for (const Finding& finding : judge(all)) {
    EXPECT_TRUE(finding.level == Level::kOk || !finding.remedy.empty()) << finding.text;
  }
}

TEST(Doctor, LooksAtTheNextPlugin) {
  Surroundings all = healthy();
  all.next_plugin.found_as = "libnccl-net-aws.so";
  all.next_plugin.problem = "cannot open";
  EXPECT_TRUE(has(texts(all, Level::kProblem), "RINGPRESS_NEXT_NET_PLUGIN: cannot open"));
  all.next_plugin.path = "/opt/libnccl-net-aws.so";
  EXPECT_TRUE(has(texts(all, Level::kProblem), "RINGPRESS_NEXT_NET_PLUGIN: cannot open"));
  all.next_plugin.problem.clear();
  EXPECT_TRUE(has(texts(all, Level::kProblem), "shows no net table"));
  all.next_plugin.tables = tables(9, 3, 0, 0);
  EXPECT_EQ(texts(all, Level::kProblem), "");
  EXPECT_TRUE(has(texts(all, Level::kOk), "/opt/libnccl-net-aws.so (net v9 at most)"));
}

TEST(Doctor, TheNextPluginIsNotToBeThisOne) {
  Surroundings all = healthy();
  all.next_plugin = all.plugin;
  all.next_plugin.network = "ringpress";
  EXPECT_TRUE(has(texts(all, Level::kProblem), "is ringpress itself: it is not used"));
  EXPECT_FALSE(has(texts(all, Level::kOk), "goes through"));
}

TEST(Doctor, TheHostsBackendIsAllThatThePluginHas) {
  for (const auto& [backend, is_refused] : {std::pair("cuda", true), {"host", false}}) {
    Surroundings all = healthy();
    all.environment.add("RINGPRESS_BACKEND", {backend, "environment"});
    EXPECT_EQ(has(texts(all, Level::kProblem), "RINGPRESS_BACKEND=cuda: "), is_refused);
    const auto warnings = plan_run(all.environment, "/opt/lib").warnings;
    EXPECT_EQ(warnings.size(), is_refused ? 1U : 0U);
  }
}

/// What is said of door A, one finding a line: its level, text and remedy.
std::string preloading(const Surroundings& all) {
  std::string text;
  for (const Finding& finding : judge_preloading(all)) {
    EXPECT_EQ(finding.about, "door A");
    text += finding.level == Level::kOk        ? "ok "
            : finding.level == Level::kWarning ? "warning "
                                               : "problem ";
    text += finding.text + " -> " + finding.remedy + "\n";
  }
  return text;
}

Surroundings ready_to_preload() {
  Surroundings all = healthy();
  all.preload.path = "/opt/lib/libringpress-preload.so";
  all.engine.path = "/opt/lib/libringpress.so.0";
  all.kernels.path = "/opt/lib/libringpress-cuda.so";
  return all;
}

TEST(Doctor, PreloadingNeedsKernelsAndARealNccl) {
  const std::string works = "ok LD_PRELOAD=/opt/lib/libringpress-preload.so catches programs";
  EXPECT_TRUE(preloading(ready_to_preload()).starts_with(works)) << preloading(ready_to_preload());
  const auto expect = [&](const Surroundings& all, const std::string& said) {
    EXPECT_FALSE(has(preloading(all), works)) << said;
    EXPECT_TRUE(has(preloading(all), said)) << preloading(all);
  };
  Surroundings all = ready_to_preload();
  all.kernels = {"", "cannot open libringpress-cuda.so"};
  expect(all,
         "warning there are no kernels (cannot open libringpress-cuda.so): calls go to NCCL as "
         "they are");
  all = ready_to_preload();
  all.nccl.clear();
  expect(all, "warning no NCCL is seen to pass calls on to");
  all.nccl = {nccl(22809, {}), nccl(22809, {})};
  all.nccl[0].is_ours = all.nccl[1].is_shim = true;
  expect(all, "warning no NCCL is seen to pass calls on to");
  all.named_nccl = nccl(22809, {});
  EXPECT_TRUE(preloading(all).starts_with(works)) << preloading(all);
  all = ready_to_preload();
  all.environment.add("RINGPRESS_REAL_NCCL", {"/no/such", "environment"});
  all.named_nccl.emplace().problem = "cannot open";
  expect(all, "problem RINGPRESS_REAL_NCCL=/no/such: cannot open");
  all = ready_to_preload();
  all.has_gpu_driver = false;
  expect(all, "warning there is no GPU driver");
  all = ready_to_preload();
  all.environment.add("RINGPRESS_BACKEND", {"host", "environment"});
  expect(all, "warning RINGPRESS_BACKEND=host is refused in a process that uses CUDA");
  all.preload = {};
  EXPECT_EQ(preloading(all),
            "warning there is no libringpress-preload.so -> build or install it\n");
}

TEST(Doctor, WhatIsThereAndCannotBeUsedIsAProblem) {
  const std::string fault = "/opt/lib/x is cut short";
  const std::string works = "ok LD_PRELOAD=";
  const auto expect = [&](DoorLibrary Surroundings::*library) {
    Surroundings all = ready_to_preload();
    all.*library = {"/opt/lib/x", fault};
    EXPECT_TRUE(has(preloading(all), "problem ")) << preloading(all);
    EXPECT_TRUE(has(preloading(all), fault)) << preloading(all);
    EXPECT_FALSE(has(preloading(all), works)) << preloading(all);
  };
  expect(&Surroundings::preload);
  expect(&Surroundings::preload_as_nccl);
  expect(&Surroundings::engine);
  expect(&Surroundings::kernels);
  Surroundings all = ready_to_preload();
  all.engine = {"", "there is no libringpress.so.0 in /opt/lib"};
  EXPECT_TRUE(has(preloading(all), "warning there is no libringpress.so.0")) << preloading(all);
}

TEST(Doctor, APluginThatCannotBeUsedIsAProblem) {
  Surroundings all = healthy();
  all.plugin.problem = "/opt/lib/libnccl-net-ringpress.so is cut short";
  all.plugin.tables.clear();
  EXPECT_TRUE(has(texts(all, Level::kProblem),
                  "NCCL cannot use libnccl-net-ringpress.so: /opt/lib/libnccl-net-ringpress.so is "
                  "cut short -> build or install it again"));
  EXPECT_FALSE(has(texts(all, Level::kOk), "libnccl-net-ringpress.so is"));
  all.plugin.problem.clear();
  EXPECT_TRUE(has(texts(all, Level::kProblem), "shows none of the tables that NCCL looks up"));
  all = healthy();
  all.plugin.network = "aws";
  EXPECT_TRUE(has(texts(all, Level::kProblem), "is the network plugin \"aws\", not this library"));
  all = healthy();
  all.plugin = {};
  all.plugin.problem = "no such file";
  all.plugin_folder = "/opt/lib/ringpress";
  all.run_plugin = {"/opt/lib/ringpress/x", "x", "", {}, "/opt/lib/ringpress/x is cut short"};
  EXPECT_TRUE(has(texts(all, Level::kProblem), "`ringpress run` would not help: /opt/lib"));
  EXPECT_FALSE(has(texts(all, Level::kProblem), "no such file -> start the job with"));
}

TEST(Doctor, JudgesTheNcclOfTheProgramAlone) {
  Surroundings all = healthy();
  all.nccl = {nccl(21801, tables(5, 1, 0, 0)), nccl(22809, tables(11, 5, 5, 1))};
  all.nccl[0].found = "found by the loader";
  all.nccl[1].found = "of PyTorch in /site/torch";
  EXPECT_TRUE(has(texts(all, Level::kProblem), "NCCL 2.18.1 takes"));
  EXPECT_TRUE(has(texts(all, Level::kOk), "every NCCL that a program may load is judged"));
  all.nccl[1].is_of_program = true;
  EXPECT_EQ(texts(all, Level::kProblem), "");
  EXPECT_FALSE(has(texts(all, Level::kOk), "every NCCL"));
  EXPECT_TRUE(has(texts(all, Level::kOk), "NCCL 2.28.9 (of PyTorch in /site/torch)"));
  EXPECT_TRUE(has(texts(all, Level::kOk), "another NCCL, 2.18.1 (found by the loader), which is"));
  all.nccl[0].problem = "/opt/libnccl.so.2 is cut short";  // It is not the program's.
  EXPECT_EQ(texts(all, Level::kProblem), "");
  EXPECT_TRUE(has(texts(all, Level::kWarning), "/opt/libnccl.so.2 is cut short"));
  all.nccl[1].is_of_program = false;
  EXPECT_TRUE(has(texts(all, Level::kProblem), "/opt/libnccl.so.2 is cut short"));
}

// One that does not know environment plugins counts only where a program may load it.
TEST(Doctor, AnotherNcclSetsNoVariables) {
  Surroundings all = healthy();
  all.environment = {};
  all.environment.add("NCCL_ENV_PLUGIN", {"ringpress", "/etc/nccl.conf"});
  all.nccl.push_back(nccl(22707, tables(10, 4, 4, 0)));
  EXPECT_TRUE(has(texts(all, Level::kProblem), "NCCL_COLLNET_ENABLE is not set"));
  all.nccl[0].is_of_program = true;
  EXPECT_EQ(texts(all, Level::kProblem), "");
}

TEST(Doctor, ReadsWhatTheLinkerLists) {
  const std::string before =
      "\tlinux-vdso.so.1 (0x0)\n\t/a/libnccl.so.2.so (0x1)\n"
      "\tlibnccl.so => /a/libnccl.so (0x2)\n";
  EXPECT_EQ(read_linked_nccl(before).state, Linked::kNo);
  EXPECT_EQ(read_linked_nccl("").state, Linked::kNo);
  const LinkedNccl found =
      read_linked_nccl(before + "\tlibnccl.so.2 => /no such/a (b)/libnccl.so.2 (0x7f)\n");
  EXPECT_EQ(found.state, Linked::kFound);
  EXPECT_EQ(found.path, "/no such/a (b)/libnccl.so.2");
  EXPECT_EQ(read_linked_nccl("\tlibnccl.so.2 => not found\n").state, Linked::kMissing);
}

TEST(Doctor, SaysWhatAProgramLacks) {
  Surroundings all = healthy();
  all.programs = {{"PyTorch in /site/torch", "", "does not find its libnccl.so.2", true}};
  EXPECT_TRUE(has(texts(all, Level::kProblem), "PyTorch in /site/torch does not find its"));
  all.programs[0].cannot_start = false;
  EXPECT_TRUE(has(texts(all, Level::kWarning), "PyTorch in /site/torch does not find its"));
}

// Under that name, too, as people are told to use it.
TEST(Doctor, TheLibraryThatIsPreloadedIsNotTakenForNccl) {
  Surroundings all = healthy();
  all.nccl.push_back(nccl(22809, {}));
  all.nccl.back().is_shim = true;
  EXPECT_EQ(texts(all, Level::kProblem), "");
}

TEST(Run, PlansWithoutDoingAnything) {
  JobEnvironment environment;
  environment.add("LD_LIBRARY_PATH", {"/a:/opt/lib", "environment"});
  environment.add("NCCL_COLLNET_ENABLE", {"0", "/etc/nccl.conf"});
  const RunPlan plan = plan_run(environment, "/opt/lib");
  const auto set = [&](const std::string& name) -> std::string {
    const auto entry = std::find_if(plan.sets.begin(), plan.sets.end(),
                                    [&](const auto& pair) { return pair.first == name; });
    return entry == plan.sets.end() ? "(not set)" : entry->second;
  };
  EXPECT_EQ(set("LD_LIBRARY_PATH"), "/a:/opt/lib");
  EXPECT_EQ(set("NCCL_NET_PLUGIN"), "ringpress");
  EXPECT_EQ(set("NCCL_COLLNET_ENABLE"), "(not set)");
  EXPECT_EQ(plan.keeps, std::vector<std::string>{"NCCL_COLLNET_ENABLE=0 (/etc/nccl.conf)"});
  ASSERT_EQ(plan.warnings.size(), 1U);
  EXPECT_TRUE(has(plan.warnings[0].text, "NCCL_COLLNET_ENABLE=0"));
  EXPECT_FALSE(plan.warnings[0].remedy.empty());
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command
