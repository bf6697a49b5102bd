#include "nccl_plugin/session/steps/step_model.h"

#include <algorithm>

#include "nccl_plugin/errors/fixed_text.h"
#include "nccl_plugin/session/steps/step_link.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr double kSmallestRatio = 1e-6;

/// Of all calls of a step together: what the second half sends of it.
double gathered_ratio(const RecordedStep& step, const CodecSpeed& codec) {
  double sent = 0, whole = 0;
  for (const StepCall& call : step.calls) {
    const auto bytes = static_cast<double>(call.bytes());
    sent += bytes * codec.gathered_ratio(bytes);
    whole += bytes;
  }
  return sent / whole;
}

/// A codec's work in the time of one hop of each byte that passes a half, of so many that do of so
/// many values.
double seconds_per_byte(const CodecSpeed& codec, double half, double whole) {
  const double in_calls = codec.hop.seconds_per_byte * codec.sent_ratio(whole) / codec.ratio;
  const double looking = codec.look.seconds_per_byte + codec.agreement.summarise.seconds_per_byte;
  return in_calls + looking * whole / half;
}

}  // namespace

Result<JobModel> model_of(const RecordedStep& step, std::size_t world, const CodecSpeed& codec) {
  RINGPRESS_EXPECTS(world >= 2, "one rank sends nothing");
  RINGPRESS_ASSIGN_OR_RETURN(const LinkSpeed link, link_of(step));
  double sent = 0, in_calls = 0;
  JobModel model;
  for (const StepCall& call : step.calls) {
    sent += static_cast<double>(call.sent_bytes);
    in_calls += call.call_seconds;
    model.compute_seconds += call.gap_seconds;
  }
  model.bytes = static_cast<double>(step.bytes());
  // In either half of a ring each rank sends so much, before it is compressed.
  const auto ranks = static_cast<double>(world);
  const double half = model.bytes * (ranks - 1) / ranks;
  model.ratio_all_gather = std::min(gathered_ratio(step, codec), sent / half);
  model.ratio_reduce_scatter = std::max(kSmallestRatio, sent / half - model.ratio_all_gather);
  model.overhead_seconds = 2 * link.latency_seconds * static_cast<double>(step.calls.size());
  const double of_bytes = in_calls - model.overhead_seconds;
  model.codec_seconds_per_byte =
      std::min(seconds_per_byte(codec, half, model.bytes), of_bytes / 2 / half);
  model.bytes_per_second = sent / (of_bytes - half * model.codec_seconds_per_byte);
  return model;
}

std::string model_text(const JobModel& model, std::size_t world, const std::string& codec) {
  std::string text = "{\"workers\": " + std::to_string(world) + ", \"codec\": \"" + codec + "\",";
  text += "\n    \"bytes_per_step\": " + fixed(model.bytes, 0);
  text += ", \"ratio_reduce_scatter\": " + fixed(model.ratio_reduce_scatter, 6);
  text += ", \"ratio_all_gather\": " + fixed(model.ratio_all_gather, 6);
  text += ",\n    \"link_gigabytes_per_second\": " + fixed(1e-9 * model.bytes_per_second, 9);
  if (model.codec_seconds_per_byte > 0) {
    text += ", \"codec_gigabytes_per_second\": " + fixed(1e-9 / model.codec_seconds_per_byte, 6);
  }
  text += ",\n    \"compute_ms\": " + fixed(1e3 * model.compute_seconds, 6);
  return text + ", \"overhead_ms\": " + fixed(1e3 * model.overhead_seconds, 6) + "}";
}

}  // namespace ringpress::nccl_plugin
