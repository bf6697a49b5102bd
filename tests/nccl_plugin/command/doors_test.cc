// Which door `ringpress run --door auto` takes, in surroundings that this machine does not have.
#include "nccl_plugin/command/doors.h"

#include <gtest/gtest.h>

#include <string>

namespace ringpress::nccl_plugin::command {
namespace {

const DoorFiles kAll = {"/p/libringpress-preload.so", "/p/preload/libnccl.so.2", "/p/ringpress",
                        "/p/host"};

Tables whole_tables() {
  Tables tables;
  for (const TableKind kind : kTableKinds) tables[kind] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  return tables;
}

/// A GPU, NCCL, and all of this library, as in a job of door B.
Surroundings whole() {
  Surroundings all;
  for (const char* name :
       {"NCCL_COLLNET_ENABLE", "NCCL_NET_PLUGIN_REF_COUNT", "NCCL_COMM_SPLIT_SHARE_RESOURCES"}) {
    all.environment.add(name, {"1", "environment"});
  }
  all.environment.add("NCCL_NET_PLUGIN", {"ringpress", "environment"});
  all.plugin.path = all.plugin.found_as = "/p/ringpress/libnccl-net-ringpress.so";
  all.plugin.network = "ringpress";
  all.plugin.tables = whole_tables();
  all.preload.path = kAll.preload;
  all.preload_as_nccl.path = kAll.preload_as_nccl;
  all.engine.path = "/p/libringpress.so.0";
  all.kernels.path = "/p/libringpress-cuda.so";
  NcclLibrary nccl;
  nccl.path = "/opt/libnccl.so.2";
  nccl.version = 22809;
  nccl.tables = whole_tables();
  all.nccl = {nccl};
  all.has_gpu_driver = true;
  return all;
}

std::string joined(const DoorChoice& choice) {
  std::string text;
  for (const std::string& reason : choice.reasons) text += reason + "\n";
  return text;
}

TEST(ChooseDoor, PreloadedWhereBothWork) {
  const DoorChoice choice = choose_door(whole(), kAll);
  EXPECT_EQ(choice.door, Door::kPreloaded) << joined(choice);
  Surroundings all = whole();
  all.environment.add("NCCL_ALGO", {"Ring", "environment"});  // It is in the plugin's way alone.
  EXPECT_EQ(choose_door(all, kAll).door, Door::kPreloaded);
}

TEST(ChooseDoor, ThePluginWherePreloadedNothingWouldBeCompressed) {
  Surroundings all = whole();
  all.kernels = {"", "libringpress-cuda.so: not found"};
  const DoorChoice choice = choose_door(all, kAll);
  EXPECT_EQ(choice.door, Door::kPlugin) << joined(choice);
  EXPECT_NE(joined(choice).find("door A: there are no kernels"), std::string::npos);
  DoorFiles files = kAll;
  files.preload = "";
  EXPECT_EQ(choose_door(whole(), files).door, Door::kPlugin);
}

TEST(ChooseDoor, NoneWhereNothingWouldBeCompressed) {
  Surroundings all = whole();
  all.environment.add("NCCL_ALGO", {"Ring", "environment"});
  all.kernels = {"", "libringpress-cuda.so: not found"};
  const DoorChoice choice = choose_door(all, kAll);
  EXPECT_FALSE(choice.door.has_value());
  EXPECT_NE(joined(choice).find("door B: "), std::string::npos) << joined(choice);
  EXPECT_NE(joined(choice).find("door A: there are no kernels"), std::string::npos);
}

TEST(ChooseDoor, HostMemoryWithoutAGpu) {
  Surroundings all = whole();
  all.has_gpu_driver = false;
  EXPECT_EQ(choose_door(all, kAll).door, Door::kHost);
  DoorFiles files = kAll;
  files.host_folder = "";
  EXPECT_FALSE(choose_door(all, files).door.has_value());
}

TEST(LibraryToPreload, TheOneThatReachesTheProgram) {
  const ProgramNccl linked = {"PyTorch", "/opt/libnccl.so.2", "", false};
  const ProgramNccl other = {"/bin/x", "", "is not linked with libnccl.so.2", false};
  EXPECT_EQ(library_to_preload(kAll, {linked}), kAll.preload);
  EXPECT_EQ(library_to_preload(kAll, {other}), kAll.preload_as_nccl);
  EXPECT_EQ(library_to_preload(kAll, {}), kAll.preload_as_nccl);
}

TEST(ParseDoor, OneLetter) {
  EXPECT_EQ(parse_door("A"), Door::kPreloaded);
  EXPECT_EQ(parse_door("b"), Door::kPlugin);
  EXPECT_EQ(parse_door("C"), Door::kHost);
  for (const char* none : {"", "D", "AB", "a ", "\x01", "auto"}) {
    EXPECT_FALSE(parse_door(none).has_value()) << none;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command
