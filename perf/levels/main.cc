// levels_perf: what L-GreCo's choice of levels saves, how near it is to the best of all, and how
// long it takes.
//
//   levels_perf [--budget CODEC STEPS ADJUST_STEPS] [GRADIENT.npy [--layers LAYERS.json]] ...
//
// First 200 random tables of 6 layers and 7 levels against all choices, and the time for 200 layers
// of 7 levels. Then for each gradient, cut into its layers and into segments of several sizes: the
// bytes and the error of the levels chosen, over those of q4 for all. Both are measured with the
// codecs; the budget is the squared error of q4, so the error is never larger. Candidates are
// q2 .. q8, and the same with those of grid=lloyd besides. Last, of gradients named ..._rank0.npy,
// those of all ranks are summed, with the levels that RINGPRESS_ADJUST_STEPS comes to (sums.h).
//
// With --budget, nothing but that: whether such levels keep their budget over so many steps
// (budget.h). Gradients are then two of a model with the same layers, at different steps.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/command/terminal/standard_output.h"
#include "perf/all_reduce/npy.h"
#include "perf/levels/budget.h"
#include "perf/levels/random_table.h"
#include "perf/levels/sums.h"
#include "tuner/factory.h"

namespace ringpress::perf {
namespace {

constexpr std::size_t kDefaultLevel = 2;  // q4 of q2 .. q8.

struct Range {
  std::size_t first = 0;
  std::size_t count = 0;
};

struct Gradient {
  std::string path;
  std::string name;
  std::vector<float> values;
  std::vector<Range> layers;
};

struct Loss {
  double bytes = 0;
  double squares = 0;
};

/// What a codec sends of some values, and loses.
Loss lose(const Codec& codec, const float* values, std::size_t count) {
  std::vector<std::byte> wire(codec.wire_bytes(count, {1, 2}));
  std::vector<float> decoded(count);
  EncodeArgs args;
  args.values = values;
  args.count = count;
  args.wire = wire.data();
  args.decoded = decoded.data();
  args.form = {1, 2};
  codec.encode(args);
  Loss loss;
  loss.bytes = static_cast<double>(wire.size());
  for (std::size_t i = 0; i < count; ++i) {
    const double lost = static_cast<double>(values[i]) - static_cast<double>(decoded[i]);
    loss.squares += lost * lost;
  }
  return loss;
}

std::vector<std::unique_ptr<Codec>> make_candidates(bool with_lloyd) {
  std::vector<std::unique_ptr<Codec>> codecs;
  for (const char* grid : {"uniform", "lloyd"}) {
    if (grid[0] == 'l' && !with_lloyd) continue;
    for (int bits = 2; bits <= 8; ++bits) {
      const std::string specification = fmt::format("q{}:grid={}", bits, grid);
      codecs.push_back(
          compress_kernels::make_codec(specification, DType::kFloat32, ReduceOp::kSum).value());
    }
  }
  return codecs;
}

void measure_cut(const Gradient& gradient, const std::string& cut, const std::vector<Range>& ranges,
                 bool with_lloyd) {
  const auto codecs = make_candidates(with_lloyd);
  LevelTable costs;
  for (const Range& range : ranges) {
    std::vector<LevelCost> of_range;
    for (const auto& codec : codecs) {
      const Loss loss = lose(*codec, gradient.values.data() + range.first, range.count);
      of_range.push_back({loss.bytes, {std::sqrt(loss.squares)}});
    }
    costs.push_back(std::move(of_range));
  }
  std::vector<LayerLevels> layers;
  Loss usual;
  for (const auto& of_range : costs) {
    layers.push_back({of_range, kDefaultLevel});
    const double error = of_range[kDefaultLevel].errors[0];
    usual.bytes += of_range[kDefaultLevel].bytes;
    usual.squares += error * error;
  }
  const LevelChoice choice =
      tuner::allocate_levels(layers, {.metric = ErrorMetric::kL2Squared}).value();
  fmt::print("| {} | {} | {} | {} | {:.3f} | {:.3f} |\n", gradient.name, cut, ranges.size(),
             with_lloyd ? "both grids" : "uniform", choice.bytes / usual.bytes,
             std::sqrt(choice.errors[0] / usual.squares));
}

std::vector<Range> segments(std::size_t count, std::size_t each) {
  std::vector<Range> ranges;
  for (std::size_t first = 0; first < count; first += each) {
    ranges.push_back({first, std::min(each, count - first)});
  }
  return ranges;
}

void measure(const Gradient& gradient) {
  for (const bool with_lloyd : {false, true}) {
    if (!gradient.layers.empty()) measure_cut(gradient, "layers", gradient.layers, with_lloyd);
    for (const std::size_t each : {65536, 4096, 1024}) {
      measure_cut(gradient, fmt::format("{} values", each), segments(gradient.values.size(), each),
                  with_lloyd);
    }
  }
}

std::vector<Range> read_layers(const std::string& path, std::size_t count) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Range> ranges;
  for (const auto& layer : nlohmann::json::parse(file)) {
    const Range range{layer.at("offset"), layer.at("numel")};
    if (range.first > count || range.count > count - range.first) {
      throw std::runtime_error(path + ": a layer ends behind the gradient");
    }
    if (range.count > 0) ranges.push_back(range);
  }
  return ranges;
}

/// As many ranks as there are files; none for other names.
RankGradients all_ranks_of(const Gradient& gradient) {
  RankGradients all;
  const std::size_t rank = gradient.path.rfind("_rank0.npy");
  if (rank == std::string::npos) return all;
  all.name = gradient.name.substr(0, gradient.name.rfind("_rank0.npy"));
  for (int number = 0;; ++number) {
    const std::string path = fmt::format("{}_rank{}.npy", gradient.path.substr(0, rank), number);
    if (!std::filesystem::exists(path)) break;
    all.values.push_back(read_npy(path));
  }
  for (const Range& layer : gradient.layers) all.layers.push_back({layer.first, layer.count, 0, 0});
  std::sort(all.layers.begin(), all.layers.end(),
            [](const Layer& a, const Layer& b) { return a.offset < b.offset; });
  return all;
}

void measure_sum(const Gradient& gradient) {
  const RankGradients all = all_ranks_of(gradient);
  if (!all.values.empty()) measure_sums(all);
}

void compare_with_all_choices(ErrorMetric metric, const char* name) {
  constexpr std::size_t kTables = 200;
  std::vector<double> ratios;
  std::size_t violations = 0;
  for (unsigned seed = 0; seed < kTables; ++seed) {
    const auto table = random_table(6, 7, seed);
    const LevelChoice choice =
        tuner::allocate_levels(layers_of(table, kDefaultLevel), {.metric = metric}).value();
    if (choice.errors[0] > choice.allowed_errors[0]) ++violations;
    // A little more, as it subtracts where the other adds.
    ratios.push_back(choice.bytes /
                     fewest_bytes(table, {choice.allowed_errors[0] * (1 + 1e-12)}, metric));
  }
  std::sort(ratios.begin(), ratios.end());
  fmt::print("| {} | {} | {:.5f} | {:.5f} | {:.5f} | {} |\n", name, kTables, ratios[kTables / 2],
             ratios[kTables * 95 / 100 - 1], ratios.back(), violations);
}

double seconds_of_processor() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void measure_time() {
  constexpr int kRuns = 21;
  const auto table = random_table(200, 7, 1);
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    const double begin = seconds_of_processor();
    if (!tuner::allocate_levels(layers_of(table, kDefaultLevel), {}).is_ok())
      throw std::logic_error("refused");
    times.push_back(seconds_of_processor() - begin);
  }
  std::sort(times.begin(), times.end());
  fmt::print("\n200 layers of 7 levels: {:.1f} ms of one core (median of {})\n",
             1e3 * times[kRuns / 2], kRuns);
}

