#include "nccl_plugin/session/live/live_line.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "nccl_plugin/session/live/json_text.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr std::uint64_t kLiveVersion = 1;

std::string codecs_json(const std::map<std::string, CodecCalls>& codecs) {
  std::string json = "{";
  for (const auto& [codec, calls] : codecs) {
    if (json.size() > 1) json += ", ";
    json += json_quoted(codec) + ": {" + json_field("calls", calls.calls) +
            json_field("raw_bytes", calls.raw_bytes) +
            "\"wire_bytes\": " + std::to_string(calls.wire_bytes) + "}";
  }
  return json + "}";
}

std::string phases_json(const PhaseTimes& times) {
  std::string json = "{";
  for (std::size_t phase = 0; phase < kCallPhases; ++phase) {
    if (phase != 0) json += ", ";
    json += json_quoted(phase_name(static_cast<CallPhase>(phase))) + ": " +
            json_number(static_cast<double>(times[phase]) * 1e-9);
  }
  return json + "}";
}

std::string totals_json(const Statistics& totals) {
  std::string json = "{" + json_field("calls", totals.calls) +
                     json_field("compressed_calls", totals.compressed_calls) +
                     json_field("raw_bytes", totals.raw_bytes) +
                     json_field("wire_bytes", totals.wire_bytes) +
                     "\"by_codec\": " + codecs_json(totals.by_codec);
  if (totals.phases) json += ", \"phase_seconds\": " + phases_json(*totals.phases);
  return json + "}";
}

/// A number that has milliseconds, whatever its size.
std::string time_json(double seconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", seconds);
  return text;
}

}  // namespace

const std::string& live_host() {
  static const std::string& host = *new std::string([] {
    char name[256] = "";
    return gethostname(name, sizeof name - 1) == 0 ? std::string(name) : std::string("unknown");
  }());
  return host;
}

Statistics statistics_between(const Statistics& before, const Statistics& now) {
  Statistics between;
  between.calls = now.calls - before.calls;
  between.compressed_calls = now.compressed_calls - before.compressed_calls;
  between.raw_bytes = now.raw_bytes - before.raw_bytes;
  between.wire_bytes = now.wire_bytes - before.wire_bytes;
  for (const auto& [codec, calls] : now.by_codec) {
    const auto found = before.by_codec.find(codec);
    const CodecCalls earlier = found == before.by_codec.end() ? CodecCalls{} : found->second;
    if (calls.calls == earlier.calls) continue;
    between.by_codec[codec] = {calls.calls - earlier.calls, calls.raw_bytes - earlier.raw_bytes,
                               calls.wire_bytes - earlier.wire_bytes};
  }
  if (!now.phases) return between;
  between.phases = now.phases;
  for (std::size_t phase = 0; phase < kCallPhases && before.phases; ++phase) {
    (*between.phases)[phase] -= (*before.phases)[phase];
  }
  return between;
}

std::string live_line(const LiveIdentity& identity, const LiveMoment& moment,
                      const Statistics& interval, const Statistics& total) {
  std::string line = "{\"ringpress\": \"live\", " + json_field("version", kLiveVersion) +
                     "\"time\": " + time_json(moment.time) +
                     ", \"host\": " + json_quoted(live_host()) + ", " +
                     json_field("pid", static_cast<std::uint64_t>(getpid())) +
                     json_field("rank", static_cast<std::uint64_t>(identity.rank)) +
                     json_field("ranks", static_cast<std::uint64_t>(identity.ranks));
  if (identity.hosts > 0) line += json_field("hosts", static_cast<std::uint64_t>(identity.hosts));
  line += "\"comm\": " + json_quoted(identity.comm) + ", \"door\": " + json_quoted(identity.door) +
          ", \"final\": " + (moment.is_final ? "true" : "false") + ", " +
          json_field("seconds", moment.seconds) + "\"interval\": " + totals_json(interval) +
          ", \"total\": " + totals_json(total) +
          ", \"exact_calls\": " + json_of(total.exact_calls) +
          ", \"errors\": " + json_of(total.errors) + ", ";
  if (total.residual_norm) line += json_field("residual_norm", *total.residual_norm);
  return line + json_field("residual_bytes", total.residual_bytes) +
         "\"last_codec\": " + json_quoted(total.last_codec) +
         ", \"last_algorithm\": " + json_quoted(total.last_algorithm) + "}\n";
}

}  // namespace ringpress::nccl_plugin
