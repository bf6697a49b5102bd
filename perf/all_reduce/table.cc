#include "perf/all_reduce/table.h"

#include <fmt/core.h>

#include <cstdint>

#include "ringpress/nccl.h"
#include "ringpress/version.h"

namespace ringpress::perf {
namespace {

std::string format_placement(const std::optional<PlacementResult>& result) {
  if (!result) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
  const std::string wrong = result->wrong_elements
                                ? fmt::format("{:g}", static_cast<double>(*result->wrong_elements))
                                : "N/A";
  return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", fit_number(result->time_us, 7),
                     fit_number(result->algorithm_bandwidth, 6),
                     fit_number(result->bus_bandwidth, 6), wrong);
}

/// Of timed calls that went by another codec than the one that is named.
std::string other_codecs(const ResultRow& row) {
  std::string text;
  if (!row.compression) return text;
  for (const auto& [codec, waits] : row.compression->codecs) {
    if (codec == row.compression->codec) continue;
    text += (text.empty() ? " (also " : ", ") + codec;
  }
  return text.empty() ? text : text + ")";
}

std::string explain_columns(const Options& options) {
  const char* time = options.interleaved()
                         ? "median over iterations, settings in an order by chance"
                     : options.timing.median ? "median over iterations"
                                             : "mean over iterations";
  return fmt::format(
      "# time: {}; algbw and busbw: of the uncompressed bytes\n"
      "# #wrong: elements that are not exact, or not finite where the codec is lossy\n"
      "# ratio: uncompressed / sent bytes, headers included; relerr: ||result - exact|| / ||exact||"
      " of the worst timed call that was looked at, whose codec is named\n"
      "# identical: whether all ranks ended with the same bytes\n",
      time);
}

}  // namespace

std::string fit_number(double value, int width) {
  const auto limit = static_cast<std::size_t>(width);
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (text.size() <= limit) return text;
  }
  return fmt::format("{:.{}e}", value, width >= 7 ? 1 : 0);
}

std::string format_preamble(const Options& options, int library_version,
                            const std::vector<RankDescription>& ranks) {
  const std::string step = options.sweep.step_factor > 1
                               ? fmt::format("{}(factor)", options.sweep.step_factor)
                               : fmt::format("{}(bytes)", options.sweep.step_bytes);
  std::string text = fmt::format(
      "# ringpress version {} nccl-headers={} nccl-library={}\n"
      "# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} "
      "agg iters: {} validation: {} graph: 0 unalign: 0\n#\n# Using devices\n",
      RINGPRESS_VERSION, NCCL_VERSION_CODE, library_version, options.sweep.minimum_bytes,
      options.sweep.maximum_bytes, step, options.timing.warmup_iterations,
      options.timing.iterations, options.timing.calls_per_iteration,
      options.checks.results ? 1 : 0);
  for (const RankDescription& rank : ranks) {
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} device {:2} [{}] {}\n", rank.rank,
                        rank.process, rank.host, rank.device, rank.position, rank.model);
  }
  text += "#\n" + explain_columns(options);
  text += fmt::format("#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}\n", "",
                      "", "", "", "", "out-of-place", "", "", "in-place");
  text +=
      fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root");
  for (int placement = 0; placement < 2; ++placement) {
    text += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "time", "algbw", "busbw", "#wrong");
  }
  text += fmt::format("  {:>7}  {:>9}  {:>9}  {}\n", "ratio", "relerr", "identical", "codec");
  text += fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
  for (int placement = 0; placement < 2; ++placement) {
    text += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  }
  return text + "\n";
}

std::string format_row(const ResultRow& row) {
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", row.bytes, row.count,
                                 row.type, row.operation, row.root);
  text += format_placement(row.out_of_place) + format_placement(row.in_place);
  const std::string ratio =
      row.compression ? fmt::format("{:.3f}", row.compression->ratio()) : "N/A";
  const std::string error = row.relative_error ? fmt::format("{:.2e}", *row.relative_error) : "N/A";
  const char* same = !row.identical ? "N/A" : *row.identical ? "yes" : "NO";
  text += fmt::format("  {:>7}  {:>9}  {:>9}  {}{}", ratio, error, same,
                      row.compression ? row.compression->codec : row.setting, other_codecs(row));
  if (row.mean_error) text += fmt::format(", relerr of the mean {:.2e}", *row.mean_error);
  return text;
}

std::string format_summary(const std::vector<ResultRow>& rows, const FailedRows& failed,
                           bool bandwidth_ok) {
  const std::int64_t wrong = failed.with(Failure::kWrongElements);
  return fmt::format(
      "# Out of bounds values : {} {}\n{}# Avg bus bandwidth    : {:g} {}\n#\n"
      "# Collective test concluded: all_reduce_perf\n",
      wrong, wrong == 0 ? "OK" : "FAILED",
      failed.all == 0
          ? ""
          : fmt::format("# Failed rows          : {} FAILED ({})\n", failed.all, failed.describe()),
      average_bus_bandwidth(rows), bandwidth_ok ? "" : "FAILED");
}

}  // namespace ringpress::perf
