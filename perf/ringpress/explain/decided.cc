#include "perf/ringpress/explain/decided.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/usable_settings.h"
#include "perf/all_reduce/error.h"
#include "ringpress/planner.h"
#include "tuner/factory.h"

namespace ringpress::perf {
namespace {

/// A codec as calls name it here: as it is written among them, or `specification` itself.
std::string name_among(const std::vector<std::string>& names, const std::string& specification) {
  const Result<std::string> wanted = compress_kernels::normalize_specification(specification);
  const auto is_same = [&](const std::string& name) {
    const Result<std::string> known = compress_kernels::normalize_specification(name);
    return known.is_ok() && wanted.is_ok() && known.value() == wanted.value();
  };
  const auto found = std::find_if(names.begin(), names.end(), is_same);
  return found == names.end() ? specification : *found;
}

/// Which of them it is that leaves automatic mode no choice.
std::string codec_decided_by(const Settings& settings, const Plan& plan) {
  if (plan.is_by_rule) return "a rule";
  if (settings.mode != "on") return "RINGPRESS=" + settings.mode;
  return settings.codec == "auto" ? "RINGPRESS_DETERMINISTIC=1"
                                  : "RINGPRESS_CODEC=" + settings.codec;
}

/// What the planner is asked about such a call once it has recurred.
PlanRequest make_request(const CallShape& shape, DType dtype, const Settings& settings) {
  PlanRequest request;
  request.kind = shape.kind;
  request.count = shape.bytes / dtype_size(dtype);
  request.dtype = dtype;
  request.world = shape.world;
  request.crosses_hosts = shape.ranks_per_host < shape.world;
  request.recurrences = std::numeric_limits<std::uint64_t>::max();
  request.may_gather = settings.all_gather;
  request.all_reduces_only = compress_kernels::projects(settings.codec);
  request.ranks_per_host = has_hier(settings) ? shape.ranks_per_host : 0;
  // Those that are not whole are refused later.
  request.comm_nodes = shape.world / std::max(1, shape.ranks_per_host);
  request.comm_ranks = shape.world;
  return request;
}

}  // namespace

bool has_hier(const Settings& settings) {
  return settings.backend != "host";
}

Settings good_settings() {
  Settings settings = settings_from_environment();
  const Status valid = nccl_plugin::check_values(settings);
  if (!valid.is_ok()) throw PerfError(valid.message());
  return settings;
}

Decided decide(const Settings& settings, const CallShape& shape, DType dtype,
               const std::vector<std::string>& codecs) {
  const Plan plan = tuner::make_planner(settings)->plan(make_request(shape, dtype, settings));
  Decided decided;
  // As TunedCalls::has_choice() has it.
  const bool is_chosen = plan.codec != "none" && !plan.is_by_rule && settings.codec == "auto" &&
                         settings.mode == "on" && !settings.deterministic;
  if (plan.is_algorithm_by_rule) {
    decided.algorithm_by = "a rule";
  } else if (settings.algorithm != "auto" && !plan.is_by_rule) {
    decided.algorithm_by = "RINGPRESS_ALGO=" + settings.algorithm;
  }
  if (!is_chosen || plan.is_algorithm_by_rule) {
    decided.algorithm = algorithm_name(plan.algorithm);
  } else if (settings.algorithm != "auto") {
    decided.algorithm = settings.algorithm;
  }
  if (plan.codec == "none") {
    decided.left_exact = plan.reason;
    const bool is_small = plan.reason.ends_with("RINGPRESS_MIN_BYTES");
    if (is_small) decided.left_exact += "=" + std::to_string(settings.minimum_bytes);
    const bool may_gather = shape.kind != CollectiveKind::kAllGather || settings.all_gather;
    if (!is_small && !may_gather) decided.left_exact += " without RINGPRESS_ALL_GATHER=1";
  } else if (!is_chosen) {
    decided.codec = name_among(codecs, plan.codec);
    decided.codec_by = codec_decided_by(settings, plan);
  }
  return decided;
}

}  // namespace ringpress::perf
