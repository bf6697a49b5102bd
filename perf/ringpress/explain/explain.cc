#include "perf/ringpress/explain/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/budget.h"
#include "nccl_plugin/rule_codecs.h"
#include "perf/all_reduce/codec_list.h"
#include "perf/all_reduce/error.h"
#include "perf/all_reduce/size.h"
#include "ringpress/planner.h"
#include "ringpress/settings.h"
#include "tuner/factory.h"

namespace ringpress::perf {
namespace {

struct Unit {
  const char* name;
  double factor;
};

double parse_with_unit(const std::string& text, const std::vector<Unit>& units,
                       const char* example) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  for (const Unit& unit : units) {
    const bool is_valid = end != text.c_str() && std::isfinite(number) && number > 0;
    if (is_valid && std::string(end) == unit.name) return number * unit.factor;
  }
  throw PerfError("\"" + text + "\" is not one such as " + example);
}

DType parse_dtype(const std::string& name) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  throw PerfError("\"" + name + "\" is no type that is compressed: float32, float16 or bfloat16");
}

CodecSpeed measure(const std::string& codec, DType dtype) {
  Result<CodecSpeed> speed = compress_kernels::measure_codec(codec, dtype);
  if (!speed.is_ok()) throw PerfError(codec + ": " + speed.status().message());
  CodecSpeed measured = std::move(speed).value();
  measured.codec = codec;  // As it was written.
  return measured;
}

/// Else it would only take time, and automatic mode never tries it.
bool saves_bytes(const CodecSpeed& codec) {
  return codec.ratio < 1;
}

CollectiveKind parse_collective(const std::string& name) {
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather}) {
    if (name == collective_name(kind)) return kind;
  }
  throw PerfError("\"" + name +
                  "\" is no collective that is compressed: all_reduce, reduce_scatter or "
                  "all_gather");
}

/// But for its size.
CallShape parse_shape(const ExplainOptions& options) {
  CallShape shape;
  shape.world = options.ranks;
  shape.ranks_per_host = options.ranks_per_host;
  shape.kind = parse_collective(options.collective);
  return shape;
}

Links parse_links(const ExplainOptions& options) {
  return {{parse_seconds(options.latency), parse_rate(options.rate)},
          {parse_seconds(options.inside_latency), parse_rate(options.inside_rate)}};
}

/// Those of this process, with which the library would make a communicator. Throws where it would
/// not.
Settings good_settings() {
  Settings settings = settings_from_environment();
  Status valid = check_settings(settings);
  if (valid.is_ok()) valid = nccl_plugin::check_budget(settings);
  if (valid.is_ok()) valid = nccl_plugin::check_rules(settings);
  if (!valid.is_ok()) throw PerfError(valid.message());
  if (settings.codec != "auto") {
    const Status known = compress_kernels::normalize_specification(settings.codec).status();
    if (!known.is_ok()) throw PerfError("RINGPRESS_CODEC: " + known.message());
  }
  return settings;
}

/// What this process's settings decide of a call, whatever would be quicker.
struct Decided {
  std::string left_exact;    // Why; empty: it is not.
  std::string codec;         // Empty: automatic mode chooses.
  std::string codec_by;      // Which setting has decided on it, or a rule.
  std::string algorithm;     // Empty: the quickest.
  std::string algorithm_by;  // RINGPRESS_ALGO; empty: it is not by that.
};

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
  request.ranks_per_host = shape.ranks_per_host;
  // Those that are not whole are refused later.
  request.comm_nodes = shape.world / std::max(1, shape.ranks_per_host);
  request.comm_ranks = shape.world;
  return request;
}

