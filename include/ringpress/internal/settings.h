// Settings from RINGPRESS_* environment variables (settings.inc holds the list).
#ifndef RINGPRESS_INTERNAL_SETTINGS_H_
#define RINGPRESS_INTERNAL_SETTINGS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringpress/internal/address_choice.h"
#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/log.h"
#include "ringpress/internal/rules.h"
#include "ringpress/internal/setting_types.h"
#include "ringpress/internal/status.h"

namespace ringpress {

/// What NCCL's own variables say, where they mean something to this library. Empty: not set.
struct NcclVariables {
  std::string host_id;     // NCCL_HOSTID
  std::string comm_id;     // NCCL_COMM_ID
  std::string debug;       // NCCL_DEBUG
  std::string debug_file;  // NCCL_DEBUG_FILE
};

/// What the user says of how calls are made: for those who decide on calls.
struct CallSettings {
#define RINGPRESS_SETTING(field, type, name, default_text, agree, meaning)
#define RINGPRESS_CALL_SETTING(field, type, name, default_text, agree, meaning) type field{};
#include "ringpress/internal/settings.inc"
#undef RINGPRESS_SETTING
  std::vector<Rule> rule_list;  // Of the file that `rules` names.
  /// What the program calls the communicator that is made with these settings; "": nothing. No
  /// value: nobody knows here.
  std::optional<std::string> comm_name;
};

/// The codec that all calls get for which no rule names one: RINGPRESS_CODEC, or the budget's where
/// that is auto.
inline const std::string& usual_codec(const CallSettings& settings) {
  return settings.codec.is_automatic() ? settings.budget.codec : *settings.codec.specification;
}

/// True where the engine chooses how calls are made, within the budget.
inline bool is_automatic(const CallSettings& settings) {
  return settings.codec.is_automatic() && settings.mode == Mode::kOn && !settings.deterministic;
}

/// By which calls go that are not split by hosts, if no rule and nothing that is tried says
/// otherwise. In streams rules choose no other one but `hier`.
inline Algorithm unsplit_algorithm(const CallSettings& settings) {
  const bool can_be = settings.algorithm && traits_of(*settings.algorithm).runs_on_mesh;
  return can_be ? *settings.algorithm : Algorithm::kSra;
}

/// Whether residuals are kept.
inline bool has_error_feedback(const CallSettings& settings) {
  return settings.feedback != FeedbackChoice::kOff;
}

/// Every setting.
struct Settings : CallSettings {
#define RINGPRESS_SETTING(field, type, name, default_text, agree, meaning) type field{};
#define RINGPRESS_CALL_SETTING(field, type, name, default_text, agree, meaning)
#include "ringpress/internal/settings.inc"
#undef RINGPRESS_SETTING
  /// The first value that could not be parsed, with what is allowed; empty if all could. Its
  /// setting has the default. Kept, so that a rank with a wrong value still meets the others and
  /// all of them can say who has what.
  std::string mistake;
  std::string rules_digest = "none";  // What all ranks' files of `rules` have in common.
  NcclVariables nccl;
  /// What the program gave ncclSetEncryption; empty: nothing.
  std::string program_key;
  /// RINGPRESS_SOCKET_IFNAME, else NCCL_SOCKET_IFNAME, with NCCL_SOCKET_FAMILY.
  AddressChoice address;
  /// Of a communicator that is one of several behind a door's: that reports for all of them.
  bool is_worker = false;
};

/// Whether connections over a network are encrypted.
inline bool is_encrypted(const Settings& settings) {
  switch (settings.encryption) {
    case EncryptionChoice::kAuto:
      return !settings.program_key.empty();
    case EncryptionChoice::kOn:
      return true;
    case EncryptionChoice::kOff:
      return false;
  }
  return true;
}

/// What is mixed into the secret of an id: of the user and of the program.
inline std::string extra_secret(const Settings& settings) {
  if (settings.program_key.empty()) return settings.secret;
  return settings.secret + '\0' + settings.program_key;
}

/// A row of the list, as text.
struct SettingDescription {
  const char* name;
  const char* default_text;
  const char* meaning;
  bool must_agree;
};
const std::vector<SettingDescription>& setting_descriptions();

/// Reads NAME=VALUE pairs: those whose name starts with RINGPRESS, and NCCL's own variables that
/// mean something here (ours come before NCCL's); the rest is the default. An unknown name adds a
/// line to `warnings` (may be null) that names the nearest known one. Nothing is refused here: what
/// cannot be parsed is Settings::mistake, and the codec factory checks codec names. Reads the file
/// of RINGPRESS_RULES.
Settings parse_settings(const std::vector<std::pair<std::string, std::string>>& environment,
                        std::vector<std::string>* warnings);

/// kInvalidArgument, with what is allowed, for a value that could not be parsed.
Status check_settings(const Settings& settings);

/// parse_settings() of this process's environment and NCCL's configuration files; warnings go to
/// the log, once per process.
Settings settings_from_environment();

/// "NAME=value" of every setting that must agree on all ranks, in the order of the list, after what
/// check_settings() says, the contents of RINGPRESS_RULES and what decisions go by of the
/// communicator's name. Ranks exchange these lines and name the first that differs. The secret
/// is not among them: ranks that differ in it never meet.
std::vector<std::string> agreement_lines(const Settings& settings);

/// True if a rule asks for the communicator's name.
bool asks_for_names(const CallSettings& settings);
/// Adds the line of the name, if anything goes by it: where not all of the settings are compared at
/// once.
void append_name_line(const CallSettings& settings, std::vector<std::string>* lines);

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_SETTINGS_H_
