#include "ringpress/internal/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>

#include "nccl_plugin/session/rules/rules.h"
#include "nccl_plugin/session/settings/budget_error.h"
#include "nccl_plugin/session/settings/comm_name.h"
#include "nccl_plugin/session/settings/environment.h"
#include "nccl_plugin/session/settings/nccl_variables.h"
#include "ringpress/internal/byte_size.h"
#include "ringpress/internal/log.h"
#include "ringpress/internal/names.h"

namespace ringpress {
namespace {

Status refuse(const char* name, const std::string& text, const std::string& allowed) {
  return {Code::kInvalidArgument, std::string(name) + "=" + text + ": expected " + allowed};
}

/// Of settings that count or measure, where it is narrower than that of their type.
struct Range {
  std::string_view name;
  std::size_t smallest;
  std::size_t largest;
};
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kMostTuningCalls = 10000;
constexpr Range kRanges[] = {{"RINGPRESS_SOCKETS", 1, 16},
                             {"RINGPRESS_LAZY_CALLS", 1, kNoLimit},
                             {"RINGPRESS_TUNING_WARM_UP", 1, kMostTuningCalls},
                             {"RINGPRESS_TUNING_CALLS", 1, kMostTuningCalls},
                             {"RINGPRESS_TUNING_TRIALS", 0, kMostTuningCalls}};

template <typename Integer>
Status parse_integer(const char* name, const std::string& text, Integer smallest, Integer* value) {
  Integer largest = std::numeric_limits<Integer>::max();
  for (const Range& range : kRanges) {
    if (range.name != name) continue;
    smallest = static_cast<Integer>(range.smallest);
    if (range.largest < static_cast<std::size_t>(largest)) {
      largest = static_cast<Integer>(range.largest);
    }
  }
  const char* end = text.data() + text.size();
  Integer number = 0;
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < smallest || number > largest) {
    return refuse(
        name, text,
        "a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest));
  }
  *value = number;
  return Status::ok();
}

Status parse(const char*, const std::string& text, std::string* value) {
  *value = text;
  return Status::ok();
}

Status parse(const char* name, const std::string& text, bool* value) {
  for (const char* yes : {"1", "on", "true", "yes"}) {
    if (text == yes) return *value = true, Status::ok();
  }
  for (const char* no : {"0", "off", "false", "no"}) {
    if (text == no) return *value = false, Status::ok();
  }
  return refuse(name, text, "1 or 0");
}

/// Settings of this type count things of which there must be one.
Status parse(const char* name, const std::string& text, int* value) {
  return parse_integer(name, text, 1, value);
}

/// Those whose names end so are sizes; the others count.
bool is_size(std::string_view name) {
  return name.ends_with("_BYTES");
}

Status parse(const char* name, const std::string& text, std::size_t* value) {
  if (!is_size(name)) return parse_integer(name, text, std::size_t{0}, value);
  const std::optional<std::size_t> bytes = parse_byte_size(text);
  if (!bytes) return refuse(name, text, expected_byte_size(text));
  *value = *bytes;
  return Status::ok();
}

/// Of numbers; the others may be 0.
bool is_above_zero(std::string_view name) {
  return name == "RINGPRESS_ADJUST_ALPHA" || name == "RINGPRESS_LIVE_SECONDS";
}

Status parse(const char* name, const std::string& text, double* value) {
  const char* end = text.data() + text.size();
  double number = 0;
  const auto parsed = std::from_chars(text.data(), end, number);
  const bool is_positive = is_above_zero(name);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(number) || number < 0 ||
      (is_positive && number == 0)) {
    return refuse(name, text, is_positive ? "a number above 0" : "a number from 0 on");
  }
  *value = number;
  return Status::ok();
}

Status parse(const char* name, const std::string& text, std::chrono::milliseconds* value) {
  int number = 0;
  RINGPRESS_RETURN_IF_ERROR(parse(name, text, &number));
  *value = std::chrono::milliseconds(number);
  return Status::ok();
}

Status parse(const char*, const std::string& text, CodecChoice* value) {
  value->specification.reset();
  if (text != CodecChoice::kAutomatic) value->specification = text;
  return Status::ok();
}

Status parse(const char* name, const std::string& text, BudgetChoice* value) {
  const std::optional<BudgetChoice> found = nccl_plugin::read_budget(text);
  if (!found) return refuse(name, text, nccl_plugin::kExpectedBudget);
  // A codec's parameters, the only other `=`, follow a `:`.
  const std::size_t equals = text.find('=');
  const bool has_name = equals < text.find(':');
  const std::string meant = nccl_plugin::meant_error(text);
  if (found->error == 0 && (has_name || !meant.empty())) {
    const std::string maybe = meant.empty() ? "" : " (maybe " + meant + "?)";
    return refuse(name, text, nccl_plugin::kExpectedBudget + maybe);
  }
  *value = *found;
  return Status::ok();
}

Status parse(const char* name, const std::string& text, WarmUpChoice* value) {
  value->steps.reset();
  if (text == WarmUpChoice::kAutomatic) return Status::ok();
  std::size_t steps = 0;
  if (!parse_integer(name, text, std::size_t{0}, &steps).is_ok()) {
    return refuse(name, text,
                  "auto or a whole number of steps" + maybe_name(text, {WarmUpChoice::kAutomatic}));
  }
  value->steps = steps;
  return Status::ok();
}

Status parse(const char*, const std::string& text, TopologyChoice* value) {
  const std::optional<RingOrderBy> found = find_word<RingOrderBy>(text);
  *value = {found.value_or(RingOrderBy::kFile), found ? "" : text};
  return Status::ok();
}

Status parse(const char*, const std::string& text, CacheChoice* value) {
  const bool is_off = text == "off";
  *value = {is_off, is_off ? "" : text};
  return Status::ok();
}

Status refuse_word(const char* name, const std::string& text,
                   const std::vector<std::string_view>& words) {
  std::string list;
  for (const std::string_view word : words) list += (list.empty() ? "" : ", ") + std::string(word);
  return refuse(name, text, "one of " + list + maybe_name(text, words));
}

/// Empty, as a setting can only be by default: no value.
template <HasWords Value>
Status parse(const char* name, const std::string& text, Value* value) {
  const std::optional<Value> found = find_word<Value>(text);
  if (!found && !text.empty()) {
    std::vector<std::string_view> words;
    for (const SettingWord<Value>& word : SettingWords<Value>::kAll) words.push_back(word.text);
    return refuse_word(name, text, words);
  }
  *value = found.value_or(Value());
  return Status::ok();
}

/// What switches are written as was all that there was.
Status parse(const char* name, const std::string& text, FeedbackChoice* value) {
  bool is_on = false;
  if (parse(name, text, &is_on).is_ok()) {
    *value = is_on ? FeedbackChoice::kAuto : FeedbackChoice::kOff;
    return Status::ok();
  }
  return parse<FeedbackChoice>(name, text, value);
}

std::string to_text(const std::string& value) {
  return value;
}
std::string to_text(bool value) {
  return value ? "1" : "0";
}
std::string to_text(int value) {
  return std::to_string(value);
}
std::string to_text(std::size_t value) {
  return std::to_string(value);
}

std::string to_text(double value) {
  return shortest_text(value);
}

/// False if no setting has that name.
Result<bool> assign(const std::string& name, const std::string& text, Settings* settings) {
#define RINGPRESS_SETTING(field, type, setting_name, default_text, agree, meaning) \
  if (name == setting_name) {                                                      \
    RINGPRESS_RETURN_IF_ERROR(parse(setting_name, text, &settings->field));        \
    return true;                                                                   \
  }
#include "ringpress/internal/settings.inc"
#undef RINGPRESS_SETTING
  return false;
}

std::vector<std::string_view> names_of_settings() {
  std::vector<std::string_view> names;
  for (const SettingDescription& setting : setting_descriptions()) names.push_back(setting.name);
  return names;
}

/// Says where the Python package finds this library: no setting of the library itself.
constexpr std::string_view kOfThePackage = "RINGPRESS_LIBRARY";

std::string unknown_name(const std::string& name) {
  return "unknown setting " + name + " is ignored" + maybe_name(name, names_of_settings());
}

/// Of a variable that may be another program's: nothing if no setting is near it.
void warn_of_prefix(const std::string& name, std::vector<std::string>* warnings) {
  if (warnings == nullptr || !nccl_plugin::is_misspelt_prefix(name)) return;
  if (!near_name(name, names_of_settings()).empty()) warnings->push_back(unknown_name(name));
}

void note_mistake(const Status& status, Settings* settings) {
  if (!status.is_ok() && settings->mistake.empty()) settings->mistake = status.message();
}

/// A program's name in a line.
std::string printable(std::string name) {
  constexpr std::size_t kLongest = 256;
  name.resize(std::min(name.size(), kLongest));
  for (char& c : name) {
    if (c < ' ' || c > '~') c = '?';
  }
  return name;
}

/// The secret is compared by the handshake, never sent.
template <bool kAgrees, typename Value>
void add_line(std::string_view name, const Value& value, std::vector<std::string>* lines) {
  if constexpr (kAgrees) {
    if (name == "RINGPRESS_SECRET") return;
    lines->push_back(std::string(name) + "=" + to_text(value));
  }
}

}  // namespace