Decided decide(const CallShape& shape, DType dtype, const std::vector<std::string>& codecs) {
  const Settings settings = good_settings();
  const Plan plan = tuner::make_planner(settings)->plan(make_request(shape, dtype, settings));
  Decided decided;
  // As TunedCalls::has_choice() has it.
  const bool is_chosen = plan.codec != "none" && !plan.is_by_rule && settings.codec == "auto" &&
                         settings.mode == "on" && !settings.deterministic;
  if (settings.algorithm != "auto" && !plan.is_by_rule) {
    decided.algorithm_by = "RINGPRESS_ALGO=" + settings.algorithm;
  }
  if (!is_chosen) {
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

/// "all-reduce of 4 ranks, 1gbit and 50us a link", as a heading says it.
std::string describe_ranks(const ExplainOptions& options) {
  std::string text =
      fmt::format("{} ranks, {} and {} a link", options.ranks, options.rate, options.latency);
  if (options.ranks_per_host > 1) {
    text += fmt::format(" between hosts of {}, {} and {} inside", options.ranks_per_host,
                        options.inside_rate, options.inside_latency);
  }
  return text;
}

struct Explanation {
  CallShape shape;
  Links links;
  double budget = 0;  // Error.
  std::vector<CodecSpeed> codecs;
  std::vector<CallCost> calls;  // The quickest first.
  Decided decided;

  /// Why it is not chosen, however quick; empty if it may be.
  std::string objection(const CallCost& call, const std::string& budget_name) const {
    if (!decided.left_exact.empty() && call.codec != "none") return "left exact";
    if (!decided.codec.empty() && call.codec != decided.codec) return "not by " + decided.codec_by;
    const std::string algorithm = algorithm_for(call.codec);
    if (!algorithm.empty() && algorithm_name(call.algorithm) != algorithm) {
      const std::string& by = decided.algorithm_by;
      return by.empty() ? "the library takes " + algorithm : "not by " + by;
    }
    if (!decided.codec.empty()) return "";
    if (call.codec != "none" && !saves_bytes(speed_of(call.codec))) return "sends no fewer bytes";
    if (call.error > budget * (1 + 1e-9)) return "above the error of " + budget_name;
    // An all-gather passes on what it got.
    const bool requantises = call.algorithm == Algorithm::kRing && decided.algorithm.empty() &&
                             shape.world > 2 && shape.kind != CollectiveKind::kAllGather;
    return requantises && call.error > 0 ? "loses more at every hop" : "";
  }
  /// As the planner has it: exact calls are never hierarchical, nor are any where a host has one
  /// rank.
  std::string algorithm_for(const std::string& codec) const {
    const bool is_possible = std::any_of(calls.begin(), calls.end(), [&](const CallCost& call) {
      return codec != "none" && call.codec == codec && call.algorithm == Algorithm::kHier;
    });
    const std::string hier = algorithm_name(Algorithm::kHier);
    return decided.algorithm == hier && !is_possible ? algorithm_name(Algorithm::kSra)
                                                     : decided.algorithm;
  }
  const CodecSpeed& speed_of(const std::string& codec) const {
    return *std::find_if(codecs.begin(), codecs.end(),
                         [&](const CodecSpeed& speed) { return speed.codec == codec; });
  }
  bool is_allowed(const CallCost& call) const { return objection(call, "").empty(); }
  /// `none` is always among them.
  const CallCost& choice() const {
    return *std::find_if(calls.begin(), calls.end(),
                         [&](const CallCost& call) { return is_allowed(call); });
  }
  const CallCost& uncompressed() const {
    return *std::find_if(calls.begin(), calls.end(),
                         [](const CallCost& call) { return call.codec == "none"; });
  }
};

Explanation make_explanation(const ExplainOptions& options) {
  const DType dtype = parse_dtype(options.dtype);
  Explanation explanation;
  explanation.shape = parse_shape(options);
  explanation.shape.bytes = parse_size(options.size);
  if (explanation.shape.bytes == 0) throw PerfError("a call of 0 bytes sends nothing");
  if (explanation.shape.bytes % dtype_size(dtype) != 0) {
    throw PerfError(fmt::format("{} bytes are no whole number of {}", explanation.shape.bytes,
                                dtype_name(dtype)));
  }
  explanation.links = parse_links(options);
  explanation.budget = measure(options.budget, dtype).error;
  std::vector<std::string> names = split_codecs("--codecs", options.codecs);
  const auto has = [&names](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!has("none")) names.insert(names.begin(), "none");
  explanation.decided = decide(explanation.shape, dtype, names);
  const std::string& codec = explanation.decided.codec;
  if (!codec.empty() && !has(codec)) names.push_back(codec);
  for (const std::string& name : names) explanation.codecs.push_back(measure(name, dtype));
  Result<std::vector<CallCost>> calls =
      tuner::rank_calls(explanation.shape, explanation.links, explanation.codecs);
  if (!calls.is_ok()) throw PerfError(calls.status().message());
  explanation.calls = std::move(calls).value();
  return explanation;
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.3f}", 1e3 * seconds);
}

void print_text(const ExplainOptions& options, const Explanation& explanation) {
  const CallCost& choice = explanation.choice();
  fmt::print("{} of {} of {}, {}: predicted, with codecs measured on one core here\n\n",
             options.collective, options.size, options.dtype, describe_ranks(options));
  fmt::print("choice: {} by {}, {} ms; {:.2f} times as fast as none\n\n", choice.codec,
             algorithm_name(choice.algorithm), milliseconds(choice.seconds),
             explanation.uncompressed().seconds / std::max(choice.seconds, 1e-12));
  const Decided& decided = explanation.decided;
  if (!decided.left_exact.empty()) {
    fmt::print("left exact: {}; what codecs would make of it is below\n\n", decided.left_exact);
  } else if (!decided.codec.empty()) {
    fmt::print("decided by {}; what others would make of it is below\n\n", decided.codec_by);
  }
  fmt::print(
      "| codec | algorithm | chunks | ms | wire ms | inside ms | codec ms | latency ms | sent "
      "bytes | "
      "error | |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const CallCost& call : explanation.calls) {
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.2g} | {} |\n", call.codec,
               algorithm_name(call.algorithm), call.chunks, milliseconds(call.seconds),
               milliseconds(call.wire_seconds), milliseconds(call.inside_seconds),
               milliseconds(call.codec_seconds), milliseconds(call.latency_seconds),
               call.wire_bytes, call.error, explanation.objection(call, options.budget));
  }
  fmt::print("\n| codec | ratio | encode GB/s | decode GB/s | hop GB/s |\n|---|---|---|---|---|\n");
  const auto rate = [](const OperationCost& cost) {
    return cost.seconds_per_byte > 0 ? fmt::format("{:.1f}", 1e-9 / cost.seconds_per_byte)
                                     : std::string("not done");
  };
  for (const CodecSpeed& codec : explanation.codecs) {
    fmt::print("| {} | {:.4f} | {} | {} | {} |\n", codec.codec, codec.ratio, rate(codec.encode),
               rate(codec.decode), rate(codec.hop));
  }
}

