#include "nccl_plugin/command/run_settings.h"

#include <fmt/core.h>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/session/calls/budget.h"
#include "nccl_plugin/session/settings/budget_error.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr const char* kMode = "RINGPRESS";
constexpr const char* kCodec = "RINGPRESS_CODEC";
constexpr const char* kBudget = "RINGPRESS_BUDGET";
constexpr const char* kEncrypt = "RINGPRESS_ENCRYPT";
constexpr const char* kAutomaticCodec = "auto";

/// Null where it is not set, or empty, which is as if it were not there.
const Variable* find_set(const JobEnvironment& environment, const char* name) {
  const Variable* const found = environment.find(name);
  return found == nullptr || found->value.empty() ? nullptr : found;
}

std::string named(const char* name, const Variable& variable) {
  return fmt::format("{}={} ({})", name, variable.value, variable.origin);
}

void check_codec(const std::string& codec) {
  if (codec.empty() || codec == kAutomaticCodec) return;
  const Status known = compress_kernels::normalize_specification(codec).status();
  if (!known.is_ok()) throw terminal::Error("--codec " + codec + ": " + known.message() + ", auto");
}

void check_budget(const std::string& budget) {
  if (budget.empty()) return;
  const std::optional<BudgetChoice> read = nccl_plugin::read_budget(budget);
  if (!read) {
    throw terminal::Error("--budget " + budget + ": expected " + nccl_plugin::kExpectedBudget);
  }
  const Status valid = nccl_plugin::check_budget(read->codec, "--budget ");
  if (!valid.is_ok()) throw terminal::Error(valid.message());
}

void exclude(bool both, const std::string& first, const std::string& second) {
  if (both) throw terminal::Error(first + " and " + second + " exclude each other; give one");
}

/// Among the options themselves.
void check_together(const SettingOptions& options) {
  const bool has_codec = !options.codec.empty(), has_budget = !options.budget.empty();
  exclude(options.is_off && options.is_lossless, "--off", "--lossless");
  for (const auto& [is_given, name] :
       {std::pair(options.is_off, "--off"), {options.is_lossless, "--lossless"}}) {
    exclude(is_given && has_codec, name, "--codec " + options.codec);
    exclude(is_given && has_budget, name, "--budget " + options.budget);
  }
  if (has_codec && has_budget && options.codec != kAutomaticCodec) {
    throw terminal::Error(
        fmt::format("--budget {}: with --codec {} nothing is chosen within it; give --budget alone",
                    options.budget, options.codec));
  }
}

bool takes_a_codec(const std::string& mode) {
  const std::optional<Mode> known = parse_settings({{kMode, mode}}, nullptr).mode;
  return known == Mode::kOn || known == Mode::kObserve;
}

/// An option whose effect a variable takes away.
void check_effect(const SettingOptions& options, const JobEnvironment& environment) {
  const bool has_codec = !options.codec.empty();
  const std::string option = has_codec ? "--codec " + options.codec : "--budget " + options.budget;
  const Variable* const mode = find_set(environment, kMode);
  if ((has_codec || !options.budget.empty()) && mode != nullptr && !takes_a_codec(mode->value)) {
    throw terminal::Error(fmt::format("{} has no effect with {}; unset {} or leave the option out",
                                      option, named(kMode, *mode), kMode));
  }
  const Variable* const codec = find_set(environment, kCodec);
  const bool is_fixed = codec != nullptr && codec->value != kAutomaticCodec;
  if (!options.budget.empty() && !has_codec && is_fixed) {
    throw terminal::Error(
        fmt::format("--budget {} has no effect with {}; unset {} or leave the option out",
                    options.budget, named(kCodec, *codec), kCodec));
  }
}

}  // namespace

void check_not_set(const std::string& option, const std::string& variable, const std::string& value,
                   const JobEnvironment& environment) {
  const Variable* const own = find_set(environment, variable.c_str());
  if (own == nullptr || own->value == value) return;
  throw terminal::Error(fmt::format("{}: {} is set already; unset it or leave the option out",
                                    option, named(variable.c_str(), *own)));
}

Variables variables_of_options(const SettingOptions& options, const JobEnvironment& environment) {
  check_together(options);
  check_codec(options.codec);
  check_budget(options.budget);
  Variables variables;
  const auto set = [&](const std::string& option, const char* variable, const std::string& value) {
    check_not_set(option, variable, value, environment);
    variables.emplace_back(variable, value);
  };
  if (options.is_off) set("--off", kMode, "off");
  if (options.is_lossless) set("--lossless", kMode, "lossless");
  if (!options.codec.empty()) set("--codec " + options.codec, kCodec, options.codec);
  if (!options.budget.empty()) set("--budget " + options.budget, kBudget, options.budget);
  if (options.is_encrypted) set("--encrypt", kEncrypt, "on");
  check_effect(options, environment);
  return variables;
}

std::vector<std::string> passed_over_by(const SettingOptions& options,
                                        const JobEnvironment& environment) {
  std::vector<std::string> notes;
  const char* const option = options.is_off        ? "--off"
                             : options.is_lossless ? "--lossless"
                             : !options.codec.empty() && options.codec != kAutomaticCodec
                                 ? "--codec"
                                 : nullptr;
  if (option == nullptr) return notes;
  for (const char* name : {kCodec, kBudget}) {
    const Variable* const own = find_set(environment, name);
    const bool is_the_same = name == kCodec && own != nullptr && own->value == options.codec;
    if (own == nullptr || is_the_same) continue;
    notes.push_back(fmt::format("{} has no effect with {}", named(name, *own), option));
  }
  return notes;
}

}  // namespace ringpress::nccl_plugin::command