const std::vector<SettingDescription>& setting_descriptions() {
  static const std::vector<SettingDescription>& descriptions = *new std::vector<SettingDescription>{
#define RINGPRESS_SETTING(field, type, name, default_text, agree, meaning) \
  {name, default_text, meaning, agree},
#include "ringpress/internal/settings.inc"
#undef RINGPRESS_SETTING
  };
  return descriptions;
}

Settings parse_settings(const std::vector<std::pair<std::string, std::string>>& environment,
                        std::vector<std::string>* warnings) {
  Settings settings;
  for (const SettingDescription& setting : setting_descriptions()) {
    note_mistake(assign(setting.name, setting.default_text, &settings).status(), &settings);
  }
  for (const auto& [name, text] : environment) {
    if (text.empty()) continue;  // As if it were not there: the default.
    if (name != "RINGPRESS" && !name.starts_with("RINGPRESS_")) {
      warn_of_prefix(name, warnings);
      continue;
    }
    if (name == kOfThePackage) continue;
    const Result<bool> known = assign(name, text, &settings);
    note_mistake(known.status(), &settings);
    if (known.is_ok() && !known.value() && warnings != nullptr) {
      warnings->push_back(unknown_name(name));
    }
  }
  nccl_plugin::take_nccl_variables(environment, &settings, warnings);
  nccl_plugin::load_rules(&settings);
  return settings;
}

