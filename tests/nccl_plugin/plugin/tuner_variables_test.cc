// What the tuner says, in a process of its own, to variables of the user's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/abi/tuner_v2.h"
#include "nccl_plugin/abi/tuner_v3.h"
#include "nccl_plugin/abi/tuner_v5.h"
#include "nccl_plugin/abi/tuner_v6.h"
#include "tests/support/in_child.h"

extern "C" {
extern const ringpress::abi::TunerV2 ncclTunerPlugin_v2;
extern const ringpress::abi::TunerV5 ncclTunerPlugin_v5;
extern const ringpress::abi::TunerV6 ncclTunerPlugin_v6;
}

namespace ringpress::testing {
namespace {

using Variables = std::vector<std::pair<const char*, const char*>>;

std::vector<std::string> told_lines;

void keep_told(abi::LogLevel, unsigned long, const char*, int, const char* format, ...) {
  char text[1000];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  told_lines.emplace_back(text);
}

/// What a process logs that starts with these variables, at init and where NCCL has no CollNet.
std::vector<std::string> lines_with(const Variables& variables, std::size_t nodes = 4) {
  told_lines.clear();
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  for (int communicator = 0; communicator < 2; ++communicator) {
    void* ctx = nullptr;
    EXPECT_EQ(ncclTunerPlugin_v5.init(&ctx, 7, 4, nodes, keep_told, nullptr, nullptr), ncclSuccess);
    std::vector<float> costs(7 * 3, abi::kNotAvailable);  // Algorithms by protocols.
    int channels = 0;
    ncclTunerPlugin_v5.get_coll_info(ctx, abi::Function::kAllReduce, 1 << 20, 1,
                                     reinterpret_cast<float**>(costs.data()), 7, 3, 0, &channels);
    ncclTunerPlugin_v5.finalize(ctx);
  }
  return told_lines;
}

std::size_t lines_that_have(const std::vector<std::string>& lines, const std::string& text) {
  return static_cast<std::size_t>(std::count_if(lines.begin(), lines.end(), [&](const auto& line) {
    return line.find(text) != std::string::npos;
  }));
}

TEST(PluginTunerVariables, NamesTheVariableThatLeavesNoCollNet) {
  const std::pair<const char*, const char*> silencing[] = {{"NCCL_ALGO", "allreduce:tree"},
                                                           {"NCCL_ALGO", "Ring"},
                                                           {"NCCL_PROTO", "LL,LL128"},
                                                           {"NCCL_COLLNET_ENABLE", "0"}};
  for (const auto& [name, value] : silencing) {
    in_child([name = name, value = value] {
      const auto lines = lines_with({{name, value}});
      const std::string variable = std::string(name) + "=" + value + ": ";
      EXPECT_EQ(lines_that_have(lines, "ringpress: " + variable), 1U) << "once";
      EXPECT_EQ(lines_that_have(lines, "stays uncompressed: " + variable), 2U);
    });
  }
}

TEST(PluginTunerVariables, BlamesNoVariableThatDoesNoHarm) {
  for (const auto& [variables, nodes] : std::vector<std::pair<Variables, std::size_t>>{
           {{{"NCCL_ALGO", "allreduce:collnetchain;allgather:ring"}}, 4},
           {{{"NCCL_ALGO", "Ring"}, {"RINGPRESS_CODEC", "none"}}, 4},
           {{{"NCCL_ALGO", "Ring"}, {"RINGPRESS", "observe"}}, 4},
           {{{"NCCL_ALGO", "Ring"}}, 1}}) {
    in_child([&variables = variables, nodes = nodes] {
      EXPECT_EQ(lines_that_have(lines_with(variables, nodes), "NCCL_ALGO"), 0U);
    });
  }
}

/// NCCL gives the communicator up where its tuner refuses. Before 2.28 its peers would wait for
/// ever.
TEST(PluginTunerVariables, RefusesAnInterfaceThatIsNotThere) {
  in_child([] {
    told_lines.clear();
    setenv("RINGPRESS_SOCKET_IFNAME", "nosuch0", 1);
    void* ctx = &told_lines;
    EXPECT_EQ(ncclTunerPlugin_v6.init(&ctx, 7, 4, 4, keep_told, nullptr, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ctx, nullptr);
    EXPECT_EQ(ncclTunerPlugin_v5.init(&ctx, 7, 1, 1, keep_told, nullptr, nullptr),
              ncclInvalidArgument);
    EXPECT_EQ(ncclTunerPlugin_v2.init(4, 4, keep_told, &ctx), ncclSuccess);
    EXPECT_EQ(ncclTunerPlugin_v2.destroy(ctx), ncclSuccess);
    EXPECT_EQ(lines_that_have(told_lines,
                              "RINGPRESS_SOCKET_IFNAME=nosuch0 matches no network "
                              "interface; there are: "),
              2U);
    EXPECT_EQ(ncclTunerPlugin_v6.finalize(nullptr), ncclSuccess);
    setenv("RINGPRESS_SOCKET_IFNAME", "lo", 1);
    EXPECT_EQ(ncclTunerPlugin_v6.init(&ctx, 7, 4, 4, keep_told, nullptr, nullptr), ncclSuccess);
    EXPECT_EQ(ncclTunerPlugin_v6.finalize(ctx), ncclSuccess);
  });
}

}  // namespace
}  // namespace ringpress::testing
