#include "nccl_plugin/session/usable_settings.h"

#include <algorithm>
#include <string>
#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/calls/budget.h"
#include "nccl_plugin/session/calls/coordinate_scales.h"
#include "nccl_plugin/session/calls/named_codec.h"
#include "nccl_plugin/session/live/nvtx_range.h"
#include "nccl_plugin/session/output_files.h"
#include "nccl_plugin/session/rules/rule_codecs.h"
#include "nccl_plugin/session/settings/nccl_variables.h"
#include "nccl_plugin/session/steps/warm_up.h"
#include "ring/factory.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/names.h"
#include "ringpress/internal/planner.h"

namespace ringpress::nccl_plugin {
namespace {

Status check_codec(const Settings& settings) {
  if (settings.codec.is_automatic()) return Status::ok();
  Status known = compress_kernels::normalize_specification(*settings.codec.specification).status();
  if (known.is_ok()) return known;
  return {known.code(), "RINGPRESS_CODEC=" + *settings.codec.specification + ": " +
                            known.message() +
                            maybe_name(*settings.codec.specification, {CodecChoice::kAutomatic})};
}

/// Codecs that are for error feedback, of calls that have none.
std::vector<GivenCodec> find_lossy_codecs(const Settings& settings) {
  std::vector<GivenCodec> found;
  for (const CollectiveKind kind : kCompressibleKinds) {
    for (GivenCodec& given : given_codecs(settings, kind)) {
      const bool is_known = std::any_of(found.begin(), found.end(), [&](const GivenCodec& known) {
        return known.codec == given.codec;
      });
      const bool loses = loses_without_feedback(given.codec);
      if (loses && !given.error_feedback && !is_known) found.push_back(std::move(given));
    }
  }
  return found;
}

/// Where the user has switched it off.
std::vector<Status> find_switched_off(const Settings& settings) {
  std::vector<Status> found;
  if (settings.encryption == EncryptionChoice::kOff && !settings.program_key.empty()) {
    found.emplace_back(Code::kInvalidUsage,
                       "RINGPRESS_ENCRYPT=off: nothing is encrypted, though the program has called "
                       "ncclSetEncryption with a key");
  }
  if (has_error_feedback(settings)) return found;
  for (const GivenCodec& given : find_lossy_codecs(settings)) {
    found.emplace_back(Code::kInvalidArgument, loss_without_feedback(given.codec, true));
  }
  return found;
}

/// Empty: some calls may have scales, or none were asked for.
std::string note_on_scales(const Settings& settings) {
  if (settings.feedback != FeedbackChoice::kScales) return "";
  const std::vector<GivenCodec> codecs = given_codecs(settings, CollectiveKind::kAllReduce);
  const auto may_have_some = [&settings](const GivenCodec& given) {
    return may_have_scales(settings, given.codec) == ScalesAnswer::kYes;
  };
  if (codecs.empty() || std::any_of(codecs.begin(), codecs.end(), may_have_some)) return "";
  const std::string& codec = codecs.back().codec;
  return "RINGPRESS_EF=scales is as auto: " + to_text(may_have_scales(settings, codec), codec);
}

std::string chosen_by(const GivenCodec& given, const Settings& settings) {
  if (given.origin == Origin::kRule) return "RINGPRESS_RULES=" + settings.rules;
  if (settings.codec.is_automatic()) return "RINGPRESS_BUDGET=" + to_text(settings.budget);
  return "RINGPRESS_CODEC=" + usual_codec(settings);
}

}  // namespace

Status check_values(const Settings& settings) {
  RINGPRESS_RETURN_IF_ERROR(check_settings(settings));
  RINGPRESS_RETURN_IF_ERROR(check_budget(settings.budget.codec, "RINGPRESS_BUDGET="));
  RINGPRESS_RETURN_IF_ERROR(check_rules(settings));
  RINGPRESS_RETURN_IF_ERROR(check_warm_up(settings));
  return check_codec(settings);
}

Status check_session(const Settings& settings, const RingTopology& topology) {
  RINGPRESS_RETURN_IF_ERROR(check_values(settings));
  if (settings.backend == Backend::kCuda) {
    return Status(
        Code::kUnsupported,
        "RINGPRESS_BACKEND=cuda: a communicator of this library works on host memory; GPUs "
        "are served before a real NCCL, by the preloaded library and the plugin");
  }
  return topology.problem;
}

Status check_host_rank(const Settings& settings) {
  RINGPRESS_RETURN_IF_ERROR(ring::check_address(settings.address));
  if (!settings.nccl.comm_id.empty()) {
    RINGPRESS_RETURN_IF_ERROR(known_unique_id(settings).status());
  }
  const RingTopology topology = read_ring_topology(settings);
  RINGPRESS_RETURN_IF_ERROR(check_session(settings, topology));
  return check_own_place(topology);
}

Settings in_streams(Settings settings) {
  std::optional<std::string>& codec = settings.codec.specification;
  if (codec) codec = compress_kernels::stream_specification(*codec);
  settings.budget.codec = compress_kernels::stream_specification(settings.budget.codec);
  for (Rule& rule : settings.rule_list) {
    rule.codec = compress_kernels::stream_specification(rule.codec);
  }
  return settings;
}

std::vector<Status> find_shortcomings(const Settings& settings) {
  std::vector<Status> found = find_output_problems(settings);
  for (Status& status : find_switched_off(settings)) found.push_back(std::move(status));
  for (Status status : {ring::check_congestion(settings.congestion), check_nccl_debug(settings)}) {
    if (!status.is_ok()) found.push_back(std::move(status));
  }
  return found;
}

std::vector<std::string> find_notes(const Settings& settings) {
  std::vector<std::string> notes;
  if (!settings.nccl.debug_file.empty() && !logs_to_file(settings)) {
    notes.push_back("NCCL_DEBUG_FILE=" + settings.nccl.debug_file +
                    ": nothing is written there without NCCL_DEBUG");
  }
  if (settings.nvtx && !NvtxDomain::is_built_in()) {
    notes.emplace_back(
        "RINGPRESS_NVTX=1: no tool is told of calls, as nvtx3/nvToolsExt.h was not there when this "
        "was built");
  }
  if (!has_error_feedback(settings)) return notes;
  const std::string on_scales = note_on_scales(settings);
  if (!on_scales.empty()) notes.push_back(on_scales);
  for (const GivenCodec& given : find_lossy_codecs(settings)) {
    notes.push_back(chosen_by(given, settings) + ": " + loss_without_feedback(given.codec, false));
  }
  return notes;
}

void warn_of_shortcomings(const Settings& settings, int rank) {
  warn_of_outputs(settings, rank);
  for (const Status& problem : find_switched_off(settings)) warn_once(problem.message());
}

}  // namespace ringpress::nccl_plugin