int run(int argc, char** argv) {
  std::vector<Gradient> gradients;
  BudgetRun budget;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--budget" && i + 3 < argc) {
      budget.codec = argv[++i];
      budget.steps = std::stoul(argv[++i]);
      budget.adjust_steps = argv[++i];
    } else if (argument != "--layers") {
      gradients.push_back(
          {argument, argument.substr(argument.rfind('/') + 1), read_npy(argument), {}});
    } else if (gradients.empty() || ++i == argc) {
      throw std::runtime_error("--layers FILE stands behind a gradient");
    } else {
      gradients.back().layers = read_layers(argv[i], gradients.back().values.size());
    }
  }
  if (budget.steps > 0) {
    std::vector<RankGradients> real;
    for (const Gradient& gradient : gradients) real.push_back(all_ranks_of(gradient));
    measure_budgets(budget, real);
    return 0;
  }
  fmt::print("| metric | tables | median over best | p95 | largest | above the budget |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  compare_with_all_choices(ErrorMetric::kL2, "l2");
  compare_with_all_choices(ErrorMetric::kL2Squared, "l2 squared");
  measure_time();
  if (gradients.empty()) return 0;
  fmt::print("\n| gradient | cut into | pieces | levels of | bytes over q4 | error over q4 |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  for (const Gradient& gradient : gradients) measure(gradient);
  fmt::print(
      "\n| sum of | levels of | cut into | parts | bytes over q4 | error over q4 | processor's "
      "time over q4 |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const Gradient& gradient : gradients) measure_sum(gradient);
  return 0;
}

}  // namespace
}  // namespace ringpress::perf

int main(int argc, char** argv) {
  return ringpress::terminal::run_to_end("levels_perf",
                                         [&] { return ringpress::perf::run(argc, argv); });
}