void print_json(const ExplainOptions& options, const Explanation& explanation) {
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const CallCost& call : explanation.calls) {
    calls.push_back({{"codec", call.codec},
                     {"algorithm", algorithm_name(call.algorithm)},
                     {"chunks", call.chunks},
                     {"seconds", call.seconds},
                     {"wire_seconds", call.wire_seconds},
                     {"inside_seconds", call.inside_seconds},
                     {"codec_seconds", call.codec_seconds},
                     {"latency_seconds", call.latency_seconds},
                     {"wire_bytes", call.wire_bytes},
                     {"error", call.error},
                     {"allowed", explanation.is_allowed(call)}});
  }
  const CallCost& choice = explanation.choice();
  const nlohmann::ordered_json result = {
      {"bytes", explanation.shape.bytes},
      {"dtype", options.dtype},
      {"collective", options.collective},
      {"ranks", options.ranks},
      {"ranks_per_host", options.ranks_per_host},
      {"bytes_per_second", explanation.links.between.bytes_per_second},
      {"latency_seconds", explanation.links.between.latency_seconds},
      {"inside_bytes_per_second", explanation.links.inside.bytes_per_second},
      {"inside_latency_seconds", explanation.links.inside.latency_seconds},
      {"left_exact", explanation.decided.left_exact},
      {"decided_by", explanation.decided.codec_by},
      {"choice", {{"codec", choice.codec}, {"algorithm", algorithm_name(choice.algorithm)}}},
      {"calls", calls}};
  fmt::print("{}\n", result.dump(1));
}

constexpr std::size_t kSmallestRow = 1024;
constexpr std::size_t kLargestRow = std::size_t{1} << 30;

/// The power of two from which on calls are compressed.
std::size_t smallest_row() {
  return std::bit_ceil(std::clamp(good_settings().minimum_bytes, kSmallestRow, kLargestRow));
}

/// What calls of each size would be made with.
struct SizeTable {
  std::vector<CodecSpeed> codecs;  // Those within the budget.
  std::vector<SizeRow> rows;
  Decided decided;  // Of the largest.
};

SizeTable make_table(const ExplainOptions& options) {
  const DType dtype = parse_dtype(options.dtype);
  Calibration calibration;
  const Links links = parse_links(options);
  calibration.link = links.between;
  calibration.inside = links.inside;
  const double budget = measure(options.budget, dtype).error;
  calibration.codecs.push_back(measure("none", dtype));
  CallShape largest = parse_shape(options);
  largest.bytes = kLargestRow;
  const std::vector<std::string> names = split_codecs("--codecs", options.codecs);
  const Decided decided = decide(largest, dtype, names);
  for (const std::string& name : names) {
    if (name == "none" || !decided.left_exact.empty()) continue;
    CodecSpeed codec = measure(name, dtype);
    const bool is_choice = codec.error <= budget * (1 + 1e-9) && saves_bytes(codec);
    if (is_choice) calibration.codecs.push_back(std::move(codec));
  }
  auto rows =
      tuner::make_size_table(calibration, parse_shape(options), smallest_row(), kLargestRow);
  if (!rows.is_ok()) throw PerfError(rows.status().message());
  return {std::move(calibration.codecs), std::move(rows).value(), decided};
}

