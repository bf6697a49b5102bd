#include "nccl_plugin/command/advice.h"

#include <fmt/core.h>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/params.h"
#include "nccl_plugin/plugin/door_variables.h"
#include "nccl_plugin/session/calls/call_classes.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin::command {
namespace {

namespace plugin = nccl_plugin::plugin;

constexpr const char* kDefaultCodec = "q4";

Settings settings_in(const JobEnvironment& environment) {
  return parse_settings(environment.with_prefix("RINGPRESS"), nullptr);
}

bool compresses_nothing(const Settings& settings) {
  return !compresses(settings.mode) || is_no_codec(settings.codec.specification.value_or(""));
}

const char* remedy_for(const Param& param) {
  if (param.name.ends_with("_SOCKET_IFNAME")) return "name one of those that are up, or unset it";
  if (param.name == "RINGPRESS_EF")
    return "unset it, or choose a codec that needs none, such as q8";
  if (param.name == "RINGPRESS_CACHE") return "name a folder that can be written, or unset it";
  if (param.name == "RINGPRESS_TCP_CONGESTION") return "name one of those, or unset it";
  for (const char* file :
       {"RINGPRESS_STATS", "RINGPRESS_LIVE", "RINGPRESS_PROMETHEUS", "RINGPRESS_TIMELINE",
        "RINGPRESS_TUNING_LOG", "RINGPRESS_TRACE", "NCCL_DEBUG_FILE"}) {
    if (param.name == file) return "name a file that can be written, or unset it";
  }
  return "correct or unset it";
}

void advise_on_names_and_values(const JobEnvironment& environment, std::vector<Advice>* all) {
  const std::vector<Param> each = params(environment);
  const Settings settings = settings_in(environment);
  for (const Param& param : each) {
    if (param.name == "RINGPRESS_BACKEND" && settings.backend == Backend::kCuda)
      continue;  // Said below.
    if (!param.mistake.empty()) {
      all->push_back(
          {true, fmt::format("{} ({}): every rank will refuse it", param.mistake, param.origin),
           remedy_for(param)});
    }
    if (param.warning.empty()) continue;
    // Then it is NCCL that refuses it.
    const bool is_fatal = param.name == "NCCL_SOCKET_IFNAME";
    all->push_back({is_fatal, param.warning, remedy_for(param)});
  }
  const std::string together = mistake_together(environment, each);
  if (!together.empty()) {
    all->push_back({true, together + ": every rank will refuse it", "correct or unset it"});
  }
  if (compresses_nothing(settings)) {
    all->push_back({false,
                    fmt::format("RINGPRESS={}, RINGPRESS_CODEC={}: nothing will be compressed",
                                to_text(settings.mode), to_text(settings.codec)),
                    "unset it to compress"});
  }
}

/// What the plugin compresses with; empty where it does not, or where that is not known.
std::string plugin_codec(const JobEnvironment& environment) {
  const Settings settings = settings_in(environment);
  if (compresses_nothing(settings)) return "";
  if (settings.mode == Mode::kLossless) return std::string(kLosslessCodec);
  const std::string& codec = usual_codec(settings);
  return compress_kernels::normalize_specification(codec).is_ok() ? codec : "";
}

/// A codec that projects needs the whole tensor, which the plugin never has.
bool needs_whole_tensors(const std::string& codec) {
  const auto made = compress_kernels::make_codec(codec, DType::kFloat32, ReduceOp::kSum);
  return made.is_ok() && made.value()->projection() != nullptr;
}

void advise_on_codec(const JobEnvironment& environment, std::vector<Advice>* all) {
  const std::string codec = plugin_codec(environment);
  if (codec.empty()) return;
  if (needs_whole_tensors(codec)) {
    all->push_back({true,
                    fmt::format("RINGPRESS_CODEC={}: it works on whole tensors, but NCCL hands its "
                                "plugin pieces of them, so the plugin compresses nothing",
                                codec),
                    fmt::format("choose a codec that takes pieces, such as {}", kDefaultCodec)});
    return;
  }
  const char* const profiler = environment.value("NCCL_PROFILER_PLUGIN");
  const bool is_taken =
      profiler != nullptr && *profiler != '\0' && !plugin::is_this_library(profiler);
  if (is_taken && !codec_for_known_tensors_only(environment).empty()) {
    all->push_back({true,
                    fmt::format("RINGPRESS_CODEC={} with NCCL_PROFILER_PLUGIN={}: tensors are not "
                                "told apart, and this codec needs error feedback, so the plugin "
                                "compresses nothing",
                                codec, profiler),
                    fmt::format("unset NCCL_PROFILER_PLUGIN, or choose another codec, such as {}",
                                kDefaultCodec)});
  }
}

/// Door B and door C: only what is preloaded has another backend than the host's.
void advise_on_backend(const JobEnvironment& environment, std::vector<Advice>* all) {
  const Settings settings = settings_in(environment);
  if (settings.backend != Backend::kCuda) return;
  all->push_back({true,
                  "RINGPRESS_BACKEND=cuda: the plugin and the library for host memory work on the "
                  "host and refuse it, so the plugin compresses nothing; only what is preloaded "
                  "(door A) takes it",
                  "unset it"});
}

}  // namespace

std::vector<Advice> advise_on_settings(const JobEnvironment& environment, Door door) {
  std::vector<Advice> all;
  advise_on_names_and_values(environment, &all);
  if (door == Door::kPlugin) advise_on_codec(environment, &all);
  if (door != Door::kPreloaded) advise_on_backend(environment, &all);
  return all;
}

std::optional<Advice> advise_on_next_plugin(const PluginLibrary& next, const Tables& ours) {
  constexpr const char* kRemedy = "name a network plugin that the loader finds, or unset it";
  if (next.found_as.empty()) return std::nullopt;  // Not asked for.
  if (!next.can_be_loaded()) {
    return Advice{true, fmt::format("{}: {}", kNextPlugin, next.problem), kRemedy};
  }
  if (next.network == plugin::kPluginName) {
    return Advice{true,
                  fmt::format("{}: {} is ringpress itself: it is not used, and what is not "
                              "compressed goes over ringpress's own TCP",
                              kNextPlugin, next.path),
                  "name the network plugin that the job would use without ringpress, or unset it"};
  }
  const bool can_be_used = ours.empty() || newest_common(ours, next.tables, TableKind::kNet) != 0;
  if (can_be_used) return std::nullopt;
  return Advice{true,
                fmt::format("{}: {} shows no net table of a version that this library has",
                            kNextPlugin, next.path),
                kRemedy};
}

bool needs_known_gradients(const JobEnvironment& environment) {
  const Settings settings = settings_in(environment);
  return !compresses_nothing(settings) && takes_gradients_alone(settings) && settings.rules.empty();
}

std::string codec_for_known_tensors_only(const JobEnvironment& environment) {
  const std::string codec = plugin_codec(environment);
  if (codec.empty()) return "";
  const bool has_unbiased = !compress_kernels::unbiased_specification(codec).value().empty();
  const bool needs_feedback =
      compress_kernels::feedback_need(codec).value() != compress_kernels::FeedbackNeed::kNone;
  return !has_unbiased && needs_feedback ? codec : "";
}

}  // namespace ringpress::nccl_plugin::command
