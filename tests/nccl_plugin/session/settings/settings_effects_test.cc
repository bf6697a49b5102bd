// Every variable changes something that can be seen from outside: none is only read.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ringpress/internal/settings.h"
#include "tests/nccl_plugin/session/settings/setting_rows.h"

namespace ringpress::testing {
namespace {

/// NCCL's own, which the library on host memory honours.
const std::vector<std::string> kNcclVariables = {
    "NCCL_COMM_ID", "NCCL_CONF_FILE",     "NCCL_DEBUG",        "NCCL_DEBUG_FILE",
    "NCCL_HOSTID",  "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_IFNAME"};

std::vector<SettingRow> all_setting_rows() {
  std::vector<SettingRow> all;
  for (const auto& rows :
       {rows_of_calls(), rows_of_choices(), rows_of_connections(), rows_of_files(),
        rows_of_nccl_doors(), rows_of_library(), rows_of_plugin(), rows_of_streams()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST(SettingsEffects, EveryVariableHasARow) {
  std::set<std::string> missing(kNcclVariables.begin(), kNcclVariables.end());
  for (const SettingDescription& setting : setting_descriptions()) missing.insert(setting.name);
  const std::set<std::string> known = missing;
#ifndef NVTX_RECORDER
  missing.erase("RINGPRESS_NVTX");  // This build has none.
#endif
  for (const SettingRow& row : all_setting_rows()) {
    EXPECT_EQ(known.count(row.name), 1U) << row.name << " is no variable";
    missing.erase(row.name);
  }
  for (const std::string& name : missing) ADD_FAILURE() << name << " has no row in this test";
}

class SettingEffect : public ::testing::TestWithParam<SettingRow> {};

TEST_P(SettingEffect, CanBeSeen) {
  const SettingRow& row = GetParam();
  ASSERT_NE(row.value, row.other);
  const std::string seen = row.observe({row.name, row.value});
  EXPECT_NE(seen, "");
  EXPECT_EQ(row.observe({row.name, row.value}), seen) << "of the same value";
  EXPECT_NE(row.observe({row.name, row.other}), seen) << row.value << " and " << row.other;
}

INSTANTIATE_TEST_SUITE_P(Of, SettingEffect, ::testing::ValuesIn(all_setting_rows()),
                         [](const auto& tested) { return tested.param.test_name(); });

}  // namespace
}  // namespace ringpress::testing