std::string microseconds(double seconds) {
  return fmt::format("{:.1f}", 1e6 * seconds);
}

/// The columns of NCCL's tuner plugins first: what NCCL is told, so that a size comes to the
/// plugin's CollNet or stays with NCCL's ring; -1 is any.
void print_csv(const ExplainOptions& options, const SizeTable& table) {
  fmt::print(
      "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,"
      "regBuff,dtype,codec,ringpress_algorithm,predicted_us,uncompressed_us\n");
  // Who has not said how many ranks a host has means any.
  const int nodes = options.ranks_per_host > 1 ? options.ranks / options.ranks_per_host : -1;
  for (const SizeRow& row : table.rows) {
    const Choice& choice = row.best.choice;
    fmt::print("allreduce,{},{},{},simple,-1,{},{},-1,-1,{},\"{}\",{},{},{}\n", row.bytes,
               2 * row.bytes - 1, choice.is_exact() ? "ring" : "collnet_direct", nodes,
               options.ranks, options.dtype, table.codecs[choice.codec].codec,
               algorithm_name(choice.algorithm), microseconds(row.best.seconds),
               microseconds(row.uncompressed_seconds));
  }
}

void print_table(const ExplainOptions& options, const SizeTable& table) {
  fmt::print("{} of {}, {}: predicted, with codecs measured on one core here\n\n",
             options.collective, options.dtype, describe_ranks(options));
  const Decided& decided = table.decided;
  if (!decided.left_exact.empty()) fmt::print("left exact: {}\n\n", decided.left_exact);
  if (!decided.codec.empty()) {
    fmt::print("with {} large calls have {}; this is what automatic mode would choose\n\n",
               decided.codec_by, decided.codec);
  } else if (!decided.algorithm_by.empty()) {
    fmt::print("with {} algorithms are not chosen; this is what would be\n\n",
               decided.algorithm_by);
  }
  fmt::print(
      "| from bytes | codec | algorithm | us | uncompressed us | |\n|---|---|---|---|---|---|\n");
  for (const SizeRow& row : table.rows) {
    const Choice& choice = row.best.choice;
    fmt::print("| {} | {} | {} | {} | {} | {:.2f}x |\n", row.bytes,
               table.codecs[choice.codec].codec, algorithm_name(choice.algorithm),
               microseconds(row.best.seconds), microseconds(row.uncompressed_seconds),
               row.uncompressed_seconds / std::max(row.best.seconds, 1e-12));
  }
}

void explain_all(const ExplainOptions& options) {
  const SizeTable table = make_table(options);
  if (options.csv) {
    print_csv(options, table);
  } else {
    print_table(options, table);
  }
}

}  // namespace

double parse_rate(const std::string& text) {
  return parse_with_unit(text, {{"gbit", 1e9 / 8}, {"mbit", 1e6 / 8}, {"kbit", 1e3 / 8}},
                         "1gbit, 100mbit or 64kbit");
}

double parse_seconds(const std::string& text) {
  return parse_with_unit(text, {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}, "50us, 1.5ms or 2s");
}

int explain(const ExplainOptions& given) {
  ExplainOptions options = given;
  if (options.budget.empty()) options.budget = good_settings().budget;
  if (options.ranks < 2) throw PerfError("there must be two ranks at least");
  const bool is_table = options.size == "all";
  if (is_table && options.json) throw PerfError("all sizes are a text or --csv, not --json");
  if (options.csv && options.collective != "all_reduce") {
    throw PerfError("--csv is of all-reduces, which are all that NCCL gives to CollNet");
  }
  if (!is_table && options.csv) throw PerfError("--csv is for all sizes: explain all DTYPE NRANKS");
  if (is_table) {
    explain_all(options);
    return 0;
  }
  const Explanation explanation = make_explanation(options);
  if (options.json) {
    print_json(options, explanation);
  } else {
    print_text(options, explanation);
  }
  return 0;
}

}  // namespace ringpress::perf
