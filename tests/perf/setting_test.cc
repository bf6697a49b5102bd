#include "perf/all_reduce/setting.h"

#include <gtest/gtest.h>

#include "tests/support/scoped_environment.h"

namespace ringpress::perf {
namespace {

TEST(ControlSetting, OfOneSettingIsThatOne) {
  EXPECT_EQ(control_setting({{"default", "", ""}}).codec, "");
  EXPECT_EQ(control_setting({{"q4", "q4", "ring"}}).algorithm, "ring");
}

TEST(ControlSetting, OfSeveralIsExact) {
  EXPECT_EQ(control_setting({{"q4", "q4", ""}, {"q8", "q8", ""}}).codec, "none");
}

TEST(NamedCodec, IsTheSettingsOrElseTheEnvironments) {
  const test::ScopedEnvironment codec({{"RINGPRESS_CODEC", "q8"}});
  EXPECT_EQ(named_codec({"q4", "q4", ""}), "q4");
  EXPECT_EQ(named_codec({"default", "", ""}), "q8");
}

TEST(NamedCodec, IsChosenWhereALibraryOfOursIsLoaded) {
  EXPECT_EQ(named_codec({}), "none");
  const test::ScopedEnvironment plugin({{"NCCL_NET_PLUGIN", "ringpress"}});
  EXPECT_EQ(named_codec({}), "auto");
  const test::ScopedEnvironment off({{"RINGPRESS", "off"}});
  EXPECT_EQ(named_codec({}), "none");
}

}  // namespace
}  // namespace ringpress::perf
