// Libraries that do harm as they are loaded, and files that cannot be read.
#include "nccl_plugin/command/open_library.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "nccl_plugin/command/child.h"
#include "nccl_plugin/command/libraries.h"

namespace ringpress::nccl_plugin::command {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSoon(300);

PluginLibrary look_at_misbehaving(const char* how, milliseconds patience = kChildPatience) {
  setenv("MISBEHAVIOUR", how, 1);
  PluginLibrary found = look_at_plugin(MISBEHAVING_LIBRARY, "net", patience);
  unsetenv("MISBEHAVIOUR");
  return found;
}

TEST(OpenLibrary, WhatItDoesReachesAChildOnly) {
  const PluginLibrary calm = look_at_misbehaving("nothing");
  EXPECT_TRUE(calm.can_be_loaded()) << calm.problem;
  EXPECT_EQ(calm.network, "misbehaving");
  const auto expect = [](const PluginLibrary& found, const std::string& fate) {
    EXPECT_FALSE(found.can_be_loaded());
    EXPECT_EQ(found.path, MISBEHAVING_LIBRARY);
    EXPECT_NE(found.problem.find(MISBEHAVING_LIBRARY), std::string::npos) << found.problem;
    EXPECT_NE(found.problem.find(fate), std::string::npos) << found.problem;
  };
  expect(look_at_misbehaving("crash"), "died of signal 6 (");
  expect(look_at_misbehaving("exit"), "was ended, with exit status 3");
  expect(look_at_misbehaving("hang", kSoon), "took longer than 0.3 s");
}

TEST(OpenLibrary, WhatItPrintsIsNotPartOfTheAnswer) {
  testing::internal::CaptureStdout();
  const PluginLibrary found = look_at_misbehaving("print");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_TRUE(found.can_be_loaded()) << found.problem;
}

TEST(AnswerOfChild, SaysWhatBecameOfIt) {
  EXPECT_EQ(answer_of_child([] { return std::string("yes"); }).text, "yes");
  EXPECT_NE(answer_of_child([] { return std::string(); }).problem, "");
  const ChildAnswer dead = answer_of_child([]() -> std::string { std::abort(); });
  EXPECT_EQ(dead.text, "");
  EXPECT_NE(dead.problem.find("signal 6"), std::string::npos) << dead.problem;
}

// Root may read everything, so a child becomes somebody else.
TEST(OpenLibrary, SaysWhatCannotBeRead) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("open_library." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  chmod(folder.c_str(), 0755);
  const std::string file = folder / "unreadable.so";
  std::ofstream(file) << "x";
  chmod(file.c_str(), 0);
  const ChildAnswer answer = answer_of_child([&] {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setuid(kNobody) != 0) return std::string("is not root, and yet is");
    return open_library(file).problem;
  });
  EXPECT_EQ(answer.text, file + " cannot be read: Permission denied") << answer.problem;
  EXPECT_EQ(open_library(folder).problem, folder.string() + " is a folder");
  const std::string pipe = folder / "pipe.so";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(open_library(pipe).problem, pipe + " is no regular file");
  std::filesystem::remove_all(folder);
}

TEST(OpenLibrary, LooksWhereTheLinkerLooksFirst) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("open_library_path." + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "a");
  std::filesystem::create_directories(folder / "b");
  std::ofstream(folder / "b" / "libx.so") << "x";
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const std::string old = before == nullptr ? "" : before;
  setenv("LD_LIBRARY_PATH", ((folder / "a").string() + ":" + (folder / "b").string()).c_str(), 1);
  const std::string there = folder / "b" / "libx.so";
  EXPECT_EQ(files_of_library("libx.so"), std::vector<std::string>{there});
  EXPECT_EQ(open_library("libx.so").problem,
            there + " is no library: it does not begin with an ELF header");
  EXPECT_EQ(files_of_library("/no/slash/looks/elsewhere.so").size(), 1U);
  EXPECT_EQ(open_library("libno-such-library.so").path, "");
  setenv("LD_LIBRARY_PATH", old.c_str(), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command
