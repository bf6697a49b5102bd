// Settings from RINGPRESS_* environment variables (settings.inc holds the list).
#ifndef RINGPRESS_SETTINGS_H_
#define RINGPRESS_SETTINGS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/status.h"

namespace ringpress {

/// Every setting, parsed and checked.
struct Settings {
#define RINGPRESS_SETTING(field, type, name, default_text, agree, meaning) type field{};
#include "ringpress/settings.inc"
#undef RINGPRESS_SETTING
};

/// A row of the list, as text.
struct SettingDescription {
  const char* name;
  const char* default_text;
  const char* meaning;
  bool must_agree;
};
const std::vector<SettingDescription>& setting_descriptions();

/// Reads NAME=VALUE pairs (those whose name starts with RINGPRESS); the rest is the default. A
/// value that cannot be parsed is kInvalidArgument and names what is allowed (names are checked
/// later, by check_names()). An unknown name adds a line to `warnings` that names the nearest known
/// one. Codec names are checked by the codec factory.
Result<Settings> parse_settings(const std::vector<std::pair<std::string, std::string>>& environment,
                                std::vector<std::string>* warnings);

/// Checks the settings that name one of a few things (mode, algorithm, backend ...):
/// kInvalidArgument with the names allowed. Apart from parsing, so that a rank with a wrong name
/// still meets the others and all of them can say who has what.
Status check_names(const Settings& settings);

/// parse_settings() of this process's environment; warnings go to the log, once per process.
Result<Settings> settings_from_environment();

/// "NAME=value" of every setting that must agree on all ranks, in the order of the list; the
/// secret appears as a hash. Ranks exchange these lines and name the first that differs.
std::vector<std::string> agreement_lines(const Settings& settings);

}  // namespace ringpress

#endif  // RINGPRESS_SETTINGS_H_
