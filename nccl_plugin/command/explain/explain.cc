#include "nccl_plugin/command/explain/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/explain/explanation.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/size.h"

namespace ringpress::nccl_plugin::command {
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
  throw terminal::Error("\"" + text + "\" is not one such as " + example);
}

/// "4 ranks, 1gbit and 50us a link, on host memory", as a heading says it.
std::string describe_ranks(const ExplainOptions& options, const Settings& settings) {
  std::string text =
      fmt::format("{} ranks, {} and {} a link", options.ranks, options.rate, options.latency);
  if (options.ranks_per_host > 1) {
    text += fmt::format(" between hosts of {}, {} and {} inside", options.ranks_per_host,
                        options.inside_rate, options.inside_latency);
  }
  return text + (is_on_host(settings) ? ", on host memory"
                                      : ", on GPUs (RINGPRESS_BACKEND=host: on host memory)");
}

void print_notes(const Decided& decided) {
  for (const std::string& note : decided.notes) fmt::print("{}\n\n", note);
}

Explanation explain_one(const ExplainOptions& options, const Settings& settings) {
  const DType dtype = parse_dtype(options.dtype);
  const std::size_t bytes = terminal::parse_size(options.size);
  if (bytes == 0) throw terminal::Error("a call of 0 bytes sends nothing");
  if (bytes % dtype_size(dtype) != 0) {
    throw terminal::Error(
        fmt::format("{} bytes are no whole number of {}", bytes, dtype_name(dtype)));
  }
  return Explainer(options, settings).explain(bytes);
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.3f}", 1e3 * seconds);
}

void print_text(const ExplainOptions& options, const Settings& settings,
                const Explanation& explanation) {
  const CallCost& choice = explanation.choice();
  fmt::print("{} of {} of {}, {}: predicted, with codecs measured on one core here\n\n",
             options.collective, options.size, options.dtype, describe_ranks(options, settings));
  fmt::print("choice: {} by {}, {} ms; {:.2f} times as fast as none\n\n", choice.codec,
             algorithm_name(choice.algorithm), milliseconds(choice.seconds),
             explanation.uncompressed().seconds / std::max(choice.seconds, 1e-12));
  const Decided& decided = explanation.decided;
  if (decided.left_exact.is_exact()) {
    fmt::print("left exact: {}; what codecs would make of it is below\n\n",
               describe_exact(decided.left_exact, settings));
  } else if (!decided.codec.empty()) {
    fmt::print("decided by {}; what others would make of it is below\n\n", decided.codec_by);
  }
  print_notes(decided);
  fmt::print(
      "| codec | algorithm | chunks | ms | wire ms | inside ms | codec ms | latency ms | sent "
      "bytes | "
      "error | |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const CallCost& call : explanation.calls) {
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.2g} | {} |\n", call.codec,
               algorithm_name(call.algorithm), call.chunks, milliseconds(call.seconds),
               milliseconds(call.wire_seconds), milliseconds(call.inside_seconds),
               milliseconds(call.codec_seconds), milliseconds(call.latency_seconds),
               call.wire_bytes, call.error, explanation.objection(call));
  }
  fmt::print(
      "\n| codec | ratio | first look GB/s | summaries GB/s | encode GB/s | decode GB/s | hop GB/s "
      "|\n"
      "|---|---|---|---|---|---|---|\n");
  const auto rate = [](const OperationCost& cost) {
    return cost.seconds_per_byte > 0 ? fmt::format("{:.1f}", 1e-9 / cost.seconds_per_byte)
                                     : std::string("not done");
  };
  for (const CodecSpeed& codec : explanation.codecs) {
    fmt::print("| {} | {:.4f} | {} | {} | {} | {} | {} |\n", codec.codec,
               codec.sent_ratio(static_cast<double>(explanation.shape.bytes)), rate(codec.look),
               rate(codec.agreement.summarise), rate(codec.encode), rate(codec.decode),
               rate(codec.hop));
  }
}

void print_json(const ExplainOptions& options, const Settings& settings,
                const Explanation& explanation) {
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
      {"left_exact", describe_exact(explanation.decided.left_exact, settings)},
      {"decided_by", explanation.decided.codec_by},
      {"notes", explanation.decided.notes},
      {"uncompressed_seconds", explanation.uncompressed().seconds},
      {"choice", {{"codec", choice.codec}, {"algorithm", algorithm_name(choice.algorithm)}}},
      {"calls", calls}};
  fmt::print("{}\n", result.dump(1));
}

constexpr std::size_t kSmallestRow = 1024;
constexpr std::size_t kLargestRow = std::size_t{1} << 30;

/// What calls of each size would be made with: from each power of two to the next, from that on
/// from which calls are compressed.
std::vector<Explanation> make_table(const ExplainOptions& options, const Settings& settings) {
  Explainer explainer(options, settings);
  const std::size_t least = settings.minimum_bytes;
  std::vector<Explanation> rows;
  for (std::size_t bytes = std::bit_ceil(std::clamp(least, kSmallestRow, kLargestRow));
       bytes <= kLargestRow; bytes *= 2) {
    rows.push_back(explainer.explain(bytes));
  }
  return rows;
}

std::string microseconds(double seconds) {
  return fmt::format("{:.1f}", 1e6 * seconds);
}

/// The columns of NCCL's tuner plugins first: what NCCL is told, so that a size comes to the
/// plugin's CollNet or stays with NCCL's ring; -1 is any.
void print_csv(const ExplainOptions& options, const std::vector<Explanation>& rows) {
  fmt::print(
      "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,"
      "regBuff,dtype,codec,ringpress_algorithm,predicted_us,uncompressed_us\n");
  // Who has not said how many ranks a host has means any.
  const int nodes = options.ranks_per_host > 1 ? options.ranks / options.ranks_per_host : -1;
  for (const Explanation& row : rows) {
    const CallCost& choice = row.choice();
    const std::size_t bytes = row.shape.bytes;
    fmt::print("allreduce,{},{},{},simple,-1,{},{},-1,-1,{},\"{}\",{},{},{}\n", bytes,
               2 * bytes - 1, choice.codec == "none" ? "ring" : "collnet_direct", nodes,
               options.ranks, options.dtype, choice.codec, algorithm_name(choice.algorithm),
               microseconds(choice.seconds), microseconds(row.uncompressed().seconds));
  }
}

/// Who has left no choice; empty: nobody.
std::string decided_by(const Decided& decided, const Settings& settings) {
  if (decided.left_exact.is_exact()) {
    return "left exact: " + describe_exact(decided.left_exact, settings);
  }
  return decided.codec.empty() ? decided.algorithm_by : decided.codec_by;
}

void print_table(const ExplainOptions& options, const Settings& settings,
                 const std::vector<Explanation>& rows) {
  fmt::print("{} of {}, {}: predicted, with codecs measured on one core here\n\n",
             options.collective, options.dtype, describe_ranks(options, settings));
  print_notes(rows.back().decided);
  fmt::print(
      "| from bytes | codec | algorithm | us | uncompressed us | | decided by |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const Explanation& row : rows) {
    const CallCost& choice = row.choice();
    const double uncompressed = row.uncompressed().seconds;
    fmt::print("| {} | {} | {} | {} | {} | {:.2f}x | {} |\n", row.shape.bytes, choice.codec,
               algorithm_name(choice.algorithm), microseconds(choice.seconds),
               microseconds(uncompressed), uncompressed / std::max(choice.seconds, 1e-12),
               decided_by(row.decided, settings));
  }
}

void explain_all(const ExplainOptions& options, const Settings& settings) {
  const std::vector<Explanation> rows = make_table(options, settings);
  for (const Explanation& row : rows) {
    const std::string& codec = row.choice().codec;
    if (!options.csv || !compress_kernels::projects(codec)) continue;
    throw terminal::Error("--csv: " + codec +
                          " looks at whole tensors, and cannot be in a file of rules");
  }
  if (options.csv) {
    print_csv(options, rows);
  } else {
    print_table(options, settings, rows);
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

int explain(const ExplainOptions& options) {
  if (options.ranks < 2) throw terminal::Error("there must be two ranks at least");
  const bool is_table = options.size == "all";
  if (is_table && options.json) throw terminal::Error("all sizes are a text or --csv, not --json");
  if (options.csv && options.collective != "all_reduce") {
    throw terminal::Error("--csv is of all-reduces, which are all that NCCL gives to CollNet");
  }
  if (!is_table && options.csv)
    throw terminal::Error("--csv is for all sizes: explain all DTYPE NRANKS");
  const Settings settings = good_settings(options.budget);
  if (is_table) {
    explain_all(options, settings);
    return 0;
  }
  const Explanation explanation = explain_one(options, settings);
  if (options.json) {
    print_json(options, settings, explanation);
  } else {
    print_text(options, settings, explanation);
  }
  return 0;
}

}  // namespace ringpress::nccl_plugin::command