Status check_settings(const Settings& settings) {
  return settings.mistake.empty() ? Status::ok() : Status(Code::kInvalidArgument, settings.mistake);
}

Settings settings_from_environment() {
  const auto all = nccl_plugin::Environment::of_this_process();
  std::vector<std::string> warnings;
  Settings settings = parse_settings(nccl_plugin::variables_of_settings(all), &warnings);
  static std::once_flag warned;
  std::call_once(warned, [&warnings] {
    for (const std::string& warning : warnings) log_line(LogLevel::kWarn, "%s", warning.c_str());
  });
  return settings;
}

std::vector<std::string> agreement_lines(const Settings& settings) {
  const Status valid = check_settings(settings);
  std::vector<std::string> lines = {"Invalid setting=" +
                                    (valid.is_ok() ? std::string("none") : valid.message())};
#define RINGPRESS_SETTING(field, type, name, default_text, agree, meaning) \
  add_line<agree>(name, settings.field, &lines);
#include "ringpress/internal/settings.inc"
#undef RINGPRESS_SETTING
  lines.push_back("RINGPRESS_RULES has=" + settings.rules_digest);
  if (settings.comm_name) append_name_line(settings, &lines);
  return lines;
}

bool asks_for_names(const CallSettings& settings) {
  return std::any_of(settings.rule_list.begin(), settings.rule_list.end(),
                     [](const Rule& rule) { return !rule.comm_match.empty(); });
}

void append_name_line(const CallSettings& settings, std::vector<std::string>* lines) {
  const std::string name = nccl_plugin::name_to_agree_on(settings, settings.comm_name.value_or(""));
  if (!name.empty()) lines->push_back("Name of the communicator=" + printable(name));
}

}  // namespace ringpress
