// How far Espresso's plans are from the best of all, and how long they take to find.
//
//   espresso_perf
//   espresso_perf JOBS [FIRST]
//
// Prints one row a set of options and a number of tensors: by how many per cent the planned step is
// longer than the shortest of all combinations, over random jobs (random_job.h), for the paper's
// search and for ours; then the time of planning on this core. With a number of jobs: the same of
// jobs of 2 to 6 tensors of all kinds (wide_job.h), from the seed FIRST on (0).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "perf/espresso/brute_force.h"
#include "perf/espresso/random_job.h"
#include "perf/espresso/wide_job.h"
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

struct WideGaps {
  std::vector<double> percent;
  double milliseconds = 0;          // Of planning, summed ...
  double longest_milliseconds = 0;  // ... and of the job that took longest.
  double brute_milliseconds = 0;
};

void print_wide(const std::string& name, WideGaps gaps) {
  std::sort(gaps.percent.begin(), gaps.percent.end());
  const auto count = static_cast<double>(gaps.percent.size());
  double sum = 0;
  for (const double gap : gaps.percent) sum += gap;
  const auto best = std::count_if(gaps.percent.begin(), gaps.percent.end(),
                                  [](double gap) { return gap <= 1e-6; });
  std::printf("| %s | %zu | %td | %.4f | %.4f | %.3f | %.3f | %.2f | %.2f |\n", name.c_str(),
              gaps.percent.size(), best, sum / count,
              gaps.percent[static_cast<std::size_t>(0.999 * (count - 1))], gaps.percent.back(),
              gaps.milliseconds / count, gaps.longest_milliseconds,
              gaps.brute_milliseconds / count);
}

/// 2 to 6 tensors in turn. Prints every job whose plan is more than this longer than the best.
constexpr double kNotable = 0.5;

void measure_wide(std::uint64_t jobs, std::uint64_t first) {
  std::map<std::size_t, WideGaps> by_tensors;
  WideGaps all;
  for (std::uint64_t seed = first; seed < first + jobs; ++seed) {
    const std::size_t tensors = 2 + seed % 5;
    const espresso::Job job = wide_job(seed, tensors);
    const std::vector<espresso::Option> options = espresso::engine_options(job.cluster);
    const double begin = processor_milliseconds();
    const double planned = espresso::plan(job, options).seconds;
    const double between = processor_milliseconds();
    const double best = best_of_all(job, options);
    const double end = processor_milliseconds();
    const double percent = 100 * (planned / best - 1);
    if (percent > kNotable) {
      std::printf("seed %zu: %.3f %%\n", static_cast<std::size_t>(seed), percent);
    }
    for (WideGaps* gaps : {&by_tensors[tensors], &all}) {
      gaps->percent.push_back(percent);
      gaps->milliseconds += between - begin;
      gaps->longest_milliseconds = std::max(gaps->longest_milliseconds, between - begin);
      gaps->brute_milliseconds += end - between;
    }
  }
  std::printf(
      "\n| tensors | jobs | plans as good as the best | mean %% | p99.9 %% | max %% | plan: mean "
      "ms "
      "| max ms | brute force: mean ms |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& [tensors, gaps] : by_tensors) print_wide(std::to_string(tensors), gaps);
  print_wide("all", all);
}

}  // namespace
}  // namespace ringpress::perf

int main(int count, char** values) {
  using namespace ringpress::perf;
  if (count > 1) {
    const std::uint64_t jobs = std::strtoull(values[1], nullptr, 10);
    const std::uint64_t first = count > 2 ? std::strtoull(values[2], nullptr, 10) : 0;
    if (jobs == 0 || count > 3) {
      std::fprintf(stderr, "usage: espresso_perf [JOBS [FIRST]]\n");
      return 2;
    }
    measure_wide(jobs, first);
    return 0;
  }
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
