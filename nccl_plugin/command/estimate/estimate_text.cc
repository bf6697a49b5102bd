// How an estimate is printed.
#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "nccl_plugin/command/doors.h"
#include "nccl_plugin/command/estimate/estimate.h"
#include "ringpress/internal/algorithms.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr const char* kWhatItCosts =
    "what codecs cost the loss of a training: compress_kernels/codecs.md, \"What codecs cost a "
    "training\"";

std::string door_text(const EstimateRow& row) {
  return row.door ? door_name(*row.door) : "-";
}

std::string rates_text(const EstimateRow& row) {
  if (!row.door) return "-";
  switch (row.rates) {
    case Rates::kMeasuredThere:
      return "measured";
    case Rates::kPredicted:
      return "predicted";
    case Rates::kMeasuredHere:
      return "measured here";
  }
  return "";
}

/// "1.3B parameters".
std::string count_text(double count) {
  if (count >= 1e9) return fmt::format("{:.4g}B", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.4g}M", count / 1e6);
  return fmt::format("{:.0f}", count);
}

std::string machines_text(const EstimateOptions& options, const Machines& machines) {
  const std::string what = machines.gpu == nullptr
                               ? fmt::format("ranks on {} cores a host", options.cores)
                               : std::string(machines.gpu->name);
  return fmt::format("{} {}, {} to a host, {} and {} between hosts, {:.0f} GB/s within",
                     machines.ranks, what, machines.per_host, options.net, options.latency,
                     machines.links.inside.bytes_per_second / 1e9);
}

/// Where the rates of door A's kernels come from.
std::string kernels_text(const Gpu& gpu) {
  if (gpu.is_measured) return fmt::format("kernels of codecs as measured on one {}", gpu.name);
  return fmt::format(
      "kernels of codecs were measured on an h200 alone: on {} they are predicted by the rate of "
      "its memory, {:.0f} of 4800 GB/s",
      gpu.name, gpu.memory_gigabytes_per_second);
}

void print_heading(const EstimateOptions& options, const Estimate& estimate) {
  fmt::print("{} parameters, {} of gradients in {} buckets of {}: {}\n",
             count_text(estimate.parameters),
             fmt::format("{:.4g} GB", estimate.gradient_bytes / 1e9), estimate.buckets.count,
             options.bucket, machines_text(options, estimate.machines));
  fmt::print("a step takes {:.1f} ms without communication, two thirds of it the backward pass\n",
             1e3 * estimate.compute);
  if (estimate.machines.gpu != nullptr) fmt::print("{}\n", kernels_text(*estimate.machines.gpu));
  fmt::print("\n");
}

void print_rows(const Estimate& estimate) {
  fmt::print(
      "| door | codec | algorithm | sent by a host | all-reduces ms | exposed ms | step ms | "
      "speed-up | likely | rates of the codec |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const EstimateRow& row : estimate.rows) {
    const std::string likely =
        row.door ? fmt::format("{:.2f} to {:.2f}", row.least_speed_up, row.most_speed_up) : "-";
    fmt::print("| {} | {} | {} | {:.0f} MB | {:.1f} | {:.1f} | {:.1f} | {:.2f}x | {} | {} |\n",
               door_text(row), row.codec, algorithm_name(row.bucket.algorithm),
               row.leaving_bytes / 1e6, 1e3 * row.times.all_reduces, 1e3 * row.times.exposed,
               1e3 * row.times.step, row.speed_up, likely, rates_text(row));
  }
}

void print_text(const EstimateOptions& options, const Estimate& estimate) {
  print_heading(options, estimate);
  print_rows(estimate);
  fmt::print("\n");
  for (const std::string& note : estimate.notes) fmt::print("{}\n", note);
  fmt::print("{}\n", advice_on(estimate, options));
  fmt::print("all of this is predicted; likely: as far as measurements were from predictions; {}\n",
             kWhatItCosts);
}

nlohmann::ordered_json to_json(const EstimateRow& row) {
  nlohmann::ordered_json record = {{"door", door_text(row)},
                                   {"codec", row.codec},
                                   {"algorithm", algorithm_name(row.bucket.algorithm)},
                                   {"rates", rates_text(row)},
                                   {"sent_by_a_host_bytes", row.leaving_bytes},
                                   {"bucket_seconds", row.bucket.seconds},
                                   {"bucket_codec_seconds", row.bucket.codec_seconds},
                                   {"all_reduces_seconds", row.times.all_reduces},
                                   {"exposed_seconds", row.times.exposed},
                                   {"step_seconds", row.times.step},
                                   {"speed_up", row.speed_up}};
  record["likely_speed_up"] = {row.least_speed_up, row.most_speed_up};
  return record;
}

void print_json(const EstimateOptions& options, const Estimate& estimate) {
  const Machines& machines = estimate.machines;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const EstimateRow& row : estimate.rows) rows.push_back(to_json(row));
  const nlohmann::ordered_json record = {
      {"parameters", estimate.parameters},
      {"dtype", dtype_name(machines.dtype)},
      {"gradient_bytes", estimate.gradient_bytes},
      {"buckets", estimate.buckets.count},
      {"ranks", machines.ranks},
      {"ranks_per_host", machines.per_host},
      {"gpu", machines.gpu == nullptr ? "none" : machines.gpu->name},
      {"bytes_per_second", machines.links.between.bytes_per_second},
      {"inside_bytes_per_second", machines.links.inside.bytes_per_second},
      {"compute_seconds", estimate.compute},
      {"rows", rows},
      {"notes", estimate.notes},
      {"advice", advice_on(estimate, options)}};
  fmt::print("{}\n", record.dump(1));
}

}  // namespace

int print_estimate(const EstimateOptions& options) {
  const Estimate estimate = make_estimate(options);
  if (options.json) {
    print_json(options, estimate);
  } else {
    print_text(options, estimate);
  }
  return EXIT_SUCCESS;
}

}  // namespace ringpress::nccl_plugin::command
