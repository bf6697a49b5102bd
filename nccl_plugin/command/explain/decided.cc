#include "nccl_plugin/command/explain/decided.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "nccl_plugin/session/calls/named_codec.h"
#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/usable_settings.h"
#include "ringpress/internal/planner.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::command {
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

/// No calls have been made: only codecs are known. Those of automatic mode are measured instead.
class Codecs final : public nccl_plugin::CallAdvisers {
 public:
  Result<nccl_plugin::CodecLimits> limits_of(const PlanRequest& request,
                                             const Decision& decision) override {
    if (decision.is_exact() || decision.codec_origin == Origin::kAutomatic) {
      return nccl_plugin::CodecLimits();
    }
    RINGPRESS_ASSIGN_OR_RETURN(named_, nccl_plugin::make_named_codec(std::string(decision.codec),
                                                                     request.dtype, request.op));
    return nccl_plugin::limits_of(named_, request);
  }

 private:
  nccl_plugin::NamedCodec named_;
};

/// Which of them it is that leaves automatic mode no choice.
std::string codec_decided_by(const Settings& settings, const Decision& decision) {
  if (decision.is_by_rule()) return "a rule";
  if (settings.mode != "on") return "RINGPRESS=" + settings.mode;
  return settings.codec == "auto" ? "RINGPRESS_DETERMINISTIC=1"
                                  : "RINGPRESS_CODEC=" + settings.codec;
}

/// What the planner is asked about such a call once it has recurred.
PlanRequest make_request(const CallShape& shape, DType dtype, const Settings& settings) {
  std::vector<int> hosts;
  for (int rank = 0; rank < shape.world; ++rank) {
    hosts.push_back(rank / std::max(1, shape.ranks_per_host));
  }
  nccl_plugin::CommShape comm = nccl_plugin::comm_shape_of(settings, hosts);
  if (has_hier(settings)) comm.ranks_per_host = shape.ranks_per_host;
  PlanRequest request =
      nccl_plugin::request_of(comm, shape.kind, shape.bytes / dtype_size(dtype), dtype);
  request.recurrences = std::numeric_limits<std::uint64_t>::max();
  return request;
}

/// With what the user would change.
std::string describe_exact(const WhyExact& why, const Settings& settings) {
  const std::string text = to_text(why);
  const auto all_gather = static_cast<std::uint32_t>(CollectiveKind::kAllGather);
  if (why.reason == ExactReason::kTooSmall) {
    return text + "=" + std::to_string(settings.minimum_bytes);
  }
  if (why.reason == ExactReason::kCollective && why.number == all_gather) {
    return text + " without RINGPRESS_ALL_GATHER=1";
  }
  return text;
}

}  // namespace

bool has_hier(const Settings& settings) {
  return settings.backend != "host";
}

Settings good_settings() {
  Settings settings = settings_from_environment();
  const Status valid = nccl_plugin::check_values(settings);
  if (!valid.is_ok()) throw terminal::Error(valid.message());
  return settings;
}

Decided decide(const Settings& settings, const CallShape& shape, DType dtype,
               const std::vector<std::string>& codecs) {
  const std::unique_ptr<Planner> planner = tuner::make_planner(settings);
  Codecs codecs_alone;
  const Decision decision =
      nccl_plugin::decide_call(*planner, make_request(shape, dtype, settings), codecs_alone)
          .value();
  Decided decided;
  const bool is_chosen = !decision.is_exact() && decision.codec_origin == Origin::kAutomatic;
  const bool is_algorithm_set = decision.algorithm_origin == Origin::kSetting;
  if (decision.algorithm_origin == Origin::kRule) {
    decided.algorithm_by = "a rule";
  } else if (is_algorithm_set && !decision.is_by_rule()) {
    decided.algorithm_by = "RINGPRESS_ALGO=" + settings.algorithm;
  }
  if (!is_chosen || decision.algorithm_origin == Origin::kRule) {
    decided.algorithm = algorithm_name(decision.algorithm);
  } else if (is_algorithm_set) {
    decided.algorithm = settings.algorithm;
  }
  if (decision.is_exact()) {
    decided.left_exact = describe_exact(decision.why, settings);
  } else if (!is_chosen) {
    decided.codec = name_among(codecs, std::string(decision.codec));
    decided.codec_by = codec_decided_by(settings, decision);
  }
  return decided;
}

}  // namespace ringpress::nccl_plugin::command
