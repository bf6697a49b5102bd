// How far Espresso's plans are from the best of all, and how long they take to find.
//
//   espresso_perf
//
// Prints one row a set of options and a number of tensors: by how many per cent the planned step is
// longer than the shortest of all combinations, over random jobs (random_job.h), for the paper's search
// and for ours; then the time of planning on this core.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "perf/espresso/brute_force.h"
#include "perf/espresso/random_job.h"

namespace ringpress::perf {
namespace {

struct Setting {
  bool tree;
  std::size_t tensors;
  std::size_t jobs;
};

std::vector<espresso::Option> options_of(const Setting& setting, const espresso::Job& job) {
  return setting.tree ? espresso::tree_options(false) : espresso::engine_options(job.cluster);
}

std::string setting_name(const Setting& setting) {
  return std::string(setting.tree ? "tree" : "engine") + ", " + std::to_string(setting.tensors);
}

void print_gaps(const char* search, const Setting& setting, std::vector<double> gaps) {
  std::sort(gaps.begin(), gaps.end());
  double sum = 0;
  for (const double gap : gaps) sum += gap;
  const auto count = static_cast<double>(gaps.size());
  const auto at = [&](double part) { return gaps[static_cast<std::size_t>(part * (count - 1))]; };
  const auto within =
      std::count_if(gaps.begin(), gaps.end(), [](double gap) { return gap <= 5; });
  std::printf("| %s | %s | %zu | %.3f | %.2f | %.2f | %.2f | %.0f %% |\n",
              setting_name(setting).c_str(), search, gaps.size(), sum / count, at(0.9), at(0.99),
              gaps.back(), 100 * static_cast<double>(within) / count);
}

void measure_gaps(const Setting& setting) {
  std::vector<double> paper, repeated;
  for (std::size_t seed = 0; seed < setting.jobs; ++seed) {
    const espresso::Job job = random_job(seed, setting.tensors, setting.tensors);
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

void measure_time(const Setting& setting) {
  std::vector<double> milliseconds;
  for (std::size_t seed = 0; seed < setting.jobs; ++seed) {
    const espresso::Job job = random_job(1000 + seed, setting.tensors, setting.tensors / 4);
    const std::vector<espresso::Option> options = options_of(setting, job);
    const auto begin = std::chrono::steady_clock::now();
    espresso::plan(job, options);
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
    milliseconds.push_back(taken.count());
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("| %s | %zu | %.2f | %.2f | %.2f |\n", setting_name(setting).c_str(), setting.jobs,
              milliseconds[setting.jobs / 2], milliseconds[setting.jobs * 9 / 10],
              milliseconds.back());
}

}  // namespace
}  // namespace ringpress::perf

int main() {
  using ringpress::perf::Setting;
  std::printf("| options, tensors | search | jobs | mean %% | p90 %% | p99 %% | max %% | within 5 %% |\n"
              "|---|---|---|---|---|---|---|---|\n");
  for (const Setting& setting : {Setting{false, 4, 300}, Setting{false, 5, 100},
                                 Setting{false, 6, 40}, Setting{true, 2, 100}}) {
    ringpress::perf::measure_gaps(setting);
  }
  std::printf("\n| options, tensors | jobs | median ms | p90 ms | max ms |\n|---|---|---|---|---|\n");
  for (const Setting& setting : {Setting{false, 32, 40}, Setting{false, 314, 40},
                                 Setting{true, 32, 40}, Setting{true, 314, 40}}) {
    ringpress::perf::measure_time(setting);
  }
}
