// How far Espresso's plans are from the best of all, and how long they take to find.
//
//   espresso_perf
//
// Prints one row a set of options and a number of tensors: by how many per cent the planned step is
// longer than the shortest of all combinations, over random jobs (random_job.h), for the paper's
// search and for ours; then the time of planning on this core.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "perf/espresso/brute_force.h"
#include "perf/espresso/random_job.h"
#include "tuner/espresso/search.h"

namespace ringpress::perf {
namespace {

struct Setting {
  bool tree;
  bool with_cpu;
  std::size_t tensors;
  std::size_t jobs;
};

espresso::Job job_of(const Setting& setting, std::uint64_t seed, std::size_t sizes) {
  espresso::Job job = random_job(seed, setting.tensors, sizes);
  if (!setting.with_cpu) job.compressor.cpu.reset();
  return job;
}

std::vector<espresso::Option> options_of(const Setting& setting, const espresso::Job& job) {
  return setting.tree ? espresso::tree_options(false) : espresso::engine_options(job.cluster);
}

std::string setting_name(const Setting& setting) {
  return std::string(setting.tree ? "tree" : "engine") + (setting.with_cpu ? "" : ", GPU alone") +
         " | " + std::to_string(setting.tensors);
}

void print_gaps(const char* search, const Setting& setting, std::vector<double> gaps) {
  std::sort(gaps.begin(), gaps.end());
  double sum = 0;
  for (const double gap : gaps) sum += gap;
  const auto count = static_cast<double>(gaps.size());
  const auto at = [&](double part) { return gaps[static_cast<std::size_t>(part * (count - 1))]; };
  const auto within = std::count_if(gaps.begin(), gaps.end(), [](double gap) { return gap <= 5; });
  std::printf("| %s | %s | %zu | %.3f | %.2f | %.2f | %.2f | %.0f %% |\n",
              setting_name(setting).c_str(), search, gaps.size(), sum / count, at(0.9), at(0.99),
              gaps.back(), 100 * static_cast<double>(within) / count);
}

void measure_gaps(const Setting& setting) {
  std::vector<double> paper, repeated;
  for (std::size_t seed = 0; seed < setting.jobs; ++seed) {
    const espresso::Job job = job_of(setting, seed, setting.tensors);
    const std::vector<espresso::Option> options = options_of(setting, job);
    const double best = best_of_all(job, options);
    const auto gap = [&](espresso::Search search) {
      return 100 * (espresso::plan(job, options, search).seconds / best - 1);
    };
    paper.push_back(gap(espresso::Search::kPaper));
    repeated.push_back(gap(espresso::Search::kRepeated));
  }
  print_gaps("paper", setting, std::move(paper));
  print_gaps("repeated", setting, std::move(repeated));
}

/// All tensors compressed on the GPU; what is moved to the CPU by the paper's counts, and by trying
/// all.
void measure_offload(std::size_t tensors, std::size_t sizes, std::size_t jobs) {
  std::size_t equal = 0;
  double largest = 0;
  for (std::size_t seed = 0; seed < jobs; ++seed) {
    const espresso::Job job = random_job(seed, tensors, sizes);
    const espresso::Menus menus(job, espresso::engine_options(job.cluster));
    espresso::Strategy everything;
    for (std::size_t i = 0; i < tensors; ++i) everything.push_back(menus.of(i).quickest);
    const auto seconds = [&](std::size_t few_tensors) {
      espresso::Trial trial(job, menus);
      trial.load(everything);
      espresso::offload(&trial, few_tensors);
      return trial.seconds();
    };
    const double gap = 100 * (seconds(0) / seconds(tensors) - 1);
    equal += gap <= 1e-6 ? 1 : 0;
    largest = std::max(largest, gap);
  }
  std::printf("| %zu of %zu sizes | %zu | %zu | %.2f |\n", tensors, sizes, jobs, equal, largest);
}

/// Of this process: others on the machine make no difference.
double processor_milliseconds() {
  return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void measure_time(const Setting& setting) {
  std::vector<double> milliseconds;
  for (std::size_t seed = 0; seed < setting.jobs; ++seed) {
    const espresso::Job job = job_of(setting, 1000 + seed, setting.tensors / 4);
    const std::vector<espresso::Option> options = options_of(setting, job);
    const double begin = processor_milliseconds();
    espresso::plan(job, options);
    milliseconds.push_back(processor_milliseconds() - begin);
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("| %s | %zu | %.2f | %.2f | %.2f |\n", setting_name(setting).c_str(), setting.jobs,
              milliseconds[setting.jobs / 2], milliseconds[setting.jobs * 9 / 10],
              milliseconds.back());
}

}  // namespace
}  // namespace ringpress::perf

int main() {
  using namespace ringpress::perf;
  std::printf(
      "| options | tensors | search | jobs | mean %% | p90 %% | p99 %% | max %% | within 5 %% |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (const bool with_cpu : {true, false}) {
    for (const Setting& setting :
         {Setting{false, with_cpu, 4, 300}, Setting{false, with_cpu, 5, 100},
          Setting{false, with_cpu, 6, 40}, Setting{true, with_cpu, 2, 100}}) {
      measure_gaps(setting);
    }
  }
  std::printf(
      "\n| tensors to move | jobs | counts as good as subsets | max %% |\n|---|---|---|---|\n");
  for (const std::size_t sizes : {1, 2, 4}) measure_offload(10, sizes, 200);
  std::printf(
      "\n| options | tensors | jobs | median ms | p90 ms | max ms |\n|---|---|---|---|---|---|\n");
  for (const bool tree : {false, true}) {
    measure_time({tree, true, 32, 40});
    measure_time({tree, true, 314, 40});
  }
}
