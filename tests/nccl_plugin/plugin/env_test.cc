// The environment plugin through its tables, and which of the user's variables are in the way.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "nccl_plugin/abi/env_v1.h"
#include "nccl_plugin/abi/env_v2.h"
#include "nccl_plugin/plugin/door_variables.h"
#include "tests/support/scoped_environment.h"

extern "C" {
extern const ringpress::abi::EnvV1 ncclEnvPlugin_v1;
extern const ringpress::abi::EnvV2 ncclEnvPlugin_v2;
}

namespace ringpress::nccl_plugin::plugin {
namespace {

void silent(abi::LogLevel, unsigned long, const char*, int, const char*, ...) {}

std::string answer_of(const char* name) {
  const char* const value = ncclEnvPlugin_v2.get_env(name);
  return value == nullptr ? "(null)" : value;
}

class PluginEnv : public testing::Test {
 protected:
  PluginEnv()
      : environment_({{"RINGPRESS", nullptr},
                      {"NCCL_NET", nullptr},
                      {"NCCL_NET_PLUGIN", "ringpress"},
                      {"NCCL_ENV_PLUGIN", nullptr},
                      {"NCCL_COLLNET_ENABLE", nullptr},
                      {"NCCL_NET_PLUGIN_REF_COUNT", nullptr},
                      {"NCCL_COMM_SPLIT_SHARE_RESOURCES", nullptr}}) {
    EXPECT_EQ(ncclEnvPlugin_v2.init(2, 30, 7, "", silent), ncclSuccess);
  }
  ~PluginEnv() override { EXPECT_EQ(ncclEnvPlugin_v2.finalize(), ncclSuccess); }
  test::ScopedEnvironment environment_;
};

TEST_F(PluginEnv, AnswersWhatTheDoorNeedsAndNothingElse) {
  EXPECT_EQ(answer_of("NCCL_COLLNET_ENABLE"), "1");
  EXPECT_EQ(answer_of("NCCL_NET_PLUGIN_REF_COUNT"), "1");
  EXPECT_EQ(answer_of("NCCL_COMM_SPLIT_SHARE_RESOURCES"), "1");
  EXPECT_EQ(answer_of("NCCL_NET_PLUGIN"), "ringpress");
  EXPECT_EQ(answer_of("NCCL_NO_SUCH_VARIABLE"), "(null)");
  EXPECT_EQ(answer_of(""), "(null)");
  EXPECT_EQ(ncclEnvPlugin_v1.get_env(nullptr), nullptr);
  EXPECT_EQ(answer_of("PATH"), std::getenv("PATH"));
}

TEST_F(PluginEnv, TheFirstVersionIsTheSame) {
  EXPECT_EQ(ncclEnvPlugin_v1.init(2, 28, 7, ""), ncclSuccess);
  EXPECT_EQ(ncclEnvPlugin_v1.get_env, ncclEnvPlugin_v2.get_env);
  EXPECT_STREQ(ncclEnvPlugin_v1.name, "ringpress");
  EXPECT_EQ(ncclEnvPlugin_v1.finalize(), ncclSuccess);
}

TEST_F(PluginEnv, TheProcessWins) {
  const test::ScopedEnvironment own(
      {{"NCCL_COLLNET_ENABLE", "0"}, {"NCCL_NET_PLUGIN_REF_COUNT", ""}});
  EXPECT_EQ(answer_of("NCCL_COLLNET_ENABLE"), "0");
  EXPECT_EQ(answer_of("NCCL_NET_PLUGIN_REF_COUNT"), "");
}

TEST_F(PluginEnv, ReadsTheEnvironmentAnewAndKeepsWhatItGave) {
  const char* first = nullptr;
  {
    const test::ScopedEnvironment own({{"NCCL_COLLNET_ENABLE", "first value"}});
    first = ncclEnvPlugin_v2.get_env("NCCL_COLLNET_ENABLE");
  }
  const test::ScopedEnvironment own({{"NCCL_COLLNET_ENABLE", "second value"}});
  EXPECT_EQ(answer_of("NCCL_COLLNET_ENABLE"), "second value");
  EXPECT_STREQ(first, "first value");
}

TEST_F(PluginEnv, OffAnswersAsIfItWereNotThere) {
  const test::ScopedEnvironment own({{"RINGPRESS", "off"}, {"NCCL_ENV_PLUGIN", "ringpress"}});
  for (const DoorVariable& variable : kDoorVariables) EXPECT_EQ(answer_of(variable.name), "(null)");
  const test::ScopedEnvironment none({{"NCCL_NET_PLUGIN", nullptr}});
  EXPECT_EQ(answer_of("NCCL_NET_PLUGIN"), "(null)");
}

TEST_F(PluginEnv, AnothersCollNetIsNotSwitchedOn) {
  for (const char* plugins : {"sharp", "none", "", "sharp,ringpress", "notringpress"}) {
    const test::ScopedEnvironment own({{"NCCL_NET_PLUGIN", plugins}});
    EXPECT_EQ(answer_of("NCCL_COLLNET_ENABLE"), "(null)") << plugins;
    EXPECT_EQ(answer_of("NCCL_NET_PLUGIN"), plugins);
  }
  const test::ScopedEnvironment net({{"NCCL_NET", "Socket"}});
  EXPECT_EQ(answer_of("NCCL_COLLNET_ENABLE"), "(null)");
}

TEST_F(PluginEnv, TheNetworkIsOursUnderEachOfItsNames) {
  for (const char* plugins :
       {"ringpress", "/opt/libnccl-net-ringpress.so", "ringpress,sharp", ",ringpress"}) {
    const test::ScopedEnvironment own({{"NCCL_NET_PLUGIN", plugins}, {"NCCL_NET", "Ringpress"}});
    EXPECT_EQ(answer_of("NCCL_COLLNET_ENABLE"), "1") << plugins;
  }
  const test::ScopedEnvironment renamed(
      {{"NCCL_NET_PLUGIN", "/opt/x.so"}, {"NCCL_ENV_PLUGIN", "/opt/x.so"}});
  EXPECT_EQ(answer_of("NCCL_COLLNET_ENABLE"), "1");
}

// Who names this library as environment plugin gets its network; under the default name alone it
// takes nobody's network away.
TEST_F(PluginEnv, TheNetPluginFollowsAnExplicitWish) {
  const test::ScopedEnvironment none({{"NCCL_NET_PLUGIN", nullptr}});
  EXPECT_EQ(answer_of("NCCL_NET_PLUGIN"), "(null)");
  EXPECT_EQ(answer_of("NCCL_COLLNET_ENABLE"), "(null)");
  const test::ScopedEnvironment wish({{"NCCL_ENV_PLUGIN", "/opt/lib.so"}});
  EXPECT_EQ(answer_of("NCCL_NET_PLUGIN"), "/opt/lib.so");
  EXPECT_EQ(answer_of("NCCL_COLLNET_ENABLE"), "1");
  const test::ScopedEnvironment list({{"NCCL_ENV_PLUGIN", "/opt/a,b.so"}});  // Not fit for a list.
  EXPECT_EQ(answer_of("NCCL_NET_PLUGIN"), "(null)");
  EXPECT_EQ(answer_of("NCCL_COLLNET_ENABLE"), "(null)");
}

TEST_F(PluginEnv, ThreadsMayAskTogether) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int call = 0; call < 500; ++call) {
        for (const char* name : {"PATH", "NCCL_COLLNET_ENABLE", "NCCL_NET_PLUGIN", "NCCL_X"}) {
          const char* const value = ncclEnvPlugin_v2.get_env(name);
          EXPECT_NE(value == nullptr, value != nullptr && std::strlen(value) > 0);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(DoorVariables, TheDefaultNameCountsIfItIsThisLibrary) {
  const Lookup empty = [](const char*) -> const char* { return nullptr; };
  EXPECT_STREQ(door_default("NCCL_COLLNET_ENABLE", empty, true), "1");
  EXPECT_EQ(door_default("NCCL_COLLNET_ENABLE", empty, false), nullptr);
  EXPECT_EQ(door_default("NCCL_NET_PLUGIN", empty, true), nullptr);
}

std::map<std::string, bool> conflicts_of(const std::map<std::string, std::string>& variables) {
  std::map<std::string, bool> found;
  const auto lookup = [&](const char* name) -> const char* {
    const auto entry = variables.find(name);
    return entry == variables.end() ? nullptr : entry->second.c_str();
  };
  for (const Conflict& conflict : conflicts(lookup)) {
    EXPECT_FALSE(conflict.loses.empty());
    found[conflict.variable] = conflict.fatal;
  }
  return found;
}

TEST(DoorVariables, NamesEveryConflict) {
  using Found = std::map<std::string, bool>;
  EXPECT_EQ(conflicts_of({}), Found{});
  EXPECT_EQ(conflicts_of({{"NCCL_NET_PLUGIN", "ringpress"},
                          {"NCCL_NET", "RINGPRESS"},
                          {"NCCL_ALGO", "Ring,CollnetChain"},
                          {"NCCL_PROTO", "^LL"},
                          {"NCCL_COLLNET_ENABLE", "1"},
                          {"NCCL_TUNER_PLUGIN", "/a/libnccl-tuner-ringpress.so"}}),
            Found{});
  EXPECT_EQ(conflicts_of({{"NCCL_NET_PLUGIN", "none"}}), (Found{{"NCCL_NET_PLUGIN=none", true}}));
  EXPECT_EQ(conflicts_of({{"NCCL_NET_PLUGIN", "notringpress"}}),
            (Found{{"NCCL_NET_PLUGIN=notringpress", true}}));
  EXPECT_EQ(conflicts_of({{"NCCL_NET", "IB"}}), (Found{{"NCCL_NET=IB", true}}));
  EXPECT_EQ(conflicts_of({{"NCCL_ALGO", "Ring"}}), (Found{{"NCCL_ALGO=Ring", true}}));
  EXPECT_EQ(conflicts_of({{"NCCL_ALGO", "^Tree"}}), Found{});
  EXPECT_EQ(conflicts_of({{"NCCL_ALGO", "^CollnetChain"}}),
            (Found{{"NCCL_ALGO=^CollnetChain", false}}));  // An NVSwitch would do.
  EXPECT_EQ(conflicts_of({{"NCCL_PROTO", "LL128"}}), (Found{{"NCCL_PROTO=LL128", true}}));
  EXPECT_EQ(conflicts_of({{"NCCL_COLLNET_ENABLE", "0"}}), (Found{{"NCCL_COLLNET_ENABLE=0", true}}));
  EXPECT_EQ(conflicts_of({{"NCCL_TUNER_PLUGIN", "x"}, {"NCCL_PROFILER_PLUGIN", "y"}}),
            (Found{{"NCCL_TUNER_PLUGIN=x", false}, {"NCCL_PROFILER_PLUGIN=y", false}}));
}

}  // namespace
}  // namespace ringpress::nccl_plugin::plugin
