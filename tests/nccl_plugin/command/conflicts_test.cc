// The user's own variables of NCCL, read as NCCL reads them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "nccl_plugin/plugin/door_variables.h"
#include "nccl_plugin/plugin/function_lists.h"

namespace ringpress::nccl_plugin::plugin {
namespace {

Lookup lookup_in(const std::map<std::string, std::string>& variables) {
  return [&variables](const char* name) -> const char* {
    const auto entry = variables.find(name);
    return entry == variables.end() ? nullptr : entry->second.c_str();
  };
}

enum class Loss { kNothing, kSomething, kAll };

Loss loss_of(const std::string& name, const std::string& value) {
  const std::map<std::string, std::string> variables = {{name, value}};
  const std::vector<Conflict> found = conflicts(lookup_in(variables));
  if (found.empty()) return Loss::kNothing;
  EXPECT_EQ(found.size(), 1U) << name << "=" << value;
  EXPECT_EQ(found[0].variable, name + "=" + value);
  EXPECT_FALSE(found[0].loses.empty());
  EXPECT_FALSE(found[0].remedy.empty()) << name << "=" << value;
  return found[0].fatal ? Loss::kAll : Loss::kSomething;
}

TEST(Conflicts, TheNetPluginMustBeThisLibrary) {
  for (const char* ours : {"ringpress", "libnccl-net-ringpress.so", "./libnccl-net-ringpress.so",
                           "/opt/a b/libnccl-net-ringpress.so", "ringpress,sharp", ",ringpress",
                           "/opt/libnccl-env-ringpress.so,other"}) {
    EXPECT_EQ(loss_of("NCCL_NET_PLUGIN", ours), Loss::kNothing) << ours;
  }
  for (const char* other :
       {"notringpress", "ringpress2", "Ringpress", "ringpress.so", "libringpress.so", "none", "",
        "/opt/ringpress/libnccl-net.so", "/opt/ringpress", "libnccl-net-ringpress", ",",
        "sharp,ringpress", " ringpress", "/opt/notlibnccl-net-ringpress.so"}) {
    EXPECT_EQ(loss_of("NCCL_NET_PLUGIN", other), Loss::kAll) << other;
  }
}

TEST(Conflicts, SoMustTheOtherPlugins) {
  for (const char* name : {"NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN", "NCCL_ENV_PLUGIN"}) {
    for (const char* ours : {"ringpress", "/opt/libnccl-tuner-ringpress.so",
                             "libnccl-profiler-ringpress.so", "libnccl-env-ringpress.so"}) {
      EXPECT_EQ(loss_of(name, ours), Loss::kNothing) << name << "=" << ours;
    }
    for (const char* other : {"notringpress", "none", "/opt/ringpress/x.so", "ringpress,x"}) {
      EXPECT_EQ(loss_of(name, other), Loss::kSomething) << name << "=" << other;
    }
  }
}

TEST(Conflicts, ManyNodesAreNeeded) {
  for (const char* harmless : {"", "0", "1", "2", "-1"}) {
    EXPECT_EQ(loss_of("NCCL_COLLNET_NODE_THRESHOLD", harmless), Loss::kNothing) << harmless;
  }
  for (const char* partly : {"3", "0x10", "1000000"}) {
    EXPECT_EQ(loss_of("NCCL_COLLNET_NODE_THRESHOLD", partly), Loss::kSomething) << partly;
  }
}

TEST(Conflicts, AlgorithmsAreReadAsNcclReadsThem) {
  for (const char* harmless :
       {"", "CollNetChain", "collnetchain,Ring", "^CollNetDirect", "^Ring,Tree", "^",
        "allreduce:CollNetChain;broadcast:ring", "Ring;AllReduce:CollNetChain", "broadcast:ring",
        "ring;allreduce:^ring", "allreduce:ring;allreduce:collnetchain", "^NVLS,NVLSTree,PAT"}) {
    EXPECT_EQ(loss_of("NCCL_ALGO", harmless), Loss::kNothing) << harmless;
  }
  for (const char* fatal :
       {"Ring", "Ring,Tree", "^CollNetChain,CollNetDirect,NVLS", "allreduce:ring",
        "CollNetChain;allreduce:ring", "^CollNetDirect;allreduce:^collnetchain,nvls,collnetdirect",
        "NVLSTree", ","}) {
    EXPECT_EQ(loss_of("NCCL_ALGO", fatal), Loss::kAll) << fatal;
  }
  // Those that are left need an NVSwitch.
  for (const char* partly : {"CollNetDirect", "^CollNetChain", "NVLS", "allreduce:^collnetchain"}) {
    EXPECT_EQ(loss_of("NCCL_ALGO", partly), Loss::kSomething) << partly;
  }
  // From 2.24 on NCCL makes no communicator with these.
  for (const char* refused :
       {"CollNet", "Rings", "allreduce:collnetchain;ring", "allreduces:collnetchain",
        "allreduce:", ";collnetchain", "broadcast:what", ":"}) {
    EXPECT_EQ(loss_of("NCCL_ALGO", refused), Loss::kAll) << refused;
  }
}

TEST(Conflicts, SoAreProtocols) {
  for (const char* harmless : {"Simple", "simple,LL", "^LL", "^LL128,LL", "LL;allreduce:simple",
                               "broadcast:LL", "LL128;allreduce:^LL"}) {
    EXPECT_EQ(loss_of("NCCL_PROTO", harmless), Loss::kNothing) << harmless;
  }
  for (const char* fatal : {"LL", "LL,LL128", "^Simple", "allreduce:LL", "Simple;allreduce:LL128",
                            "Simpler", "^LL;Simple"}) {
    EXPECT_EQ(loss_of("NCCL_PROTO", fatal), Loss::kAll) << fatal;
  }
}

/// What the lists take away together from an NCCL of this version.
Loss loss_of_lists(const std::map<std::string, std::string>& variables, int version) {
  Loss loss = Loss::kNothing;
  for (const Conflict& conflict : conflicts(lookup_in(variables), version)) {
    EXPECT_FALSE(conflict.loses.empty());
    EXPECT_FALSE(conflict.remedy.empty());
    loss = std::max(loss, conflict.fatal ? Loss::kAll : Loss::kSomething);
  }
  return loss;
}

// Read in NCCL's source before and after 2.31, and in the binary of 2.32.3.
TEST(Conflicts, ListsAreReadAsThatVersionReadsThem) {
  struct Case {
    std::map<std::string, std::string> variables;
    Loss before, since;  // 2.31.
  };
  const char* const kAlgo = "NCCL_ALGO";
  const char* const kProto = "NCCL_PROTO";
  const char* const kKernel = "NCCL_SYM_KERNEL";
  constexpr Loss kNothing = Loss::kNothing, kSomething = Loss::kSomething, kAll = Loss::kAll;
  const Case cases[] = {
      {{{kAlgo, "broadcast:ring"}}, kNothing, kNothing},
      {{{kAlgo, "broadcast:ring"}, {kProto, "Simple"}}, kNothing, kAll},
      {{{kAlgo, "broadcast:ring"}, {kProto, "^LL"}}, kNothing, kAll},
      {{{kAlgo, "broadcast:ring"}, {kProto, "allreduce:Simple"}}, kNothing, kAll},
      {{{kAlgo, "broadcast:ring"}, {kProto, "broadcast:LL"}}, kNothing, kNothing},
      {{{kAlgo, "broadcast:ring"}, {kProto, "^"}}, kNothing, kNothing},
      {{{kAlgo, "broadcast:ring;allreduce:CollNetChain"}, {kProto, "Simple"}}, kNothing, kNothing},
      {{{kAlgo, "^Ring"}, {kProto, "Simple"}}, kNothing, kNothing},
      {{{kAlgo, "^Ring"}, {kProto, "LL"}}, kAll, kAll},
      {{{kAlgo, "CollNetDirect"}}, kSomething, kSomething},
      {{{kAlgo, "Ring"}}, kAll, kAll},
      {{{kAlgo, ","}}, kAll, kNothing},
      {{{kProto, ","}}, kAll, kNothing},
      {{{kAlgo, "CollNetChain"}, {kProto, ","}}, kAll, kAll},
      {{{kKernel, "AllReduce_AGxLL_R"}}, kNothing, kAll},
      {{{kKernel, "allgather:AllGather_LL"}}, kNothing, kNothing},
      {{{kKernel, "allgather:AllGather_LL"}, {kProto, "Simple"}}, kNothing, kAll},
      {{{kKernel, "AllReduce_AGxLL_R"}, {kAlgo, "CollNetChain"}}, kNothing, kNothing},
      {{{kKernel, "^"}}, kNothing, kNothing},
      {{{kAlgo, "Rings"}}, kAll, kAll},
  };
  for (const Case& one : cases) {
    std::string text;
    for (const auto& [name, value] : one.variables) text += name + "=" + value + " ";
    for (const int version : {21903, 23007}) {
      EXPECT_EQ(loss_of_lists(one.variables, version), one.before) << text << version;
    }
    for (const int version : {23102, 23203}) {
      EXPECT_EQ(loss_of_lists(one.variables, version), one.since) << text << version;
    }
    // Where the version is not known, what only later ones take away is not certain.
    const Loss unknown = one.before == kNothing && one.since == kAll ? kSomething : one.before;
    EXPECT_EQ(loss_of_lists(one.variables, 0), unknown) << text;
  }
}

TEST(FunctionLists, NameWhatIsRefused) {
  EXPECT_EQ(parse_function_list("Ring,Rung", kAlgorithmNames).refused, "Rung");
  EXPECT_EQ(parse_function_list("all:Ring", kAlgorithmNames).refused, "all");
  EXPECT_EQ(parse_function_list(nullptr, kProtocolNames).left.size(), 3U);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin
