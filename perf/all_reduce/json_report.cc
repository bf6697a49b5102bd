#include "perf/all_reduce/json_report.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kJsonVersion = 3;

/// JSON has no NaN: nccl-tests writes the text.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json("nan");
}

Json environment_lines() {
  Json lines = Json::array();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const bool relevant = line.starts_with("RINGPRESS") || line.starts_with("NCCL_");
    if (relevant && !line.starts_with("RINGPRESS_SECRET=")) lines.push_back(std::string(line));
  }
  return lines;
}

Json placement_json(const PlacementResult& result) {
  Json json;
  json["time"] = number(result.time_us);
  json["alg_bw"] = number(result.algorithm_bandwidth);
  json["bus_bw"] = number(result.bus_bandwidth);
  json["nwrong"] = result.wrong_elements ? Json(*result.wrong_elements) : Json(nullptr);
  return json;
}

Json iterations_json(const IterationStatistics& statistics) {
  Json json;
  json["min_us"] = statistics.minimum;
  json["max_us"] = statistics.maximum;
  json["avg_us"] = statistics.mean;
  json["p50_us"] = statistics.median;
  json["p95_us"] = statistics.percentile95;
  json["p99_us"] = statistics.percentile99;
  json["stdev_us"] = statistics.deviation;
  json["cv_pct"] = statistics.mean > 0 ? 100 * statistics.deviation / statistics.mean : 0;
  json["times_us"] = statistics.samples;
  return json;
}

Json ringpress_json(const ResultRow& row) {
  Json json;
  json["setting"] = row.setting;
  if (row.compression) {
    json["codec"] = row.compression->codec;
    json["codecs"] = row.compression->codecs;
    json["algorithm"] = row.compression->algorithm;
    json["reason"] = row.compression->reason;
    json["raw_bytes"] = row.compression->raw_bytes;
    json["wire_bytes"] = row.compression->wire_bytes;
    json["ratio"] = number(row.compression->ratio());
    json["residual_bytes"] = row.compression->residual_bytes;
  }
  json["relerr"] = row.relative_error ? number(*row.relative_error) : Json(nullptr);
  if (row.mean_error) json["mean_relerr"] = number(*row.mean_error);
  if (row.magnitudes) {
    json["maxerr"] = number(row.magnitudes->largest_error);
    json["largest_exact"] = number(row.magnitudes->largest_exact);
    json["largest_inputs"] = number(row.magnitudes->largest_inputs);
  }
  json["identical"] = row.identical ? Json(*row.identical) : Json(nullptr);
  return json;
}

Json row_json(const Options& options, const ResultRow& row) {
  Json json;
  json["size"] = row.bytes;
  json["count"] = row.count;
  json["type"] = row.type;
  json["redop"] = row.operation;
  json["root"] = std::to_string(row.root);
  json["out_of_place"] = row.out_of_place ? placement_json(*row.out_of_place) : Json(nullptr);
  json["in_place"] = row.in_place ? placement_json(*row.in_place) : Json(nullptr);
  if (row.out_of_place) {
    json["out_of_place_per_iter"] = iterations_json(row.out_of_place->iterations);
  }
  if (row.in_place) json["in_place_per_iter"] = iterations_json(row.in_place->iterations);
  json["actual_iterations"] = options.timing.iterations;
  json["experiment_name"] = "all_reduce_perf";
  json["ringpress"] = ringpress_json(row);
  return json;
}

Json config_json(const Options& options, const RunDescription& run) {
  Json devices = Json::array();
  for (const RankDescription& rank : run.ranks) {
    devices.push_back({{"rank", rank.rank},
                       {"group", 0},
                       {"pid", rank.process},
                       {"hostname", rank.host},
                       {"device", rank.device},
                       {"device_hex", rank.position},
                       {"device_info", rank.model}});
  }
  Json json;
  json["nthreads"] = 1;
  json["ngpus"] = 1;
  json["minimum_bytes"] = options.sweep.minimum_bytes;
  json["maximum_bytes"] = options.sweep.maximum_bytes;
  json["step_bytes"] = options.sweep.step_bytes;
  json["step_factor"] = options.sweep.step_factor;
  json["warmup_iters"] = options.timing.warmup_iterations;
  json["iterations"] = options.timing.iterations;
  json["agg_iterations"] = options.timing.calls_per_iteration;
  json["validation"] = options.checks.results ? 1 : 0;
  json["graph"] = 0;
  json["mean_of"] = options.checks.mean_calls;
  json["interleaved"] = options.interleaved();
  json["inputs"] = options.inputs;
  json["devices"] = std::move(devices);
  return json;
}

}  // namespace

std::string format_json(const Options& options, const RunDescription& run,
                        const std::vector<ResultRow>& rows) {
  Json json;
  json["version"] = kJsonVersion;
  json["start_time"] = run.start_time;
  json["args"] = run.arguments;
  json["env"] = environment_lines();
  json["nccl_version"] = run.library_version;
  json["config"] = config_json(options, run);
  json["results"] = Json::array();
  for (const ResultRow& row : rows) json["results"].push_back(row_json(options, row));
  const std::int64_t wrong = run.failed.with(Failure::kWrongElements);
  json["out_of_bounds"] = {{"count", wrong}, {"okay", wrong == 0}};
  json["failed_rows"] = {{"count", run.failed.all},
                         {"ranks_differ", run.failed.with(Failure::kRanksDiffer)},
                         {"large_error", run.failed.with(Failure::kLargeError)},
                         {"other_codec", run.failed.with(Failure::kOtherCodec)}};
  json["average_bus_bandwidth"] = {{"bandwidth", average_bus_bandwidth(rows)},
                                   {"okay", run.bandwidth_ok}};
  json["end_time"] = run.end_time;
  return json.dump(1) + "\n";
}

void check_writable(const std::string& path) {
  if (std::ofstream(path, std::ios::app)) return;
  throw terminal::Error(path + ": cannot be written: " + std::strerror(errno));
}

void write_text_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) throw terminal::Error(path + ": cannot be written: " + std::strerror(errno));
}

}  // namespace ringpress::perf
